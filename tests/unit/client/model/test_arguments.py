"""Arguments of a wrong type: the call that gets one names it, and the client stays as it was."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from kraft.client.aio.consumer import Consumer
from kraft.client.aio.producer import Producer
from kraft.client.model.arguments import (
    checked_headers,
    checked_names,
    checked_partitions,
    checked_timestamp,
    checked_topic,
)
from kraft.client.model.errors import InvalidSetting
from kraft.client.model.settings import ConsumerSettings, settings_of
from kraft.metadata.topic_names import TOPIC_NAME_LENGTH_MAX
from kraft.model.errors import Refusal
from kraft.model.ids import TopicPartition
from tests.support.client.fake_cluster import FakeCluster, tp
from tests.support.virtual_time import virtual_network
from tests.unit.client.clients import admin_of, consumer_of

NO_TOPIC: Any = b"orders"
TEXT: Any = "5"


class Index:
    """A number as numpy has it."""

    def __index__(self) -> int:
        return 5


@pytest.mark.parametrize(
    "headers", [[("a", b"1"), ("b", None)], [["a", b"1"], ["b", None]], iter([("a", b"1"), ("b", None)])]
)
def test_headers_are_pairs(headers: Any) -> None:
    assert checked_headers(headers) == (("a", b"1"), ("b", None))


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"a": b"1"}, r"headers must be a list of \(name, bytes\) pairs, not dict; give list\(headers.items\(\)\)"),
        (None, r"headers must be a list of \(name, bytes\) pairs, not NoneType"),
        ("ab", r"headers must be a list of \(name, bytes\) pairs, not str"),
        (["ab"], "a header must be a pair of name and bytes, not 'ab'"),
        ([("a", b"1", 2)], "a header must be a pair of name and bytes"),
        ([(b"a", b"1")], "the name of a header must be text, not bytes"),
        ([("a", "1")], "header must be bytes or None, not str; encode it first"),
    ],
)
def test_other_headers_are_refused(headers: Any, reason: str) -> None:
    with pytest.raises(TypeError, match=reason):
        checked_headers(headers)


def test_a_timestamp_is_a_whole_number() -> None:
    number: Any = Index()
    assert checked_timestamp(number) == 5
    for wrong in (1.5, "5", None):
        with pytest.raises(TypeError, match="timestamp_ms, the milliseconds since 1970, must be a whole number, not"):
            checked_timestamp(wrong)  # type: ignore[arg-type]  # What a caller without a type checker does.


def test_one_partition_or_name_is_no_list_of_them() -> None:
    wrong: Any
    for wrong in (tp("orders"), "orders", b"orders", 5, None):
        with pytest.raises(TypeError, match="expected a list of TopicPartition, not"):
            checked_partitions(wrong)
    for wrong in ("orders", b"orders", 5, None):
        with pytest.raises(TypeError, match="expected a list of names, not"):
            checked_names(wrong)
    for wrong in ([("orders", 0)], [["orders", 0]], ["orders"]):
        with pytest.raises(TypeError, match="is not a TopicPartition, such as TopicPartition"):
            checked_partitions(wrong)


async def test_a_producer_goes_on_after_wrong_arguments() -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    wrong: dict[str, Any]
    async with Producer(cluster.bootstrap_servers, network=virtual_network(cluster)) as producer:
        for wrong in (
            {"topic": NO_TOPIC},
            {"topic": None},
            {"timestamp_ms": 1.5},
            {"partition": "0"},
            {"headers": {"a": b""}},
        ):
            with pytest.raises(TypeError, match="must be"):
                await producer.send(**{"topic": "orders", "value": b"", **wrong})
        with pytest.raises(TypeError, match="the name of a topic must be text, not bytes"):
            await producer.produce_many(NO_TOPIC, [b"1"])
        with pytest.raises(TypeError, match="the name of a topic must be text, not bytes"):
            await producer.partitions_for(NO_TOPIC)
        assert (await producer.send_and_wait("orders", b"1")).offset == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda consumer: consumer.assign("orders"),
        lambda consumer: consumer.assign(tp("orders")),
        lambda consumer: consumer.assign([("orders", 0)]),
        lambda consumer: consumer.assign([TopicPartition("orders", TEXT)]),
        lambda consumer: consumer.seek([tp("orders")], 5),
        lambda consumer: consumer.seek(("orders", 0), 5),
        lambda consumer: consumer.seek(tp("orders"), TEXT),
        lambda consumer: consumer.seek_to_beginning([tp("orders")]),
        lambda consumer: consumer.pause([tp("orders")]),
    ],
)
async def test_a_consumer_keeps_its_assignment_after_wrong_arguments(call: Callable[[Consumer], None]) -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    async with consumer_of(cluster, group_id="g", enable_auto_commit=False) as consumer:
        consumer.assign([tp("orders")])
        with pytest.raises(TypeError, match=r"TopicPartition|must be|expected|a list of topics"):
            call(consumer)
        assert consumer.assignment() == [tp("orders")]


async def test_a_consumer_asks_for_no_offsets_of_what_is_no_partition() -> None:
    cluster = FakeCluster()
    wrong: Any = ["orders"]
    async with consumer_of(cluster, group_id="g") as consumer:
        for call in (consumer.committed, consumer.end_offsets, consumer.beginning_offsets):
            with pytest.raises(TypeError, match="'orders' is not a TopicPartition"):
                await call(wrong)
        with pytest.raises(TypeError, match="expected a dict of TopicPartition and timestamp, not list"):
            await consumer.offsets_for_times(wrong)
        with pytest.raises(TypeError, match="expected a dict of TopicPartition and offset, not list"):
            await consumer.commit(wrong)


async def test_the_admin_client_takes_no_text_for_a_list() -> None:
    cluster = FakeCluster()
    text: Any = "ab"
    async with admin_of(cluster) as admin:
        for call in (
            admin.delete_topics,
            admin.describe_topics,
            admin.describe_transactions,
            admin.describe_consumer_groups,
            admin.delete_consumer_groups,
        ):
            with pytest.raises(TypeError, match="expected a list of names, not 'ab'"):
                await call(text)
        with pytest.raises(TypeError, match="expected a list of NewTopic, not 'ab'"):
            await admin.create_topics(text)
        with pytest.raises(TypeError, match="partitions must be a whole number, not str"):
            await admin.create_topic("orders", text)
        with pytest.raises(TypeError, match="the name of a topic must be text, not list"):
            await admin.create_topic(["orders"])  # type: ignore[arg-type]  # As above.


@pytest.mark.parametrize(
    "servers", [9094, b"localhost:9094", {"bootstrap.servers": "localhost:9094"}, ("localhost", 9094), None]
)
def test_addresses_are_text_or_a_list_of_texts(servers: Any) -> None:
    with pytest.raises(InvalidSetting, match=r"bootstrap.servers: expected 'HOST\[:PORT\],...' or a list of such, not"):
        settings_of(ConsumerSettings, servers, {})


def test_addresses_may_be_among_the_other_settings() -> None:
    assert settings_of(ConsumerSettings, "x", {"bootstrap.servers": "y:1"}).bootstrap_servers == ("y:1",)


def test_a_setting_that_has_no_utf_8_is_named() -> None:
    with pytest.raises(InvalidSetting, match=r"group\.id: 'b\\udcff' is not valid Unicode at character 2"):
        settings_of(ConsumerSettings, "x", {"group.id": os.fsdecode(b"b\xff")})


async def test_a_topic_name_that_is_too_long_is_refused_before_it_is_sent() -> None:
    long = "a" * (TOPIC_NAME_LENGTH_MAX + 1)
    assert checked_topic(long[1:]) == long[1:]
    async with admin_of(FakeCluster()) as admin, consumer_of(FakeCluster()) as consumer:
        for call in (
            admin.create_topic(long),
            admin.delete_topics([long]),
            admin.describe_topics([long]),
            admin.find_topics([long]),
            admin.list_offsets({tp(long): 0}),
            consumer.partitions_for(long),
        ):
            with pytest.raises(Refusal, match=r"topic name 'aaa.*has 250 char.*use at most 249"):
                await call


async def test_a_timeout_is_a_number() -> None:
    async with consumer_of(FakeCluster()) as consumer:
        consumer.assign([tp("orders")])
        with pytest.raises(TypeError, match="timeout_ms must be a whole number, not str"):
            await consumer.poll(TEXT)
