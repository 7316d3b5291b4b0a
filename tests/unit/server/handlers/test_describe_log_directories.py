from __future__ import annotations

from pathlib import Path

import pytest

from kraft.model.errors import ErrorCode
from kraft.model.ids import LogDirectory
from kraft.server.handlers.describe_log_directories import DescribeLogDirectoriesHandler, space_of
from kraft.server.replica.log_directories import LogDirectories, as_log_directory
from kraft.wire.schema.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResult,
)
from tests.support.server.replicas import Broker, append_to, batch, lead
from tests.support.virtual_time import run_virtually


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


def described(
    broker: Broker, topics: tuple[DescribableLogDirTopic, ...] | None = None
) -> tuple[DescribeLogDirsResult, ...]:
    async def scenario() -> tuple[DescribeLogDirsResult, ...]:
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
            lambda each: 1.25 if each == "/elsewhere" else 0.0,
        )
        return (await handler.handle(DescribeLogDirsRequest(topics=topics))).results

    return run_virtually(scenario())


def test_every_directory_is_described_with_its_replicas(broker: Broker) -> None:
    used, empty, failed = described(broker)
    (topic,) = used.topics
    (replica,) = topic.partitions
    assert (topic.name, replica.partition_index, replica.offset_lag, replica.is_future_key) == ("orders", 0, 0, False)
    assert replica.partition_size == len(batch("a"))
    assert (used.error_code, used.total_bytes, used.usable_bytes) == (ErrorCode.NONE, 1_000, 400)
    assert (empty.log_dir, empty.topics) == ("/elsewhere", ())
    assert (used.reason, empty.reason, failed.reason) == ("", "its disk is full", "it broke")
    assert (used.sync_ms, empty.sync_ms, failed.sync_ms) == (0, 1_250, 0)
    assert (failed.log_dir, failed.error_code, failed.topics) == ("/failed", ErrorCode.KAFKA_STORAGE_ERROR, ())
    assert (failed.total_bytes, failed.usable_bytes) == (-1, -1)


def test_only_the_requested_partitions_are_described(broker: Broker) -> None:
    used, *_ = described(broker, (DescribableLogDirTopic(topic="orders", partitions=(1,)),))
    assert used.topics == ()


def test_the_space_of_a_directory_is_that_of_its_file_system(tmp_path: Path) -> None:
    total, usable = space_of(as_log_directory(tmp_path))
    assert total >= usable > 0
    assert space_of(as_log_directory(tmp_path / "nowhere")) == (-1, -1)
