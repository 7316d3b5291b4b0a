"""ListOffsets: the first and last offsets of partitions for consumers, and offsets by timestamp.

The ends are known without reading. A look-up by time reads the log in a thread; its result counts if the broker still
leads the partition in the same epoch and the log still has the files that were read.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from errno import EMFILE, ENFILE, ENOMEM
from typing import Final, NamedTuple

from kraft.log.segment.timestamp_lookup import Found
from kraft.metadata.image import CurrentImage, MetadataImage
from kraft.model.errors import Corruption, ErrorCode, Refusal
from kraft.model.ids import NO_BROKER, BrokerId, Offset, TopicPartition
from kraft.model.list_offsets import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    READ_COMMITTED,
)
from kraft.model.request_context import RequestContext
from kraft.replication.leader import PartitionLeader
from kraft.server.loop.slow_reads import RequestReads, SlowReads
from kraft.server.loop.turns import Turns
from kraft.server.replica.partition import Partition
from kraft.server.replica.partitions import Partitions
from kraft.wire.schema.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

UNKNOWN = -1

PARTITIONS_AT_ONCE: Final = 500
"""Partitions looked up before other tasks have their turn: a request may name more than fit into a second."""

LOOK_UP_S_MAX: Final = 20.0
"""Maximum time of all look-ups by time in one request; clients wait 30 s for a response."""

_NOT_DISK_ERRORS: Final = (EMFILE, ENFILE, ENOMEM)

_SPECIAL_FROM: Final[Mapping[int, int]] = {
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
}
"""First version that defines each special timestamp: KIP-734, KIP-405, KIP-1005, KIP-1023."""

LED_ELSEWHERE: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""Error codes after which a client has to ask who leads the partition."""


class _Asking(NamedTuple):
    """A request, beside its partitions."""

    version: int
    reads_committed: bool
    reads: RequestReads


class ListOffsetsHandler:
    def __init__(self, partitions: Partitions, slow_reads: SlowReads) -> None:
        self._partitions = partitions
        self._slow_reads = slow_reads

    async def handle(self, request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse:
        """Return the first record at or after each time; offset and timestamp are -1 if there is none."""
        turns, topics = Turns(PARTITIONS_AT_ONCE), []
        reads_committed = request.isolation_level == READ_COMMITTED
        asking = _Asking(context.version, reads_committed, self._slow_reads.of_request(LOOK_UP_S_MAX))
        for topic in request.topics:
            results = []
            for wanted in topic.partitions:
                results.append(await self._answer(topic.name, wanted, asking))
                await turns.done()
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=tuple(results)))
        return ListOffsetsResponse(topics=tuple(topics))

    async def _answer(self, topic: str, wanted: ListOffsetsPartition, asking: _Asking) -> ListOffsetsPartitionResponse:
        number = wanted.partition_index
        try:
            partition, (offset, timestamp_ms) = await self._found(topic, wanted, asking)
        except Refusal as refusal:
            return ListOffsetsPartitionResponse(partition_index=number, error_code=refusal.error_code)
        return ListOffsetsPartitionResponse(
            partition_index=number,
            error_code=ErrorCode.NONE,
            offset=offset,
            timestamp=timestamp_ms,
            leader_epoch=UNKNOWN if offset < 0 else _epoch_at(partition, Offset(offset), wanted.timestamp),
        )

    async def _found(
        self, topic: str, wanted: ListOffsetsPartition, asking: _Asking
    ) -> tuple[Partition, tuple[int, int]]:
        """Return the partition, and offset and timestamp of what was found. Raises Refusal."""
        timestamp_ms, reads_committed = wanted.timestamp, asking.reads_committed
        if asking.version < _SPECIAL_FROM.get(timestamp_ms, 0):
            raise Refusal(ErrorCode.UNSUPPORTED_VERSION, f"this version has no special timestamp {timestamp_ms}")
        while True:
            partition = self._partitions.by_name(topic, wanted.partition_index)
            leader = partition.as_leader(wanted.current_leader_epoch)
            known = _known(partition, timestamp_ms, reads_committed)
            if known is not None:
                return partition, known
            try:
                found = await _looked_up(partition, leader, timestamp_ms, asking.reads)
            except TimeoutError:
                message = (
                    f"look-up by timestamp in {partition.topic_partition} took longer than {LOOK_UP_S_MAX:g} s: retry"
                )
                raise Refusal(ErrorCode.REQUEST_TIMED_OUT, message) from None
            if found is not None:
                return partition, found if found[0] < _end(partition, reads_committed) else (UNKNOWN, UNKNOWN)


def led_elsewhere(image: CurrentImage, broker_id: BrokerId, response: ListOffsetsResponse) -> frozenset[TopicPartition]:
    """Return the partitions of a broker's response that others lead.

    None of them while this broker does not know yet that it leads, or while nobody leads: a client that has refreshed
    its metadata comes here then, too.
    """
    refused = {
        TopicPartition(topic.name, each.partition_index)
        for topic in response.topics
        for each in topic.partitions
        if each.error_code in LED_ELSEWHERE
    }
    known = image()
    return frozenset(each for each in refused if _leader(known, each) not in (NO_BROKER, broker_id))


def _leader(image: MetadataImage, partition: TopicPartition) -> BrokerId:
    state = image.partition(partition)
    return NO_BROKER if state is None else state.leader


def _epoch_at(partition: Partition, offset: Offset, timestamp_ms: int) -> int:
    """Return the leader epoch of the record at `offset`; the current one at the end."""
    is_end = timestamp_ms == LATEST_TIMESTAMP or offset >= partition.log.log_end_offset
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
    reads.check_deadline()
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
