from __future__ import annotations

from pathlib import Path

import pytest

from kraft.model.errors import ErrorCode
from kraft.model.ids import LogDirectory
from kraft.model.log_directories import DescribeLogDirectoriesRequest, LogDirectoryDescription
from kraft.model.partitions import PartitionName
from kraft.server.handlers.describe_log_directories import DescribeLogDirectoriesHandler, space_of
from kraft.server.replica.log_directories import LogDirectories, as_log_directory
from tests.support.server.replicas import Broker, append_to, batch, lead
from tests.support.virtual_time import run_virtually


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


def described(broker: Broker, *wanted: PartitionName) -> list[LogDirectoryDescription]:
    async def scenario() -> list[LogDirectoryDescription]:
        partition = broker.open()
        lead(partition)
        append_to(partition, batch("a"), 1)
        directories = LogDirectories(
            [partition.log_directory, LogDirectory("/elsewhere")], {LogDirectory("/failed"): "it broke"}
        )
        handler = DescribeLogDirectoriesHandler(
            directories,
            broker.partitions,
            lambda each: "its disk is full" if each == "/elsewhere" else "",
            lambda _: (1_000, 400),
        )
        return handler.handle(DescribeLogDirectoriesRequest(partitions=list(wanted), all_partitions=not wanted))

    return run_virtually(scenario())


def test_every_directory_is_described_with_its_replicas(broker: Broker) -> None:
    used, empty, failed = described(broker)
    (replica,) = used.replicas
    assert (replica.topic, replica.partition, replica.offset_lag) == ("orders", 0, 0)
    assert replica.size_bytes == len(batch("a"))
    assert (used.error_code, used.total_bytes, used.usable_bytes) == (ErrorCode.NONE, 1_000, 400)
    assert (empty.directory, empty.replicas) == ("/elsewhere", [])
    assert (used.reason, empty.reason, failed.reason) == ("", "its disk is full", "it broke")
    assert (failed.directory, failed.error_code, failed.replicas) == ("/failed", ErrorCode.KAFKA_STORAGE_ERROR, [])
    assert (failed.total_bytes, failed.usable_bytes) == (-1, -1)


def test_only_the_requested_partitions_are_described(broker: Broker) -> None:
    used, *_ = described(broker, PartitionName(topic="orders", partition=1))
    assert used.replicas == []


def test_the_space_of_a_directory_is_that_of_its_file_system(tmp_path: Path) -> None:
    total, usable = space_of(as_log_directory(tmp_path))
    assert total >= usable > 0
    assert space_of(as_log_directory(tmp_path / "nowhere")) == (-1, -1)
