"""Every API of Kafka's listener, asked by clients that differ in nothing but their ACLs.

The answers of all clients are thousands, and few of them differ: so those to one request are kept by the answer, with
the clients that got it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from uuid import UUID

from kraft.client.aio.acl_admin import creation_of
from kraft.sasl.scram import ITERATIONS_MIN, ScramMechanism, salted_password
from kraft.wire.schema.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kraft.wire.schema.metadata import MetadataRequest, MetadataRequestTopic
from tests.end_to_end.kafka.differences import access_clients as clients
from tests.end_to_end.kafka.differences import recorded
from tests.end_to_end.kafka.differences.access_cluster_requests import CLUSTER_REQUESTS
from tests.end_to_end.kafka.differences.access_group_requests import GROUP_REQUESTS
from tests.end_to_end.kafka.differences.access_requests import RECORD_REQUESTS, TOPIC_REQUESTS
from tests.end_to_end.kafka.differences.access_rows import Ids, Row, plain
from tests.end_to_end.kafka.differences.acl_scenarios import FILTER, described
from tests.end_to_end.kafka.differences.batches import batch
from tests.end_to_end.kafka.differences.group_requests import commit, first_heartbeat, wait_coordinated
from tests.end_to_end.kafka.differences.peer import PASSWORD, ROOT, Peer
from tests.end_to_end.kafka.differences.produce_scenarios import produce
from tests.end_to_end.kafka.differences.transaction_scenarios import add_partitions, ready
from tests.unit.server.access.needs import GROUP, TOPIC, TRANSACTION

_FIRST: Final = ("ConsumerGroupDescribe", "DescribeTransactions", "ListTransactions")
"""They are sent before members and transactions that they tell of could time out."""

REQUESTS: Final = {
    **{api: GROUP_REQUESTS[api] for api in _FIRST},
    **TOPIC_REQUESTS,
    **GROUP_REQUESTS,
    **CLUSTER_REQUESTS,
    **RECORD_REQUESTS,
}
"""Requests by the names of rows of the table of APIs, in the order in which they are sent."""

_TO: Final = " to "
_OTHERS: Final = "all others"
"""In a record: the clients that get what the super user gets."""

_NUMBERS: Final = "numbers of topics"
_TRANSACTION_MS: Final = 900_000
"""As long as a broker allows: the end of a transaction would change what Fetch tells."""

_SALT: Final = b"salt of the tests"


def rows(ids: Ids) -> Iterator[tuple[str, Row]]:
    """Yield the requests, each with the name of its API."""
    for api, requests in REQUESTS.items():
        for row in requests(ids):
            yield api, row


def asking(api: str, row: Row) -> list[str]:
    """Return the clients that send a request."""
    return [each for each in clients.users_of(api) if not row.only_refused or clients.is_refused(api, each)]


def label_of(row: Row, user: str) -> str:
    return f"{row.label}{_TO}{user}"


Beside = Callable[[Peer, str, Row, list[str]], None]
"""Called with the super user's connection, the name of an API, its request, and the clients that were just answered."""


def access_matrix(root: Peer, beside: Beside = lambda *_: None) -> None:
    """`root` is a connection of the super user. An answer's label is that of the request and the client."""
    ids = prepare(root)
    peers = {user: root.beside(user) for user in clients.users()}
    for api, row in rows(ids):
        users = asking(api, row)
        # All wait at once: on a busy machine an answer takes less time than the turns of broker and test.
        for some in [[user] for user in users] if row.one_by_one else [users]:
            for user in some:
                peers[user].begin(row.request, row.version)
            for user in some:
                label = label_of(row, user)
                peers[user].end(label, row.keep)
                root.answers[label] = plain(root.answers[label])
        beside(root, api, row, users)


# --- what is there to be touched -------------------------------------------------------------------------------------


def prepare(root: Peer) -> Ids:
    _add_users(root)
    ids = Ids(topic=root.create_topic(TOPIC, retention_ms="604800000"), other=root.create_topic(clients.OTHER))
    for name in (TOPIC, clients.OTHER):
        root.call(produce(12, name, ids.topic, batch("a")), 12)
    kept = root.create_topic("other-kept")
    groups = (GROUP, clients.OTHER_GROUP)
    wait_coordinated(root, *groups, clients.MEMBERS, clients.OTHER_MEMBERS)
    for group in groups:
        for name in (TOPIC, clients.OTHER, "other-kept"):
            _check_committed(root.call(commit(9, group, name, kept, offset=1, metadata=""), 9))
    _join(root, clients.MEMBERS, TOPIC)
    _join(root, clients.OTHER_MEMBERS, clients.OTHER)
    producer = ready(root, TRANSACTION, timeout_ms=_TRANSACTION_MS)
    begun = root.call(add_partitions(TRANSACTION, producer, **{TOPIC: (0,), clients.OTHER: (0,)}), 3)
    for each in begun.results_by_topic_v3_and_below:
        assert {one.partition_error_code for one in each.results_by_partition} == {0}, begun
    ready(root, clients.OTHER_TRANSACTION)
    ready(root, clients.NEW_TRANSACTION)
    _add_acls(root)
    # So ids have numbers before anybody is answered.
    named = tuple(MetadataRequestTopic(name=name) for name in (TOPIC, clients.OTHER))
    root.ask(
        _NUMBERS, MetadataRequest(topics=named), 12, lambda answer: [each["topic_id"] for each in answer["topics"]]
    )
    del root.answers[_NUMBERS]
    return ids


def _add_users(root: Peer) -> None:
    mechanism = ScramMechanism.SHA_256
    salted = salted_password(mechanism, PASSWORD, _SALT, ITERATIONS_MIN)
    upsertions = tuple(
        ScramCredentialUpsertion(name=user, mechanism=1, iterations=ITERATIONS_MIN, salt=_SALT, salted_password=salted)
        for user in clients.users()
    )
    added = root.call(AlterUserScramCredentialsRequest(deletions=(), upsertions=upsertions), 0)
    assert {each.error_code for each in added.results} == {0}, added


def _join(root: Peer, group: str, topic: str) -> None:
    """Give a group its member, which has the partition of the topic, and an offset of it."""
    joined = root.until(
        first_heartbeat(group, "member", (topic,)),
        1,
        lambda answer: answer.assignment is not None and bool(answer.assignment.topic_partitions),
    )
    by_member = commit(9, group, topic, offset=1, metadata="", member=("member", joined.member_epoch))
    _check_committed(root.call(by_member, 9))


def _check_committed(committed: Any) -> None:
    assert committed.topics[0].partitions[0].error_code == 0, committed


def _add_acls(root: Peer) -> None:
    entries = clients.acls()
    created = root.call(creation_of(entries), 3)
    assert {each.error_code for each in created.results} == {0}, created
    root.until(
        described(FILTER), 3, lambda answer: sum(len(each.acls) for each in answer.resources) == len(set(entries))
    )


# --- records ---------------------------------------------------------------------------------------------------------


def record(answers: Mapping[str, Any]) -> None:
    """Keep each distinct answer to a request once, with the clients that got it."""
    to: dict[tuple[str, str], list[str]] = {}
    for label, answer in answers.items():
        asked, _, user = label.partition(_TO)
        to.setdefault((asked, json.dumps(answer)), []).append(user)
    recorded.write(
        access_matrix.__name__,
        {
            f"{asked}{_TO}{_OTHERS if ROOT in users else ', '.join(users)}": json.loads(answer)
            for (asked, answer), users in to.items()
        },
    )


def recorded_answers() -> dict[str, Any]:
    """Return the answer to each client."""
    found: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for key, answer in recorded.read(access_matrix.__name__).items():
        label, _, users = key.partition(_TO)
        if users == _OTHERS:
            others[label] = answer
        else:
            found |= {f"{label}{_TO}{user}": answer for user in users.split(", ")}
    for api, row in rows(NO_IDS):
        for user in asking(api, row):
            label = label_of(row, user)
            if label not in found and row.label in others:
                found[label] = others[row.label]
    return found


NO_IDS: Final = Ids(topic=UUID(int=1), other=UUID(int=2))
