"""Replicas with real logs, and a broker around them that records their requests."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from errno import ENOSPC
from pathlib import Path
from typing import Any, TypeVar

from kraft.log.append_work import CLIENT, AppendOrigin, AppendResult, AwaitedChange, ProducedRecords
from kraft.log.format.record_batch import Buffer, build_batch, iter_records, split
from kraft.log.format.record_codec import Record
from kraft.log.partition_log import PartitionLog
from kraft.log.topic_config import TopicConfig
from kraft.metadata.configs import broker_defaults
from kraft.metadata.image import PartitionImage
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    LogDirectory,
    Offset,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)
from kraft.replication.effects import ProposeIsr
from kraft.replication.follower_progress import UNKNOWN_OFFSET
from kraft.runtime.disk import RealDisk
from kraft.server.config.components import ReplicationConfig
from kraft.server.loop.periods import loop_time_s
from kraft.server.replica.log_changes import ChangeOutcome, LogIsChanging
from kraft.server.replica.partition import Partition
from kraft.server.replica.partition_services import PartitionServices
from kraft.server.replica.partitions import Partitions
from kraft.server.replica.replica_log import ReplicaLog
from kraft.server.replica.replication_throttles import ReplicationThrottles
from tests.support.cluster_images import ORDERS, ids
from tests.support.server.log_thread import LogThread, finish_changes

Result = TypeVar("Result")

ORDERS_0 = TopicPartition("orders", 0)
DEFAULTS = broker_defaults({})
WALL_MS = 1_700_000_000_000


class FailingFile:
    """A real file whose syncs and writes fail on request."""

    def __init__(self, file: Any, disk: FailingDisk, path: str) -> None:
        self._file = file
        self._disk = disk
        self._path = path

    def __del__(self) -> None:
        # Many tests leave their logs open, and a process may have only so many files.
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def sync(self) -> None:
        self._disk.syncs += 1
        self._disk.changed.append(self._path)
        if self._disk.fails_syncs or self._path.startswith(self._disk.fails_syncs_in):
            raise OSError("input/output error")
        self._file.sync()

    def read_at(self, position: int, size: int) -> Any:
        self._disk.read.append(self._path)
        return self._file.read_at(position, size)

    def append(self, pieces: Any) -> Any:
        self._disk.changed.append(self._path)
        if self._disk.fails_writes:
            raise OSError("input/output error")
        if self._disk.appends_left == 0:
            raise OSError(ENOSPC, "No space left on device")
        if self._disk.appends_left is not None:
            self._disk.appends_left -= 1
        if self._disk.is_full:
            # As on a disk that becomes full in the middle: a part is written.
            self._file.append([pieces[0]])
            raise OSError(ENOSPC, "No space left on device")
        return self._file.append(pieces)


class FailingDisk(RealDisk):
    def __init__(self) -> None:
        self.fails_syncs = False
        self.fails_writes = False
        self.is_full = False
        self.appends_left: int | None = None
        self.syncs = 0
        self.fails_syncs_in: tuple[str, ...] = ()
        """Prefixes of the paths whose syncs fail."""
        self.changed: list[str] = []
        """The path of every file that was appended to or synced, successfully or not."""
        self.read: list[str] = []
        """The path of every file that was read, once for each read."""

    def open(self, path: str, create: bool) -> Any:
        return FailingFile(super().open(path, create), self, path)

    def write_atomically(self, path: str, data: bytes) -> None:
        self.changed.append(path)
        if self.is_full:
            raise OSError(ENOSPC, "No space left on device")
        super().write_atomically(path, data)


class InlineExecutor(Executor):
    """Runs work at once, so that a test has one thread and is deterministic."""

    def submit(self, work: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(work(*arguments, **named))
        except Exception as error:  # noqa: BLE001  As an executor does.
            done.set_exception(error)
        return done


def loop_ms() -> int:
    """Return the time of the loop, in which tests wait; 0 where there is no loop yet."""
    try:
        return round(loop_time_s() * 1_000)
    except RuntimeError:
        return 0


@dataclass(slots=True)
class Broker:
    """A broker, by default number 1. It syncs on the test's request."""

    directory: Path
    broker_id: int = 1
    sync_before_ack: bool = True
    now_ms: int = 0
    wall_ms: int = WALL_MS
    disk: FailingDisk = field(default_factory=FailingDisk)
    partitions: Partitions = field(default_factory=lambda: Partitions(lambda _: True))
    thread: LogThread = field(default_factory=LogThread)
    """Syncs the logs and makes their changes, unless `request_sync` is given."""
    proposals: list[ProposeIsr] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """The log directories that failed."""
    corrupt: list[str] = field(default_factory=list)
    is_full: bool = False
    request_sync: Callable[[ReplicaLog], None] | None = None
    role_changed: Callable[[Partition], None] = lambda partition: None
    holds_writes: Callable[[LogDirectory], bool] = lambda directory: False
    throttles: ReplicationThrottles = field(init=False)
    """Without limits, until a test sets some."""

    def __post_init__(self) -> None:
        self.throttles = ReplicationThrottles(ReplicationConfig(), BrokerId(self.broker_id), loop_ms)

    def services(self) -> PartitionServices:
        return PartitionServices(
            broker_id=BrokerId(self.broker_id),
            replica_lag_time_max_ms=30_000,
            sync_before_ack=self.sync_before_ack,
            monotonic_ms=lambda: self.now_ms,
            wall_ms=lambda: self.wall_ms,
            request_sync=self.request_sync or self.thread.request,
            holds_writes=self.holds_writes,
            admit=self.admit,
            propose_isr=lambda _, proposal: self.proposals.append(proposal),
            directory_failed=lambda _, reason: self.failures.append(reason),
            replica_is_corrupt=lambda _, reason: self.corrupt.append(reason),
            is_active=lambda _: True,
            role_changed=self.role_changed,
        )

    def admit(self, directory: str, size_bytes: int) -> None:
        if self.is_full:
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"{directory} has no room for {size_bytes} bytes")

    def open(
        self,
        topic_partition: TopicPartition = ORDERS_0,
        topic_id: TopicId = ORDERS,
        *,
        high_watermark: int = 0,
        config: TopicConfig = DEFAULTS,
        **configs: Any,
    ) -> Partition:
        effective = replace(config, **configs)
        path = f"{self.directory}/{topic_partition}"
        partition = Partition(
            topic_partition=topic_partition,
            topic_id=topic_id,
            log=PartitionLog.open(self.disk, path, effective, topic_partition),
            high_watermark=Offset(high_watermark),
            config=effective,
            services=self.services(),
        )
        self.partitions.add(partition)
        return partition

    @property
    def unsynced(self) -> list[ReplicaLog]:
        return self.thread.unsynced

    def sync(self) -> None:
        """Run one round of the log syncer."""
        self.thread.run_round()

    def sync_all(self) -> None:
        """Run rounds until all logs are synced and no change has a step left."""
        self.thread.run_until_idle()


def state(
    leader: int,
    *,
    epoch: int = 0,
    partition_epoch: int = 0,
    replicas: tuple[int, ...] = (1, 2),
    isr: tuple[int, ...] | None = None,
) -> PartitionImage:
    return PartitionImage(
        partition=0,
        replicas=tuple(ids(*replicas)),
        isr=tuple(ids(*(replicas if isr is None else isr))),
        leader=BrokerId(leader),
        leader_epoch=LeaderEpoch(epoch),
        partition_epoch=PartitionEpoch(partition_epoch),
    )


def lead(partition: Partition, **how: Any) -> None:
    """Make broker 1 the leader, by default with all replicas in sync."""
    partition.lead(state(1, **how), BrokerEpoch(1))


def lead_begun(partition: Partition, **how: Any) -> None:
    """Lead an epoch that the log has begun: its first append need not wait."""
    lead(partition, **how)
    begin_epoch(partition)


def follow(partition: Partition, leader: int = 2, **how: Any) -> None:
    partition.follow(state(leader, **how))


def fetched(partition: Partition, offset: int, *, broker_id: int = 2, broker_epoch: int = 2) -> None:
    """Fetch as a follower that has everything below `offset` on its disk."""
    partition.follower_fetched(BrokerId(broker_id), BrokerEpoch(broker_epoch), Offset(offset), UNKNOWN_OFFSET)


def made(partition: Partition, outcome: ChangeOutcome[Result]) -> Result:
    """Finish the change of the partition's log, and return its result. Raises the Refusal that ended it."""
    finish_changes(partition)
    return outcome.result()


def append_to(partition: Partition, records: ProducedRecords, acks: int, origin: AppendOrigin = CLIENT) -> AppendResult:
    """Append as the handlers do: a change that the log needs first is finished, and the append is tried again."""
    while True:
        try:
            return partition.append(records, acks, origin)
        except LogIsChanging as wait:
            change = wait.work
        finish_changes(partition)
        assert isinstance(change, AwaitedChange)
        _run_over(change)


def begin_epoch(partition: Partition) -> None:
    """Write the leader's epoch, as an append does whose producer gives up: no later append waits for it."""
    with suppress(LogIsChanging):
        partition.append(build_batch([Record(0, 1_000, b"key", b"given up")]), 1)
        raise AssertionError("the log had begun this epoch")
    finish_changes(partition)


def _run_over(change: AwaitedChange) -> None:
    """Wait for a change that is over, without an event loop. Raises the Refusal that ended it."""
    try:
        change.wait().send(None)
    except StopIteration:
        return
    raise AssertionError("the change is not over")


def remove_directory(partition: Partition) -> None:
    """Remove the directory of a replica whose topic was deleted."""
    with partition.replica_log.files_in_use:
        shutil.rmtree(partition.log.directory)


def batch(*values: str, producer_id: int = -1, producer_epoch: int = 0, sequence: int = -1) -> bytes:
    records = [Record(at, 1_000 + at, None, value.encode()) for at, value in enumerate(values)]
    if producer_id < 0:
        return build_batch(records)
    return build_batch(records, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=sequence)


def leaders_batch(*values: str, at: int, epoch: int = 0) -> bytes:
    """Return a batch as in a leader's log."""
    records = [Record(offset, 1_000, None, value.encode()) for offset, value in enumerate(values, start=at)]
    return build_batch(records, base_offset=at, leader_epoch=epoch)


def values_of(records: Buffer) -> list[str]:
    return [(record.value or b"").decode() for record in iter_records(records)]


def values_in(partition: Partition) -> list[str]:
    """Return all values of the log, committed or not, without markers; its segments are smaller than 1 MiB."""
    values, offset = list[str](), partition.log.log_start_offset
    while offset < partition.log.log_end_offset:
        batches = split(partition.log.read(offset, 1 << 20, partition.log.log_end_offset))
        for header, batch in batches:
            if not header.is_control:
                values += values_of(batch)
        offset = Offset(batches[-1][0].last_offset + 1)
    return values


async def until(holds: Callable[[], bool], within_s: float = 5) -> None:
    """Wait for a condition, checked every millisecond. Raises TimeoutError."""
    async with asyncio.timeout(within_s):
        while True:
            if holds():
                return
            await asyncio.sleep(0.001)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def outcome(produced: ErrorCode | asyncio.Future[ErrorCode]) -> ErrorCode | None:
    """Return the error code of a produce; None while it is unknown."""
    if isinstance(produced, ErrorCode):
        return produced
    return produced.result() if produced.done() else None
