"""Our SDK at a real node that asks what everybody may do: the same guards stand before the same handlers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from kraft.client import Admin, Consumer, ErrorCode, Producer, Refusal, TopicPartition
from kraft.metadata.acl_filters import AclFilter
from kraft.model.access import Operation, ResourceType
from tests.support.closed_clusters import ClosedCluster, admin_of_node, closed_cluster
from tests.support.kafka.access_rules import AUTHORIZED, on_group, on_id, on_topic

TOPIC = "orders"
SECONDS = 30
MS = 1_000 * SECONDS


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClosedCluster]:
    with closed_cluster(tmp_path_factory.mktemp("closed"), 1, AUTHORIZED) as running:
        yield running


@pytest.fixture
def node(closed: ClosedCluster) -> Iterator[Admin]:
    """An admin client that nobody asks, on a cluster with the topic and no ACL."""
    with admin_of_node(closed.cluster) as admin:
        if TOPIC not in {each.topic for each in admin.describe_topics()}:
            admin.create_topic(TOPIC, 1, 1)
        yield admin
        admin.delete_acls([AclFilter()])


def sent(closed: ClosedCluster) -> ErrorCode | None:
    """Send a record; return the error code, or None."""
    with Producer(closed.bootstrap_servers, **closed.settings()) as producer:
        try:
            producer.send(TOPIC, b"x", partition=0).result(SECONDS)
        except Refusal as refusal:
            return refusal.error_code
    return None


def refusal_of(closed: ClosedCluster) -> ErrorCode | None:
    with Consumer(closed.bootstrap_servers, **closed.settings()) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0)])
        consumer.seek_to_beginning()
        try:
            assert consumer.poll(MS)
        except Refusal as refusal:
            return refusal.error_code
    return None


def test_a_producer_needs_write(closed: ClosedCluster, node: Admin) -> None:
    assert sent(closed) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    node.create_acls([on_topic(TOPIC, Operation.READ, "alice")])
    assert sent(closed) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "it may write no topic, so it gets no producer id"
    node.create_acls([on_topic("other", Operation.WRITE, "alice")])
    assert sent(closed) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    node.create_acls([on_topic(TOPIC, Operation.WRITE, "alice")])
    assert sent(closed) is None


def test_a_consumer_needs_read_and_loses_it_while_it_waits(closed: ClosedCluster, node: Admin) -> None:
    node.create_acls([on_topic(TOPIC, Operation.WRITE, "alice")])
    assert sent(closed) is None
    assert refusal_of(closed) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    node.create_acls([on_topic(TOPIC, Operation.READ, "alice")])
    assert refusal_of(closed) is None
    with Consumer(closed.bootstrap_servers, **closed.settings()) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0)])
        consumer.seek_to_beginning()
        assert consumer.poll(MS)
        node.delete_acls([AclFilter(operation=Operation.READ)])
        with pytest.raises(Refusal) as refused:
            consumer.poll(MS)
        assert refused.value.error_code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_group_and_a_transactional_id_need_rights_of_their_own(closed: ClosedCluster, node: Admin) -> None:
    node.create_acls([on_topic(TOPIC, Operation.ALL, "alice")])
    with Consumer(closed.bootstrap_servers, group_id="billing", **closed.settings()) as consumer:
        consumer.subscribe([TOPIC])
        with pytest.raises(Refusal) as refused:
            consumer.poll(MS)
    assert refused.value.error_code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    with (
        pytest.raises(Refusal) as refused,
        Producer(closed.bootstrap_servers, transactional_id="payments", **closed.settings()) as producer,
    ):
        producer.begin_transaction()
    assert refused.value.error_code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    node.create_acls([on_group("billing", Operation.READ, "alice"), on_id("payments", Operation.WRITE, "alice")])
    with (
        Producer(closed.bootstrap_servers, transactional_id="payments", **closed.settings()) as producer,
        producer.transaction(),
    ):
        producer.send(TOPIC, b"paid", partition=0)
    group: dict[str, Any] = {"group_id": "billing", "auto_offset_reset": "earliest"}
    with Consumer(closed.bootstrap_servers, **group, **closed.settings()) as consumer:
        consumer.subscribe([TOPIC])
        assert consumer.poll(MS)


@pytest.mark.parametrize(
    ("protocol", "more"), [("consumer", {}), ("classic", {"heartbeat_interval_ms": 500, "session_timeout_ms": 6_000})]
)
def test_a_member_loses_the_right_to_its_group_and_reads_on_once_it_has_it_again(
    closed: ClosedCluster, node: Admin, protocol: str, more: dict[str, Any]
) -> None:
    right = on_group(protocol, Operation.READ, "alice")
    node.create_acls([on_topic(TOPIC, Operation.ALL, "alice"), right])
    assert sent(closed) is None
    group: dict[str, Any] = {"group_id": protocol, "group_protocol": protocol, "auto_offset_reset": "earliest"}
    group |= {"enable_auto_commit": False, **more}
    with Consumer(closed.bootstrap_servers, **group, **closed.settings()) as consumer:
        consumer.subscribe([TOPIC])
        assert consumer.poll(MS)
        node.delete_acls([AclFilter(resource_type=ResourceType.GROUP)])
        with pytest.raises(Refusal, match="GROUP_AUTHORIZATION_FAILED"):
            poll_for(consumer, SECONDS)
        with pytest.raises(Refusal, match="GROUP_AUTHORIZATION_FAILED"):
            consumer.commit()
        node.create_acls([right])
        assert sent(closed) is None
        assert read_after_errors(consumer)
        consumer.commit()


def poll_for(consumer: Consumer, seconds: float) -> None:
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        consumer.poll(1_000)


def read_after_errors(consumer: Consumer) -> bool:
    """Return whether a record comes; a heartbeat that was refused earlier may be told first."""
    until_s = time.monotonic() + SECONDS
    while time.monotonic() < until_s:
        with suppress(Refusal):
            if consumer.poll(1_000):
                return True
    return False


def test_an_administrator_needs_the_rights_that_kafka_asks_for(closed: ClosedCluster, node: Admin) -> None:
    with Admin(closed.bootstrap_servers, **closed.settings()) as admin:
        assert admin.describe_topics() == []
        for attempt, code in (
            (lambda: admin.create_topic("new", 1, 1), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            (lambda: admin.describe_topics([TOPIC]), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            (lambda: admin.delete_topics([TOPIC]), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            (admin.describe_acls, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
            (lambda: admin.set_password("eve", "a password", "SCRAM-SHA-256"), ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        ):
            with pytest.raises(Refusal) as refused:
                attempt()
            assert refused.value.error_code is code
