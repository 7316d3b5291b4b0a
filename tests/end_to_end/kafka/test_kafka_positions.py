"""Positions of Kafka's consumers: seeks to an offset, a time and the ends, and positions that do not exist."""

from __future__ import annotations

import asyncio

import aiokafka
import kafka
import pytest
from confluent_kafka import OFFSET_END, KafkaError, Producer, TopicPartition

from tests.end_to_end.kafka.kafka_consumers import (
    BEGAN_MS,
    DEADLINE_S,
    confluent_consumer,
    fill,
    kafka_python_consumer,
    polled,
    value_of,
)


@pytest.mark.parametrize(("word", "first"), [("smallest", b"0"), ("largest", b"later")])
def test_an_offset_that_is_not_there_is_replaced_by_smallest_or_largest(
    servers: str, topic: str, word: str, first: bytes
) -> None:
    fill(servers, topic)
    with confluent_consumer(
        servers, **{"enable.partition.eof": True, "default.topic.config": {"auto.offset.reset": word}}
    ) as c:
        c.assign([TopicPartition(topic, 0, 10_000)])
        if word == "largest":
            error = polled(c).error()
            assert error is not None
            assert error.code() == KafkaError._PARTITION_EOF
            p = Producer({"bootstrap.servers": servers})
            p.produce(topic, b"later", partition=0)
            assert p.flush(DEADLINE_S) == 0
        assert value_of(polled(c)) == first


def test_the_end_of_a_partition_is_reported_each_time_it_is_reached(servers: str, topic: str) -> None:
    fill(servers, topic, 1)
    with confluent_consumer(servers, **{"enable.partition.eof": True}) as c:
        c.assign([TopicPartition(topic, 0, 0), TopicPartition(topic, 1, 0)])
        ends: set[tuple[int | None, int | None]] = set()
        while ends != {(0, 1), (1, 0)}:
            msg = polled(c)
            if (error := msg.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF
                ends.add((msg.partition(), msg.offset()))
        fill(servers, topic, 1)
        assert value_of(polled(c)) == b"0"
        error = polled(c).error()
        assert error is not None
        assert error.code() == KafkaError._PARTITION_EOF


def test_confluents_consumer_moves_about(servers: str, topic: str) -> None:
    fill(servers, topic)
    place = TopicPartition(topic, 0)
    with confluent_consumer(servers) as c:
        assert topic in c.list_topics(timeout=DEADLINE_S).topics
        assert c.get_watermark_offsets(place, timeout=DEADLINE_S) == (0, 10)
        times = {BEGAN_MS: 0, BEGAN_MS + 3_500: 4, BEGAN_MS + 9_000: 9, BEGAN_MS + 9_001: OFFSET_END}
        for time_ms, offset in times.items():
            (found,) = c.offsets_for_times([TopicPartition(topic, 0, time_ms)], timeout=DEADLINE_S)
            assert found.offset == offset

        c.assign([TopicPartition(topic, 0, 7)])
        assert value_of(polled(c)) == b"7"
        (position,) = c.position([place])
        assert position.offset == 8
        c.seek(TopicPartition(topic, 0, 2))
        assert value_of(polled(c)) == b"2"
        c.pause([place])
        # What was fetched before is thrown away by it, and nothing more comes.
        assert c.poll(0.5) is None
        c.resume([place])
        assert value_of(polled(c)) == b"3"


def test_kafka_pythons_consumer_moves_about(servers: str, topic: str) -> None:
    fill(servers, topic)
    first, second = (kafka.TopicPartition(topic, number) for number in range(2))
    with kafka_python_consumer(servers) as consumer:
        assert topic in consumer.topics()
        assert consumer.partitions_for_topic(topic) == {0, 1}
        assert consumer.beginning_offsets([first, second]) == {first: 0, second: 0}
        assert consumer.end_offsets([first, second]) == {first: 10, second: 0}
        found = consumer.offsets_for_times({first: BEGAN_MS + 3_500, second: BEGAN_MS})
        assert (found[first].offset, found[first].timestamp, found[second]) == (4, BEGAN_MS + 4_000, None)
        assert consumer.offsets_for_times({first: BEGAN_MS + 9_001}) == {first: None}

        consumer.assign([first])
        consumer.seek(first, 7)
        assert next(consumer).value == b"7"
        assert consumer.position(first) == 8
        consumer.seek_to_beginning(first)
        assert next(consumer).value == b"0"
        consumer.seek_to_end(first)
        assert consumer.position(first) == 10
        consumer.seek(first, 2)
        consumer.pause(first)
        assert consumer.paused() == {first}
        assert consumer.poll(timeout_ms=500) == {}
        consumer.resume(first)
        assert next(consumer).value == b"2"
        assert consumer.highwater(first) == 10


def test_aiokafkas_consumer_moves_about(servers: str, topic: str) -> None:
    fill(servers, topic)
    place = aiokafka.TopicPartition(topic, 0)

    async def move() -> None:
        async with asyncio.timeout(DEADLINE_S), aiokafka.AIOKafkaConsumer(bootstrap_servers=servers) as consumer:
            assert topic in await consumer.topics()
            assert await consumer.beginning_offsets([place]) == {place: 0}
            assert await consumer.end_offsets([place]) == {place: 10}
            found = await consumer.offsets_for_times({place: BEGAN_MS + 3_500})
            assert (found[place].offset, found[place].timestamp) == (4, BEGAN_MS + 4_000)
            consumer.assign([place])
            consumer.seek(place, 7)
            assert (await consumer.getone()).value == b"7"
            assert await consumer.position(place) == 8
            await consumer.seek_to_beginning(place)
            assert (await consumer.getone()).value == b"0"
            consumer.pause(place)
            assert await consumer.getmany(timeout_ms=500) == {}
            consumer.resume(place)
            assert (await consumer.getone()).value == b"1"
            await consumer.seek_to_end(place)
            assert await consumer.position(place) == 10

    asyncio.run(move())
