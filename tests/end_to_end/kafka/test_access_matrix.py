"""Every API of both listeners, asked by clients with no ACL, with each kind of ACL, and without each need in turn.

`python -m tests.end_to_end.kafka.differences access_matrix --record` asks Kafka anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

import pytest

from kraft.model.access import Operation
from kraft.model.errors import Refusal
from kraft.model.fetch import FetchResponse
from kraft.model.produce import ProduceResponse
from kraft.testing import Cluster
from kraft.wire.declaration import Message
from tests.end_to_end.kafka.differences import access_clients as clients
from tests.end_to_end.kafka.differences.access_brokers import kraft_with_users
from tests.end_to_end.kafka.differences.access_deliberate import ACCESS
from tests.end_to_end.kafka.differences.access_grpc import (
    ONLY_GRPC,
    GrpcClients,
    call_of,
    codes_by_topic,
    codes_in,
    only_grpc_calls,
    outcome,
)
from tests.end_to_end.kafka.differences.access_matrix import NO_IDS, REQUESTS, access_matrix, label_of, recorded_answers
from tests.end_to_end.kafka.differences.access_rows import Row, plain
from tests.end_to_end.kafka.differences.comparison import compare
from tests.end_to_end.kafka.differences.peer import ROOT, Peer
from tests.end_to_end.kafka.differences.scenarios import play
from tests.unit.server.access.cases import ROWS
from tests.unit.server.access.needs import on_id

# On a busy machine thousands of requests take longer.
pytestmark = pytest.mark.timeout(300)

UNASKED: Final = {
    "<ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: 71>": "Kafka serves it only with an exporter of metrics",
    "<ApiKey.PUSH_TELEMETRY: 72>": "likewise",
    "<ApiKey.SASL_HANDSHAKE: 17>": "every client has sent it, before anybody knew who it is",
    "<ApiKey.SASL_AUTHENTICATE: 36>": "likewise",
}
"""APIs of Kafka's listener that the matrix does not ask: anybody may call them."""

UNASKED_OVER_GRPC: Final = {
    "DescribeAwaitedReplicas": "it says something only of partitions that wait for replicas, and here none does",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with kraft_with_users() as running:
        yield running


class Asked:
    """Answers to all requests: over Kafka's listener, and, where gRPC has them, over gRPC right afterwards."""

    def __init__(self, cluster: Cluster) -> None:
        self.over_grpc: dict[str, Any] = {}
        with GrpcClients(cluster.bootstrap_servers) as grpc:
            self._grpc = grpc
            self.over_kafka = play(partial(access_matrix, beside=self._ask), cluster.kafka_bootstrap_servers, ROOT)
            self.only_over_grpc = {
                name: {
                    user: outcome(response)
                    for user, response in grpc.ask(call, ONLY_GRPC[name], clients.users_of(name)).items()
                }
                for name, call in only_grpc_calls()
            }

    def _ask(self, root: Peer, api: str, row: Row, users: list[str]) -> None:
        asked = call_of(api, row)
        if asked is None:
            return
        call, request = asked
        # Of those with all they need, a few are enough: the guards are the same.
        few = [each for each in users if each not in clients.WITHOUT or clients.is_refused(api, each)]
        for user, response in self._grpc.ask(call, request, few).items():
            if isinstance(response, Message):
                response = plain(root.plain(response, row.version, row.keep))
            self.over_grpc[label_of(row, user)] = response


@pytest.fixture(scope="module")
def asked(cluster: Cluster) -> Asked:
    return Asked(cluster)


@pytest.mark.slow
def test_each_client_gets_kafkas_answer(asked: Asked) -> None:
    comparison = compare(access_matrix.__name__, recorded_answers(), asked.over_kafka, ACCESS)
    assert [str(difference) for difference in comparison.unexplained] == []
    needed = [deliberate for _, deliberate in comparison.explained]
    assert [each for each in ACCESS if each not in needed] == []


# --- gRPC ------------------------------------------------------------------------------------------------------------


def is_same(over_kafka: Any, over_grpc: Any) -> bool:
    """Return whether the listeners agree. What gRPC refuses as a whole has its code in each part of Kafka's answer."""
    if isinstance(over_grpc, Refusal):
        return codes_in(over_kafka) == {int(over_grpc.error_code)}
    if isinstance(over_grpc, ProduceResponse | FetchResponse):
        return codes_by_topic(over_kafka) == codes_by_topic(over_grpc)
    return bool(over_kafka == over_grpc)


@pytest.mark.slow
def test_each_client_gets_the_same_over_grpc(asked: Asked) -> None:
    found = {
        label: (asked.over_kafka[label], answer)
        for label, answer in asked.over_grpc.items()
        if not is_same(asked.over_kafka[label], answer)
    }
    assert found == {}


@pytest.mark.slow
def test_what_only_grpc_has_is_refused_to_clients_that_lack_a_need_and_to_no_others(asked: Asked) -> None:
    for name, found in asked.only_over_grpc.items():
        refused = {user for user in clients.WITHOUT if found[user] != found[ROOT]}
        assert refused == {user for user in clients.WITHOUT if clients.lacks_a_need(user, clients.needs_of(name))}, name
        for kind in clients.KINDS:
            is_refused = kind in ("none", "deny", "elsewhere") and bool(clients.needs_of(name))
            assert (found[kind] != found[ROOT]) == is_refused, (name, kind)


# --- the table, by what Kafka answered -------------------------------------------------------------------------------


def test_every_api_of_both_listeners_is_asked() -> None:
    served = {name for name, api in ROWS.items() if api.key is not None}
    assert served - REQUESTS.keys() == UNASKED.keys()
    assert served >= REQUESTS.keys()
    only_grpc = {name for name, api in ROWS.items() if api.key is None}
    assert only_grpc - ONLY_GRPC.keys() == UNASKED_OVER_GRPC.keys()
    over_grpc = {api for api in REQUESTS for row in REQUESTS[api](NO_IDS) if call_of(api, row) is not None}
    # Over gRPC only nodes write markers.
    assert over_grpc == {name for name in REQUESTS if ROWS[name].call is not None} - {"WriteTxnMarkers"}


NOT_SENT: Final = {"InitProducerId": on_id(Operation.TWO_PHASE_COMMIT)}
"""A need of versions that are not served yet."""


def operations_left_out(answer: Any) -> str:
    """Return an answer without the operations that the client may do: they differ by themselves."""
    return re.sub(r"'\w+_authorized_operations': -?\d+|'authorized_operations': -?\d+", "", repr(answer))


_AUTHORIZATION_FAILED: Final = re.compile(r"error_code': (29|30|31|53)\b")


def is_refused(row: Row, user: str, kafka: Mapping[str, Any]) -> bool:
    """Return whether Kafka answered a client otherwise than the super user, or, if that did not ask, refused it."""
    if row.only_refused:
        return bool(_AUTHORIZATION_FAILED.search(repr(kafka.get(label_of(row, user)))))
    found, full = (operations_left_out(kafka[label_of(row, each)]) for each in (user, ROOT))
    return found != full


@pytest.mark.parametrize("api", REQUESTS)
def test_kafka_refused_a_client_that_lacks_a_need_of_the_table_and_no_other(api: str) -> None:
    """So a guard that no longer asks for one, or asks for another, is noticed by the comparison above."""
    kafka = recorded_answers()
    requests = list(REQUESTS[api](NO_IDS))
    refused = {user for user in clients.WITHOUT if any(is_refused(row, user, kafka) for row in requests)}
    needs = [each for each in clients.needs_of(api) if NOT_SENT.get(api) not in each]
    assert refused == {user for user in clients.WITHOUT if clients.lacks_a_need(user, needs)}
