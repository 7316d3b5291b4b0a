"""ListOffsets: the first and last offsets of partitions for consumers, and offsets by timestamp.

The ends are known without reading. A look-up by time reads the log in a thread; its result counts if the broker still
leads the partition in the same epoch and the log still has the files that were read.
"""

from __future__ import annotations

from contextlib import suppress
from errno import EMFILE, ENFILE, ENOMEM
from typing import Final

from kraft.log.segment.timestamp_lookup import Found
from kraft.model.errors import Corruption, ErrorCode, Refusal
from kraft.model.ids import Offset
from kraft.model.list_offsets import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsPartitionResult,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from kraft.replication.leader import PartitionLeader
from kraft.rpc.call import Served
from kraft.rpc.calls import LIST_OFFSETS
from kraft.server.loop.slow_reads import RequestReads, SlowReads
from kraft.server.loop.turns import Turns
from kraft.server.replica.partition import Partition
from kraft.server.replica.partitions import Partitions

UNKNOWN = -1

PARTITIONS_AT_ONCE: Final = 500
"""Partitions looked up before other tasks have their turn: a request may name more than fit into a second."""


LOOK_UP_S_MAX: Final = 20.0
"""Maximum time of all look-ups by time in one request; clients wait 30 s for a response."""

_NOT_DISK_ERRORS: Final = (EMFILE, ENFILE, ENOMEM)


class ListOffsetsHandler:
    def __init__(self, partitions: Partitions, slow_reads: SlowReads) -> None:
        self._partitions = partitions
        self._slow_reads = slow_reads

    async def handle(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        turns, results = Turns(PARTITIONS_AT_ONCE), []
        reads = self._slow_reads.of_request(LOOK_UP_S_MAX)
        for wanted in request.partitions:
            results.append(await self._answer(wanted, request.reads_committed, reads))
            await turns.done()
        return ListOffsetsResponse(partitions=results)

    async def _answer(
        self, wanted: ListOffsetsPartition, reads_committed: bool, reads: RequestReads
    ) -> ListOffsetsPartitionResult:
        try:
            partition, (offset, timestamp_ms) = await self._found(wanted, reads_committed, reads)
        except Refusal as refusal:
            return ListOffsetsPartitionResult(
                topic=wanted.topic,
                partition=wanted.partition,
                error_code=refusal.error_code,
                error_message=refusal.message,
            )
        return ListOffsetsPartitionResult(
            topic=wanted.topic,
            partition=wanted.partition,
            error_code=ErrorCode.NONE,
            offset=offset,
            timestamp_ms=timestamp_ms,
            leader_epoch=_epoch_at(partition, Offset(offset), wanted.timestamp_ms),
        )

    async def _found(
        self, wanted: ListOffsetsPartition, reads_committed: bool, reads: RequestReads
    ) -> tuple[Partition, tuple[int, int]]:
        """Return the partition, and offset and timestamp of what was found. Raises Refusal."""
        while True:
            partition = self._partitions.by_name(wanted.topic, wanted.partition)
            leader = partition.as_leader(wanted.current_leader_epoch)
            known = _known(partition, wanted.timestamp_ms, reads_committed)
            if known is not None:
                return partition, known
            try:
                found = await _looked_up(partition, leader, wanted.timestamp_ms, reads)
            except TimeoutError:
                message = (
                    f"look-up by timestamp in {partition.topic_partition} took longer than {LOOK_UP_S_MAX:g} s: retry"
                )
                raise Refusal(ErrorCode.REQUEST_TIMED_OUT, message) from None
            if found is not None:
                return partition, found if found[0] < _end(partition, reads_committed) else (UNKNOWN, UNKNOWN)

    def served(self) -> list[Served]:
        return [LIST_OFFSETS.served_by(self.handle)]


def _epoch_at(partition: Partition, offset: Offset, timestamp_ms: int) -> int:
    """Return the leader epoch of the record at `offset`; the current one at the end and where there is no record."""
    is_end = timestamp_ms == LATEST_TIMESTAMP or not 0 <= offset < partition.log.log_end_offset
    epoch = UNKNOWN if is_end else partition.log.epoch_at(offset)
    return partition.leader_epoch if epoch == UNKNOWN else epoch


def _end(partition: Partition, reads_committed: bool) -> Offset:
    return partition.last_stable_offset if reads_committed else partition.high_watermark


def _known(partition: Partition, timestamp_ms: int, reads_committed: bool) -> tuple[int, int] | None:
    """Return offset and timestamp if no record has to be looked up; otherwise None. Raises Refusal."""
    if timestamp_ms in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        return partition.log.log_start_offset, UNKNOWN
    if timestamp_ms in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
        # Tiered storage is not supported.
        return UNKNOWN, UNKNOWN
    _check_high_watermark_is_current(partition)
    if timestamp_ms == LATEST_TIMESTAMP:
        return _end(partition, reads_committed), UNKNOWN
    if timestamp_ms < 0 and timestamp_ms != MAX_TIMESTAMP:
        raise Refusal(ErrorCode.UNSUPPORTED_VERSION, f"special timestamp {timestamp_ms} is not supported")
    return None


async def _looked_up(
    partition: Partition, leader: PartitionLeader, timestamp_ms: int, reads: RequestReads
) -> tuple[int, int] | None:
    """Return offset and timestamp of a committed record, both UNKNOWN if there is none; None: look it up again.

    None if a new leader epoch began meanwhile, since the log may have been truncated, or if retention, compaction or a
    move changed the files that were read. Raises Refusal, and TimeoutError when the request times out.
    """
    log = partition.log
    lookup = log.prepare_newest_lookup() if timestamp_ms == MAX_TIMESTAMP else log.prepare_lookup(timestamp_ms)
    found: Found | None = None
    failure: Corruption | OSError | None = None
    try:
        found = await reads.run(lookup.steps)
    except TimeoutError:
        # TimeoutError is an OSError, but not one of the disk.
        raise
    except (Corruption, OSError) as error:
        failure = error
    if partition.leader is not leader or partition.log is not log:
        return None
    if not log.still_has(lookup.segments):
        await wait_for_file_change(partition, reads)
        return None
    if failure is not None:
        raise _failed(partition, failure)
    if found is None:
        return UNKNOWN, UNKNOWN
    # DeleteRecords may have deleted the record without changing a file.
    return None if found[0] < log.log_start_offset else found


async def wait_for_file_change(partition: Partition, reads: RequestReads) -> None:
    """Wait until the current change of the log's files ends: before that, a look-up would read replaced files."""
    change = partition.replica_log.current_change
    if change is not None:
        # If the change fails, the next look-up reads whatever files it left.
        with suppress(Refusal):
            await reads.wait_for(change.wait())


def _failed(partition: Partition, failure: Corruption | OSError) -> Refusal:
    if isinstance(failure, Corruption):
        partition.replica_log.found_corrupt(failure)
    elif failure.errno not in _NOT_DISK_ERRORS:
        partition.replica_log.storage_failed(f"the log of {partition.topic_partition} cannot be read: {failure}")
    return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition.topic_partition} could not be read: {failure}")


def _check_high_watermark_is_current(partition: Partition) -> None:
    """Raise Refusal if a new leader's high watermark may be below what consumers have already seen (KIP-207)."""
    leader = partition.as_leader()
    if partition.high_watermark < leader.epoch_start_offset:
        raise Refusal(
            ErrorCode.OFFSET_NOT_AVAILABLE,
            f"new leader of {partition.topic_partition} does not know the high watermark yet: retry",
        )
