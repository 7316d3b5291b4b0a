"""ListOffsets: where a partition begins and ends for consumers, and which record stands at a point in time.

The ends are known without looking. A look-up by time reads the log, in a thread; what was found counts if the broker
still leads the partition in the same epoch, and the log still has what was read.
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
"""Then others have their turn: a request may name more partitions than are looked up in a second."""


LOOK_UP_S_MAX: Final = 20.0
"""All look-ups by time of one request together; clients give a request 30 s."""

_NOT_THE_DISKS_FAULT: Final = (EMFILE, ENFILE, ENOMEM)


class ListOffsetsHandler:
    def __init__(self, partitions: Partitions, slow_reads: SlowReads) -> None:
        self._partitions = partitions
        self._slow_reads = slow_reads

    async def handle(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        turns, results = Turns(PARTITIONS_AT_ONCE), []
        reads = self._slow_reads.of_request(LOOK_UP_S_MAX)
        for wanted in request.partitions:
            results.append(await self._answer(wanted, reads))
            await turns.done()
        return ListOffsetsResponse(partitions=results)

    async def _answer(self, wanted: ListOffsetsPartition, reads: RequestReads) -> ListOffsetsPartitionResult:
        try:
            partition, (offset, timestamp_ms) = await self._found(wanted, reads)
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

    async def _found(self, wanted: ListOffsetsPartition, reads: RequestReads) -> tuple[Partition, tuple[int, int]]:
        """The partition, as it is now, with offset and timestamp. Raises Refusal."""
        while True:
            partition = self._partitions.by_name(wanted.topic, wanted.partition)
            leader = partition.as_leader(wanted.current_leader_epoch)
            known = _known(partition, wanted.timestamp_ms)
            if known is not None:
                return partition, known
            try:
                found = await _looked_up(partition, leader, wanted.timestamp_ms, reads)
            except TimeoutError:
                message = f"the look-up by time in {partition.topic_partition} took longer than {LOOK_UP_S_MAX:g} s"
                raise Refusal(ErrorCode.REQUEST_TIMED_OUT, message) from None
            if found is not None:
                return partition, found

    def served(self) -> list[Served]:
        return [LIST_OFFSETS.served_by(self.handle)]


def _epoch_at(partition: Partition, offset: Offset, timestamp_ms: int) -> int:
    """Of the record there; at the end, and where there is none, that of the leader, who writes the next one."""
    is_end = timestamp_ms == LATEST_TIMESTAMP or not 0 <= offset < partition.log.log_end_offset
    epoch = UNKNOWN if is_end else partition.log.epoch_at(offset)
    return partition.leader_epoch if epoch == UNKNOWN else epoch


def _known(partition: Partition, timestamp_ms: int) -> tuple[int, int] | None:
    """Offset and timestamp where no record has to be looked up. Raises Refusal."""
    if timestamp_ms in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        return partition.log.log_start_offset, UNKNOWN
    if timestamp_ms in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
        # Nothing is tiered.
        return UNKNOWN, UNKNOWN
    _check_high_watermark_is_current(partition)
    if timestamp_ms == LATEST_TIMESTAMP:
        return partition.high_watermark, UNKNOWN
    if timestamp_ms < 0 and timestamp_ms != MAX_TIMESTAMP:
        raise Refusal(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {timestamp_ms} does not stand for anything here")
    return None


async def _looked_up(
    partition: Partition, leader: PartitionLeader, timestamp_ms: int, reads: RequestReads
) -> tuple[int, int] | None:
    """Offset and timestamp of a committed record, both UNKNOWN where there is none; None: it has to be asked again.

    That is so when another leader, or the same in another epoch, came meanwhile, and so perhaps a truncation; or when
    retention, compaction or a move changed the files that were read. Raises Refusal, and TimeoutError when the
    request's time is over.
    """
    log = partition.log
    lookup = log.prepare_newest_lookup() if timestamp_ms == MAX_TIMESTAMP else log.prepare_lookup(timestamp_ms)
    found: Found | None = None
    failure: Corruption | OSError | None = None
    try:
        found = await reads.run(lookup.steps)
    except TimeoutError:
        # An OSError as well, and not the disk's.
        raise
    except (Corruption, OSError) as error:
        failure = error
    if partition.leader is not leader or partition.log is not log:
        return None
    if not log.still_has(lookup.segments):
        await _files_in_place(partition, reads)
        return None
    if failure is not None:
        raise _failed(partition, failure)
    if found is None or found[0] >= partition.high_watermark:
        return UNKNOWN, UNKNOWN
    # Records may have been deleted without any file being changed.
    return None if found[0] < log.log_start_offset else found


async def _files_in_place(partition: Partition, reads: RequestReads) -> None:
    """Until then it would be looked up in the same segments, and in files that are others already."""
    change = partition.current_change
    if change is not None:
        # However it ends: what it leaves is what there is to look into.
        with suppress(Refusal):
            await reads.wait_for(change.wait())


def _failed(partition: Partition, failure: Corruption | OSError) -> Refusal:
    if isinstance(failure, Corruption):
        partition.found_corrupt(failure)
    elif failure.errno not in _NOT_THE_DISKS_FAULT:
        partition.storage_failed(f"the log of {partition.topic_partition} cannot be read: {failure}")
    return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition.topic_partition} could not be read: {failure}")


def _check_high_watermark_is_current(partition: Partition) -> None:
    """A leader that was just elected may know less of what is committed than consumers were shown before (KIP-207)."""
    leader = partition.as_leader()
    if partition.high_watermark < leader.epoch_start_offset:
        raise Refusal(
            ErrorCode.OFFSET_NOT_AVAILABLE, f"{partition.topic_partition} has a new leader that is still catching up"
        )
