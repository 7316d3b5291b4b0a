"""Every API of both listeners, asked by clients with no ACL, with each kind of ACL, and without each need in turn.

`python -m tests.end_to_end.kafka.differences access_matrix --record` asks Kafka anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from kraft.model.access import Operation
from kraft.testing import Cluster
from tests.end_to_end.kafka.differences import access_clients as clients
from tests.end_to_end.kafka.differences.access_brokers import kraft_with_users
from tests.end_to_end.kafka.differences.access_deliberate import ACCESS
from tests.end_to_end.kafka.differences.access_matrix import NO_IDS, REQUESTS, access_matrix, label_of, recorded_answers
from tests.end_to_end.kafka.differences.access_rows import Row
from tests.end_to_end.kafka.differences.comparison import compare
from tests.end_to_end.kafka.differences.peer import ROOT
from tests.end_to_end.kafka.differences.scenarios import play
from tests.unit.server.access.cases import ROWS
from tests.unit.server.access.needs import on_id

UNASKED: Final = {
    "<ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: 71>": "Kafka serves it only with an exporter of metrics",
    "<ApiKey.PUSH_TELEMETRY: 72>": "likewise",
    "<ApiKey.SASL_HANDSHAKE: 17>": "every client has sent it, before anybody knew who it is",
    "<ApiKey.SASL_AUTHENTICATE: 36>": "likewise",
}
"""APIs of Kafka's listener that the matrix does not ask: anybody may call them."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with kraft_with_users() as running:
        yield running


@pytest.fixture(scope="module")
def answers(cluster: Cluster) -> dict[str, Any]:
    return play(access_matrix, cluster.kafka_bootstrap_servers, ROOT)


def test_each_client_gets_kafkas_answer(answers: dict[str, Any]) -> None:
    comparison = compare(access_matrix.__name__, recorded_answers(), answers, ACCESS)
    assert [str(difference) for difference in comparison.unexplained] == []
    needed = [deliberate for _, deliberate in comparison.explained]
    assert [each for each in ACCESS if each not in needed] == []


# --- the table, by what Kafka answered -------------------------------------------------------------------------------


def test_every_api_of_kafkas_listener_is_asked() -> None:
    served = {name for name, api in ROWS.items() if api.key is not None}
    assert served - REQUESTS.keys() == UNASKED.keys()
    assert served >= REQUESTS.keys()


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
