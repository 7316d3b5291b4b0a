from __future__ import annotations

import pytest

from kraft.client.sans_io.partitioner import StickyPartitioner, murmur2, partition_for_key

# Kafka's own UtilsTest, and its empty and three-byte cases.
KAFKA_HASHES = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
    b"": 275646681,
}


@pytest.mark.parametrize(("key", "expected"), KAFKA_HASHES.items())
def test_the_hash_is_kafkas(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected


def test_a_negative_hash_gives_a_partition_as_in_kafka() -> None:
    # Kafka clears the sign bit and does not negate.
    assert partition_for_key(b"21", 7) == (-973932308 & 0x7FFFFFFF) % 7


def test_records_without_a_key_stay_in_one_partition_until_a_batch_is_full() -> None:
    sticky = StickyPartitioner(lambda count: count - 1)

    assert [sticky.partition("orders", 3) for _ in range(3)] == [2, 2, 2]
    sticky.batch_is_full("orders", 3)
    assert sticky.partition("orders", 3) == 0
    sticky.batch_is_full("orders", 3)
    assert sticky.partition("orders", 3) == 1


def test_topics_take_turns_independently() -> None:
    sticky = StickyPartitioner(lambda _: 0)
    sticky.batch_is_full("orders", 3)

    assert (sticky.partition("orders", 3), sticky.partition("payments", 3)) == (1, 0)


def test_a_topic_that_shrank_is_started_over() -> None:
    sticky = StickyPartitioner(lambda count: count - 1)
    sticky.partition("orders", 9)

    assert sticky.partition("orders", 2) == 1
