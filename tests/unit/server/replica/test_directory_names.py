from __future__ import annotations

from kraft.server.replica.directory_names import DirectoryNames


def test_partitions_are_counted_whatever_else_is_in_the_directory() -> None:
    names = DirectoryNames(["orders-0", "orders-1.0-delete", "log-checkpoint", "orders-x"])
    assert names.partition_count == 1
    for _ in range(2):
        names.add("orders-1")
        names.add("orders-0.0-stray")
    assert names.partition_count == 2
    for _ in range(2):
        names.discard("orders-0")
        names.discard("orders-1.0-delete")
    assert names.partition_count == 1
    assert sorted(names) == ["log-checkpoint", "orders-0.0-stray", "orders-1", "orders-x"]
    assert "orders-1" in names
