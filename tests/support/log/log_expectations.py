"""Expectations of a recovered log: what it may hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from kraft.log.change import run_now
from kraft.log.format.control_record import MarkerType, marker_in
from kraft.log.format.record_batch import decode_batch, read_header, split, with_assigned_offsets
from kraft.log.format.record_codec import Record
from kraft.log.leader_epochs import EpochStart, LeaderEpochCache
from kraft.log.partition_log import PartitionLog
from kraft.log.recovery.producer_state import BATCHES_REMEMBERED
from kraft.model.errors import KraftError
from kraft.model.ids import LeaderEpoch, Offset

READ_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A batch as the log has to hold it. `request` is what a producer sends for it; none after a compaction."""

    base_offset: int
    next_offset: int
    epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    next_sequence: int
    data: bytes
    request: bytes

    @classmethod
    def of(cls, request: bytes, base_offset: int, epoch: int, append_time_ms: int | None = None) -> Stored:
        """Return the batch that a leader stores for a request."""
        pieces = with_assigned_offsets(memoryview(request), Offset(base_offset), LeaderEpoch(epoch), append_time_ms)
        return cls.written(b"".join(pieces), request)

    @classmethod
    def written(cls, data: bytes, request: bytes = b"") -> Stored:
        header = read_header(data)
        return cls(
            base_offset=header.base_offset,
            next_offset=header.next_offset,
            epoch=header.leader_epoch,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            next_sequence=header.last_sequence + 1,
            data=data,
            request=request,
        )


class Broken(AssertionError):
    """A recovered log is not one of those that are allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """A recovered log holds the batches up to some boundary at or above `end_least`, from a start within bounds."""

    batches: tuple[Stored, ...]
    epochs: tuple[tuple[int, int], ...]
    """Leader epoch and first offset of everything that is or was in the log."""
    end_least: int
    start_least: int
    start_most: int
    cleaned_end: int = 0
    """Compaction may have removed batches below; producers are not checked there."""
    is_going: bool = False
    """The whole log was being dropped when the power failed: the rest need not know its producers."""

    def check(self, log: PartitionLog) -> None:
        """Check a recovered log. Raises Broken."""
        start, end = log.log_start_offset, log.log_end_offset
        if not self.start_least <= start <= self.start_most:
            raise Broken(f"log start {start} is outside [{self.start_least}, {self.start_most}]")
        if end < self.end_least:
            raise Broken(f"log end {end} is below {self.end_least}, which was synced")
        expected = [batch for batch in self.batches if start < batch.next_offset <= end]
        found = [bytes(batch) for _, batch in split(read_bytes(log))]
        if found != [batch.data for batch in expected]:
            raise Broken(f"the log holds {describe(found)}, expected {describe([batch.data for batch in expected])}")
        self._check_epochs(log, expected)

    def check_recovered(self, log: PartitionLog) -> None:
        """Check the log, and that it remembers nothing of lost records. Raises Broken."""
        self.check(log)
        if log.epoch_cache.entries and not self.epochs:
            raise Broken(f"{log.epoch_cache.entries} are remembered, of records that were dropped with all others")
        ahead = [entry for entry in log.epoch_cache.entries if entry.start_offset >= log.log_end_offset]
        if ahead:
            raise Broken(f"{ahead} begin behind the end of the log, {log.log_end_offset}")
        for producer_id, state in log.producers.items():
            if state.last_offset >= log.log_end_offset:
                raise Broken(f"producer {producer_id} has written {state.last_offset}, the log ends before")

    def _check_epochs(self, log: PartitionLog, batches: Sequence[Stored]) -> None:
        expected = _epochs_of_batches(self.epochs, batches)
        found = _epochs_of_batches(log.epoch_cache.entries, batches)
        if found != expected:
            raise Broken(f"the leader epochs are {log.epoch_cache.entries}, expected {self.epochs}")

    def check_producers(self, log: PartitionLog, epoch: int, now_ms: int) -> int:
        """Append first the batches in the log, which must count as duplicates, then the lost ones, in order.

        Return how many were tried. Raises Broken.
        """
        tried = 0
        if self.is_going:
            return tried
        end = log.log_end_offset
        for producer_id in sorted({batch.producer_id for batch in self.batches if batch.producer_id >= 0}):
            own = [batch for batch in self.batches if batch.producer_id == producer_id]
            kept = [batch for batch in own if batch.next_offset <= end]
            latest = [batch for batch in kept if batch.producer_epoch == kept[-1].producer_epoch]
            for batch in latest[-BATCHES_REMEMBERED:]:
                if batch.base_offset < max(log.log_start_offset, self.cleaned_end):
                    continue
                result = log.append_as_leader(batch.request, LeaderEpoch(epoch), now_ms, run_now)
                if not result.duplicate or result.base_offset != batch.base_offset:
                    raise Broken(
                        f"the batch at {batch.base_offset} of producer {producer_id} is not known again: {result}"
                    )
                tried += 1
            for batch in own[len(kept) :]:
                if not batch.request:
                    break
                result = log.append_as_leader(batch.request, LeaderEpoch(epoch), now_ms, run_now)
                if result.duplicate:
                    raise Broken(f"the lost batch at {batch.base_offset} of producer {producer_id} counts as written")
                tried += 1
        return tried


def knows_its_producers(log: PartitionLog, epoch: int, now_ms: int, cleaned_end: int) -> None:
    """Check that each producer's last five batches above `cleaned_end` count as duplicates. Raises Broken."""
    # A producer's batch begins at offset 0, which its checksum does not cover.
    batches = [Stored.written(bytes(batch), bytes(8) + bytes(batch[8:])) for _, batch in split(read_bytes(log))]
    end = log.log_end_offset
    Expectation(
        batches=tuple(batch for batch in batches if batch.base_offset >= cleaned_end),
        epochs=(),
        end_least=end,
        start_least=0,
        start_most=end,
        cleaned_end=cleaned_end,
    ).check_producers(log, epoch, now_ms)
    if log.log_end_offset != end:
        raise Broken("a batch that is in the log was appended again")


def _epochs_of_batches(epochs: Iterable[tuple[int, int]], batches: Sequence[Stored]) -> tuple[EpochStart, ...]:
    """Return each epoch with its first batch in the log: where in a gap or below the start it began does not matter."""
    cache = LeaderEpochCache()
    for epoch, first in epochs:
        start = next((batch.base_offset for batch in batches if batch.next_offset > first), None)
        if start is not None:
            cache = cache.with_epoch(LeaderEpoch(epoch), Offset(start))
    return cache.entries


def describe(batches: Sequence[bytes]) -> str:
    headers = [read_header(batch) for batch in batches]
    return (
        "[" + ", ".join(f"{header.base_offset}..{header.last_offset}@{header.leader_epoch}" for header in headers) + "]"
    )


def read_bytes(log: PartitionLog) -> bytes:
    """Return the whole log, as consumers read it."""
    pieces: list[bytes] = []
    offset, end = log.log_start_offset, log.log_end_offset
    while offset < end:
        piece = log.read(offset, READ_BYTES, end)
        if not piece:
            break
        pieces.append(piece)
        offset = split(piece)[-1][0].next_offset
    return b"".join(pieces)


def meets(expectations: Sequence[Expectation], log: PartitionLog) -> Expectation:
    """Return the first expectation that the log meets. Raises Broken."""
    reasons: list[str] = []
    for expectation in expectations:
        try:
            expectation.check_recovered(log)
        except (Broken, KraftError) as problem:
            reasons.append(str(problem))
        else:
            return expectation
    raise Broken("; or ".join(reasons))


def outcomes(batches: Sequence[Stored], outcome: MarkerType | None) -> list[Stored]:
    """Return the transactional batches with this outcome; None: undecided."""
    found: list[Stored] = []
    pending: dict[int, list[Stored]] = {}
    for batch in batches:
        header = read_header(batch.data)
        if not header.is_transactional:
            continue
        marker = marker_in(header, batch.data)
        if marker is None:
            pending.setdefault(batch.producer_id, []).append(batch)
        elif marker.type is outcome:
            found += pending.pop(batch.producer_id, [])
        else:
            pending.pop(batch.producer_id, None)
    return [batch for held in pending.values() for batch in held] if outcome is None else found


def is_marker(batch: Stored) -> bool:
    return read_header(batch.data).is_control


def records_by_offset(batches: Sequence[Stored]) -> dict[int, Record]:
    """Return the records by offset."""
    return {record.offset: record for batch in batches for record in decode_batch(batch.data)}
