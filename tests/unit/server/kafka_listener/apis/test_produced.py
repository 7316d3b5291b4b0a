from __future__ import annotations

from random import Random
from uuid import UUID

import pytest
from msgspec.structs import replace

from kraft.model.errors import ErrorCode
from kraft.model.produce import ProducePartitionResult
from kraft.server.kafka_listener.apis import produced
from kraft.server.kafka_listener.apis.produced import ProducedTopic, encode_produced
from kraft.wire.codec import encode
from kraft.wire.schema.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse

PARTITIONS = [(), (1,), (1, 1), (3, 1, 2), (200,), (1,) * 130]
"""Number of partitions of each topic of a response; 126 is the last length of one byte."""


def topic(chance: Random, partitions: int) -> ProducedTopic:
    name = chance.choice(["", "orders", "ö" * 70, "x" * 126, "x" * 127, "x" * 249])
    indexes = [chance.randrange(1 << 31) for _ in range(partitions)]
    return ProducedTopic(name, UUID(int=chance.getrandbits(128)), name, indexes)


def result(chance: Random, index: int) -> ProducePartitionResult:
    return ProducePartitionResult(
        topic="orders",
        partition=index,
        error_code=ErrorCode.NONE,
        base_offset=chance.getrandbits(63),
        log_append_time_ms=chance.choice([-1, chance.getrandbits(63)]),
        log_start_offset=chance.getrandbits(63),
        leader_id=1,
        leader_epoch=chance.getrandbits(31),
    )


def declared(topics: list[ProducedTopic], results: list[ProducePartitionResult], version: int) -> bytes:
    """Return the bytes that the codec gives, which is generated from the declarations."""
    rest = iter(results)
    responses = [
        TopicProduceResponse(
            name=each.topic,
            topic_id=each.topic_id,
            partition_responses=tuple(
                PartitionProduceResponse(
                    index=index,
                    error_code=ErrorCode.NONE,
                    base_offset=found.base_offset,
                    log_append_time_ms=found.log_append_time_ms,
                    log_start_offset=found.log_start_offset,
                )
                for index, found in zip(each.partitions, rest, strict=False)
            ),
        )
        for each in topics
    ]
    return b"".join(encode(ProduceResponse(responses=tuple(responses)), version))


@pytest.mark.parametrize("version", list(ProduceRequest.versions))
@pytest.mark.parametrize("partitions", PARTITIONS, ids=str)
def test_the_packed_response_is_that_of_the_declarations(version: int, partitions: tuple[int, ...]) -> None:
    chance = Random(f"{version} {partitions}")
    topics = [topic(chance, count) for count in partitions]
    results = [result(chance, index) for each in topics for index in each.partitions]
    assert encode_produced(topics, results, version) == declared(topics, results, version)


def test_a_response_is_packed_unless_a_topic_is_unknown_or_empty_or_a_partition_refused() -> None:
    chance = Random(1)
    known = topic(chance, 2)
    appended = [result(chance, index) for index in known.partitions]
    refused = ProducePartitionResult(topic="orders", partition=7, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    unknown = replace(known, name=None)
    for version in ProduceRequest.versions:
        assert encode_produced([known], appended, version) is not None
        assert encode_produced([known, unknown], appended, version) is None
        assert encode_produced([known, replace(known, partitions=[])], appended, version) is None
        assert encode_produced([known], [appended[0], refused], version) is None
        assert encode_produced([known, known], [*appended, appended[0], refused], version) is None


def test_only_topics_that_were_appended_to_are_remembered() -> None:
    refused = ProducePartitionResult(topic="no", partition=0, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    before = produced._topic_head.cache_info()
    for number in range(10):
        name = f"{number}" * 32_767
        encode_produced([ProducedTopic(name, UUID(int=0), name, [0])], [refused], 12)
        encode_produced([ProducedTopic(name, UUID(int=0), name, [])], [], 12)
    assert produced._topic_head.cache_info() == before
