"""A group's partition is the one that Kafka computes. Java's numbers are in tests/golden."""

from __future__ import annotations

import json

import pytest

from kraft.coordinator.group_partition import partition_of
from tests.golden.make_group_records import FOLDER, PARTITIONS

LINES = [line.split(" ", 2) for line in (FOLDER / "partitions.txt").read_text().splitlines()]
JAVA = [(json.loads(group), int(hash_code), int(partition)) for hash_code, partition, group in LINES]
INT32_MIN = -(1 << 31)


@pytest.mark.parametrize(("group_id", "hash_code", "partition"), JAVA)
def test_a_group_is_in_the_partition_that_java_computes(group_id: str, hash_code: int, partition: int) -> None:
    assert partition_of(group_id, PARTITIONS) == partition
    # With as many partitions as there are hashes, the partition is the hash without its sign.
    assert partition_of(group_id, 1 << 31) == (0 if hash_code == INT32_MIN else abs(hash_code))


def test_the_golden_groups_have_hashes_of_both_signs_and_the_smallest_one() -> None:
    hashes = [hash_code for _, hash_code, _ in JAVA]
    assert min(hashes) == INT32_MIN
    assert sorted(hashes)[1] < 0 < max(hashes)
