from __future__ import annotations

from kraft.coordinator.offsets.tombstones import TOMBSTONES_BYTES_MAX, tombstone, tombstones_that_fit


def test_tombstones_beyond_one_batch_are_left_and_not_even_looked_for() -> None:
    partitions = iter([("orders", partition) for partition in range(10_000)])
    found = tombstones_that_fit("billing", partitions)
    assert found.more
    assert len(list(partitions)) == 10_000 - len(found.records) - 1
    assert len(found.records) * (len("billing") + len("orders")) < TOMBSTONES_BYTES_MAX


def test_there_is_at_least_one_tombstone_however_long_the_name() -> None:
    name = "g" * 2 * TOMBSTONES_BYTES_MAX
    found = tombstones_that_fit(name, [("orders", 0), ("orders", 1)])
    assert found.records == (tombstone(name, "orders", 0),)
    assert found.more
    assert not tombstones_that_fit(name, [("orders", 1)]).more
