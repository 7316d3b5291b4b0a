"""A partition of the fake cluster: one log, which every leader sees whole."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from kraft.log.format.control_record import EndTransactionMarker, MarkerType, build_marker
from kraft.log.format.record_batch import (
    OFFSET_MAX,
    BatchHeader,
    assign_offsets,
    decode_batch,
    read_header,
    split,
    validate,
)
from kraft.log.format.record_codec import Record
from kraft.log.leader_epochs import LeaderEpochCache
from kraft.model.errors import ErrorCode
from kraft.model.fetch import AbortedTransaction
from kraft.model.ids import LeaderEpoch, Offset
from kraft.model.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP


@dataclass
class FakePartition:
    leader_id: int
    leader_epoch: int = 0
    batches: list[bytes] = field(default_factory=list)
    log_start_offset: int = 0
    end_offset: int = 0
    recent: dict[int, deque[BatchHeader]] = field(default_factory=lambda: defaultdict(lambda: deque(maxlen=5)))
    refusals: deque[ErrorCode] = field(default_factory=deque)
    """Responses to the next produce requests, instead of appending."""
    size_max: int = 1 << 20
    corrupt_at: int | None = None
    """The leader refuses to read from this offset, as Kafka does if it finds the batch corrupt."""
    epochs: dict[int, int] = field(default_factory=dict)
    """Epoch of each producer."""
    open_transactions: dict[int, int] = field(default_factory=dict)
    """First offset by producer id."""
    aborted: list[tuple[AbortedTransaction, int]] = field(default_factory=list)
    """Aborted transactions, each with the offset of its marker."""

    def records(self) -> list[Record]:
        return [record for batch in self.batches if not read_header(batch).is_control for record in decode_batch(batch)]

    def append(self, records: bytes) -> tuple[ErrorCode, int]:
        header = validate(records)
        if self.refusals:
            return self.refusals.popleft(), -1
        if len(records) > self.size_max:
            return ErrorCode.MESSAGE_TOO_LARGE, -1
        recent = self.recent[header.producer_id]
        if header.has_producer and (header.producer_epoch < self.epochs.get(header.producer_id, -1)):
            return ErrorCode.INVALID_PRODUCER_EPOCH, -1
        if header.has_producer and (header.producer_epoch > self.epochs.get(header.producer_id, -1)):
            if recent and header.base_sequence != 0:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            recent.clear()
            self.epochs[header.producer_id] = header.producer_epoch
        if header.has_producer:
            for known in recent:
                if known.base_sequence == header.base_sequence and known.record_count == header.record_count:
                    return ErrorCode.NONE, known.base_offset
            # As brokers do: an unknown producer, perhaps one whose records were deleted, may begin with any sequence.
            if recent and header.base_sequence != (recent[-1].last_sequence + 1) & 0x7FFFFFFF:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        if header.is_transactional:
            self.open_transactions.setdefault(header.producer_id, self.end_offset)
        placed = self._store(records)
        recent.append(placed)
        return ErrorCode.NONE, placed.base_offset

    def append_marker(self, producer_id: int, epoch: int, *, commit: bool) -> None:
        """End the producer's transaction. The marker has the next epoch."""
        marker_type = MarkerType.COMMIT if commit else MarkerType.ABORT
        marker = EndTransactionMarker(type=marker_type, coordinator_epoch=0)
        first_offset = self.open_transactions.pop(producer_id, None)
        if first_offset is not None and not commit:
            self.aborted.append(
                (AbortedTransaction(producer_id=producer_id, first_offset=first_offset), self.end_offset)
            )
        if epoch > self.epochs.get(producer_id, -1):
            self.recent[producer_id].clear()
        self.epochs[producer_id] = epoch
        self._store(build_marker(marker, producer_id, epoch, 0))

    @property
    def last_stable_offset(self) -> int:
        return min(self.open_transactions.values(), default=self.end_offset)

    def aborted_from(self, offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with records or markers at or after the offset."""
        return [each for each, last_offset in self.aborted if last_offset >= offset]

    def _store(self, records: bytes) -> BatchHeader:
        stored = bytearray(records)
        assign_offsets(stored, 0, Offset(self.end_offset), LeaderEpoch(self.leader_epoch))
        placed = read_header(stored)
        self.batches.append(bytes(stored))
        self.end_offset = placed.next_offset
        return placed

    def elect_unclean(self, leader_id: int, end_offset: int) -> None:
        """Elect a leader that has only the records below `end_offset`."""
        self.batches = [batch for batch in self.batches if read_header(batch).next_offset <= end_offset]
        self.end_offset = end_offset
        self.leader_id = leader_id
        self.leader_epoch += 1

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        epochs = LeaderEpochCache()
        for batch in map(read_header, self.batches):
            epochs = epochs.with_epoch(LeaderEpoch(batch.leader_epoch), Offset(batch.base_offset))
        epochs = epochs.with_epoch(LeaderEpoch(self.leader_epoch), Offset(self.end_offset))
        return epochs.end_offset_for(LeaderEpoch(epoch), Offset(self.end_offset))

    def find(self, timestamp_ms: int) -> tuple[int, int]:
        """Return offset and timestamp of the first record at or after that time; no timestamp for the log's ends."""
        if timestamp_ms == LATEST_TIMESTAMP:
            return self.end_offset, -1
        if timestamp_ms == EARLIEST_TIMESTAMP:
            return self.log_start_offset, -1
        found = (record for record in self.records() if record.timestamp_ms >= timestamp_ms)
        return next(((record.offset, record.timestamp_ms) for record in found), (-1, -1))

    def objection(self, broker_id: int, current_leader_epoch: int) -> ErrorCode:
        """Return the error for a consumer that asks this broker with that leader epoch; -1 for no epoch."""
        if current_leader_epoch not in (-1, self.leader_epoch):
            stale = current_leader_epoch < self.leader_epoch
            return ErrorCode.FENCED_LEADER_EPOCH if stale else ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if broker_id == self.leader_id else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def read(self, offset: int, bytes_max: int, upper: int = OFFSET_MAX) -> bytes:
        chosen: list[bytes] = []
        for batch in self.batches:
            if read_header(batch).next_offset > offset and read_header(batch).base_offset < upper:
                if chosen and sum(map(len, chosen)) + len(batch) > bytes_max:
                    break
                chosen.append(batch)
        return b"".join(chosen)


def all_values(batches: Iterable[bytes]) -> list[bytes | None]:
    return [record.value for data in batches for _, batch in split(data) for record in decode_batch(batch)]
