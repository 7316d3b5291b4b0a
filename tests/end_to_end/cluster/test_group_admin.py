"""The admin client's calls for groups of members that other clients run, on real nodes."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer as Librdkafka
from kafka import KafkaConsumer

from kraft.client import Admin, GroupDescription, OffsetAndMetadata, Producer, Refusal, TopicPartition
from kraft.model.errors import ErrorCode
from kraft.testing import Cluster
from tests.support.kafka.python_clients import ASKS_AGAIN
from tests.support.waiting import until

RECORDS = 20
DEADLINE_S = 60
ORDERS = [TopicPartition("orders", number) for number in range(2)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, overrides={"group.lag.look.interval.ms": "200"}) as running:
        with Admin(running.bootstrap_servers) as admin, Producer(running.bootstrap_servers) as producer:
            admin.create_topic("orders", 2, 3)
            for number in range(RECORDS):
                producer.send("orders", b"%d" % number, partition=number % 2)
        yield running


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin(cluster.bootstrap_servers) as made:
        yield made


def classic_member(cluster: Cluster) -> KafkaConsumer:
    """A member of the classic protocol that has read and committed everything."""
    member = KafkaConsumer(
        "orders",
        bootstrap_servers=cluster.kafka_bootstrap_servers,
        group_id="old",
        client_id="python",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        **ASKS_AGAIN,
    )
    deadline_s, count = time.monotonic() + DEADLINE_S, 0
    while count < RECORDS:
        count += sum(map(len, member.poll(1_000).values()))
        assert time.monotonic() < deadline_s, f"{count} records"
    member.commit()
    return member


def consumer_member(cluster: Cluster) -> Librdkafka:
    """The same of the consumer protocol."""
    member = Librdkafka(
        {
            "bootstrap.servers": cluster.kafka_bootstrap_servers,
            "group.id": "new",
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    member.subscribe(["orders"])
    deadline_s, count = time.monotonic() + DEADLINE_S, 0
    while count < RECORDS:
        count += member.poll(1) is not None
        assert time.monotonic() < deadline_s, f"{count} records"
    member.commit(asynchronous=False)
    return member


def assignments(group: GroupDescription) -> list[list[TopicPartition]]:
    return [list(each.assignment) for each in group.members]


def codes(results: dict[str, Refusal | None]) -> dict[str, ErrorCode]:
    return {name: ErrorCode.NONE if each is None else each.error_code for name, each in results.items()}


def lags(admin: Admin) -> dict[str, list[int]]:
    return {each.group_id: [found.lag for found in each.partitions] for each in admin.describe_group_lags()}


@pytest.mark.slow
def test_groups_are_shown_and_deleted_and_their_offsets_changed(cluster: Cluster, admin: Admin) -> None:
    old_member, new_member = classic_member(cluster), consumer_member(cluster)
    try:
        listed = admin.list_groups()
        assert [(each.group_id, each.type, each.protocol_type) for each in listed] == [
            ("new", "consumer", "consumer"),
            ("old", "classic", "consumer"),
        ]
        new, old = admin.describe_consumer_groups(["new", "old"])
        assert assignments(new) == assignments(old) == [ORDERS]
        assert (old.members[0].client_id, old.members[0].host) == ("python", "/127.0.0.1")
        everything = dict.fromkeys(ORDERS, RECORDS // 2)
        many = admin.describe_many_groups(["old", "new", "none"])
        assert (many["old"], many["new"]) == (old, new)
        assert isinstance(many["none"], Refusal)
        assert many["none"].error_code is ErrorCode.GROUP_ID_NOT_FOUND
        of_many = admin.list_offsets_of_many_groups(["old", "none"])
        assert of_many == {"old": admin.list_consumer_group_offsets("old"), "none": {}}
        for group_id in ("old", "new"):
            committed = admin.list_consumer_group_offsets(group_id, require_stable=True)
            assert {partition: each.offset for partition, each in committed.items()} == everything
        # Their coordinators ask the leaders, which are other brokers for some of the partitions.
        until(lambda: lags(admin) == {"new": [0, 0], "old": [0, 0]}, lambda: f"lags are {lags(admin)}")
        deleted = admin.delete_consumer_groups(["old", "new", "none"])
        assert codes(deleted) == {
            "old": ErrorCode.NON_EMPTY_GROUP,
            "new": ErrorCode.NON_EMPTY_GROUP,
            "none": ErrorCode.GROUP_ID_NOT_FOUND,
        }
        with pytest.raises(Refusal) as caught:
            admin.alter_consumer_group_offsets("old", {ORDERS[0]: 3})
        assert caught.value.error_code is ErrorCode.UNKNOWN_MEMBER_ID
    finally:
        old_member.close()
        new_member.close()
    until(lambda: len(admin.list_groups(states=["Empty"])) == 2, "the members have left", DEADLINE_S)
    assert set(admin.alter_consumer_group_offsets("old", {ORDERS[0]: OffsetAndMetadata(3, "again")}).values()) == {None}
    assert admin.list_consumer_group_offsets("old", ORDERS[:1]) == {ORDERS[0]: OffsetAndMetadata(3, "again")}
    assert admin.delete_consumer_group_offsets("old", ORDERS[:1]) == {ORDERS[0]: None}
    assert list(admin.list_consumer_group_offsets("old")) == ORDERS[1:]
    assert codes(admin.delete_consumer_groups(["old", "new"])) == {"old": ErrorCode.NONE, "new": ErrorCode.NONE}
    assert admin.list_groups() == []


def test_clients_see_that_the_cluster_has_the_consumer_protocol(admin: Admin) -> None:
    levels = {each.feature: each.finalized_level for each in admin.describe_features().features}
    assert levels["group.version"] == 1
