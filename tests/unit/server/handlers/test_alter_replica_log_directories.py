from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from kraft.model.errors import ErrorCode
from kraft.model.ids import NO_LEADER_EPOCH, LogDirectory, Offset, TopicPartition
from kraft.runtime.disk import RealDisk
from kraft.server.handlers.alter_replica_log_directories import TEXT_MAX, AlterReplicaLogDirectoriesHandler
from kraft.server.handlers.describe_log_directories import DescribeLogDirectoriesHandler
from kraft.server.replica.log_directories import as_log_directory
from kraft.server.replica.partitions import Damage, OfflineReplica
from kraft.wire.schema.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kraft.wire.schema.describe_log_dirs import DescribeLogDirsRequest
from tests.support.cluster_images import ORDERS
from tests.support.server.moving import Mover, settled
from tests.support.server.replicas import DEFAULTS, append_to, batch, lead, made

Code = ErrorCode


@pytest.fixture(autouse=True)
def _closed_in_the_end() -> Iterator[None]:
    yield
    Mover.close_all()


@pytest.fixture
def paths(tmp_path: Path) -> list[LogDirectory]:
    made = [tmp_path / name for name in "ab"]
    for path in made:
        path.mkdir()
    return [as_log_directory(path) for path in made]


@pytest.fixture
def mover(paths: list[LogDirectory]) -> Mover:
    return Mover(RealDisk(), paths)


async def altered(mover: Mover, *wanted: tuple[str, int, LogDirectory]) -> list[tuple[str, int, int]]:
    handler = AlterReplicaLogDirectoriesHandler(mover.directories, mover.partitions, mover.moves)
    dirs = tuple(
        AlterReplicaLogDir(path=path, topics=(AlterReplicaLogDirTopic(name=topic, partitions=(number,)),))
        for topic, number, path in wanted
    )
    response = await handler.handle(AlterReplicaLogDirsRequest(dirs=dirs))
    return [
        (topic.topic_name, each.partition_index, each.error_code)
        for topic in response.results
        for each in topic.partitions
    ]


def test_each_replica_gets_an_answer_and_of_two_directories_the_later_counts(paths: list[LogDirectory]) -> None:
    mover = Mover(RealDisk(), paths, exists=lambda name: name.topic == "orders")
    partition = mover.open()
    offline = TopicPartition("orders", 5)
    mover.partitions.take_offline(
        OfflineReplica(
            topic_partition=offline,
            topic_id=ORDERS,
            leader_epoch=NO_LEADER_EPOCH,
            damage=Damage.CORRUPT,
            reason="it rotted",
            log_directory=paths[0],
            high_watermark=Offset(0),
        )
    )

    async def scenario() -> None:
        assert await altered(
            mover,
            ("orders", 0, LogDirectory("/nowhere")),
            ("orders", 1, paths[1]),
            ("orders", 5, paths[1]),
            ("bills", 0, paths[1]),
            ("orders", 2, LogDirectory(paths[1] + "/")),
            ("orders", 0, paths[1]),
        ) == [
            ("orders", 0, Code.NONE),
            ("orders", 1, Code.REPLICA_NOT_AVAILABLE),
            ("orders", 5, Code.KAFKA_STORAGE_ERROR),
            ("orders", 2, Code.LOG_DIR_NOT_FOUND),
            ("bills", 0, Code.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        await settled(partition)
        assert partition.log_directory == paths[1]

    mover.run(scenario)
    begun = mover.store.open(TopicPartition("orders", 1), ORDERS, DEFAULTS)
    assert begun.directory == f"{paths[1]}/orders-1", "it was wanted there before it was here"


def test_a_directory_that_is_out_of_use_takes_no_replica(paths: list[LogDirectory]) -> None:
    mover = Mover(RealDisk(), paths, offline=[paths[1]])
    mover.open()

    async def scenario() -> None:
        assert await altered(mover, ("orders", 0, paths[1])) == [("orders", 0, Code.KAFKA_STORAGE_ERROR)]
        assert await altered(mover, ("orders", 0, paths[0])) == [("orders", 0, Code.NONE)]

    mover.run(scenario)


def test_refusals_are_logged_once_for_each_kind(mover: Mover, paths: list[LogDirectory]) -> None:
    mover.open()
    nowhere = LogDirectory("/nowhere" * 100)

    async def scenario() -> None:
        with capture_logs() as events:
            await altered(mover, ("orders", 0, paths[0]))
            assert events == []
            await altered(mover, *[("orders", number, nowhere) for number in range(3)], ("bills", 0, paths[1]))
        assert [(each["event"], each["replicas"], each["partition"]) for each in events] == [
            ("replica moves refused", 3, "orders-0"),
            ("replica moves refused", 1, "bills-0"),
        ]
        assert events[0]["reason"].startswith("LOG_DIR_NOT_FOUND: this broker has no log directory /nowhere")
        assert max(len(str(field)) for field in events[0].values()) == TEXT_MAX

    mover.run(scenario)


def test_a_copy_is_described_until_it_is_the_replica(mover: Mover, paths: list[LogDirectory]) -> None:
    partition = mover.open()
    lead(partition, replicas=(1,))
    for value in "abc":
        append_to(partition, batch(value), -1)
    mover.sync()
    made(partition, partition.advance_log_start(Offset(1)))

    async def described() -> list[list[tuple[bool, int, bool]]]:
        handler = DescribeLogDirectoriesHandler(
            mover.directories, mover.partitions, shortage_of=lambda _: "", space=lambda _: (1, 1)
        )
        response = await handler.handle(DescribeLogDirsRequest(topics=None))
        return [
            [
                (each.is_future_key, each.offset_lag, each.partition_size > 0)
                for topic in directory.topics
                for each in topic.partitions
            ]
            for directory in response.results
        ]

    async def scenario() -> None:
        with partition.replica_log.files_in_use:
            await altered(mover, ("orders", 0, paths[1]))
            assert await described() == [[(False, 0, True)], [(True, 2, False)]]
            await asyncio.sleep(1)
            assert await described() == [[(False, 0, True)], [(True, 0, True)]]
        await settled(partition)
        assert await described() == [[], [(False, 0, True)]]

    mover.run(scenario)
