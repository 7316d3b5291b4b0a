"""The state of a partition's idempotent producers, which distinguishes a retry from a gap.

A producer numbers its records per partition. A batch that continues the sequence is accepted; for a duplicate of one of
the last five, the response has the offsets of the first; anything else is refused. Sources: KIP-98, KIP-360 (an unknown
producer, perhaps because its records are gone, may start at any sequence); the rules are those of Kafka's
ProducerAppendInfo.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec import Struct

from kraft.log.format.record_batch import SEQUENCE_MAX, BatchHeader
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import Offset

BATCHES_REMEMBERED: Final = 5
"""Batches kept per producer: it has at most five requests in flight, so a retry is never older."""


class WrittenBatch(NamedTuple):
    """Sequences and offsets of a batch in the log. A tuple, because one is created per batch."""

    first_sequence: int
    last_sequence: int
    base_offset: Offset
    last_offset: Offset
    timestamp_ms: int


class ProducerState(NamedTuple):
    """State of one producer. `batches` are the latest of its epoch, oldest first; none if it has only a marker."""

    epoch: int
    batches: tuple[WrittenBatch, ...]
    last_offset: Offset
    """Last offset of the last batch or marker."""
    timestamp_ms: int
    """Largest timestamp of that batch, or timestamp of that marker."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else -1


class Accept(Struct, frozen=True):
    """The batch continues the producer's sequence, or has no producer id."""


class Duplicate(Struct, frozen=True, kw_only=True):
    """The batch is already in the log at these offsets. `timestamp_ms` is its largest timestamp."""

    base_offset: Offset
    last_offset: Offset
    timestamp_ms: int


ACCEPT: Final = Accept()


class RecentBatches:
    """Headers of the latest batches of each producer in a scan: the only ones that its state can depend on."""

    def __init__(self) -> None:
        self.by_producer: dict[int, deque[BatchHeader]] = {}

    def note(self, header: BatchHeader) -> None:
        """Add the next batch of the scan."""
        if header.producer_id < 0:
            return
        headers = self.by_producer.get(header.producer_id)
        if headers is None:
            # Each batch may be followed by a transaction marker.
            headers = self.by_producer[header.producer_id] = deque(maxlen=2 * BATCHES_REMEMBERED)
        headers.append(header)


class ProducerStates:
    """State of all producers of one partition."""

    def __init__(self, states: Mapping[int, ProducerState] | None = None) -> None:
        self._states: dict[int, ProducerState] = dict(states or {})
        self._unchanged_since: dict[int, tuple[Offset, int]] = {}

    @property
    def states(self) -> Mapping[int, ProducerState]:
        """States by producer id."""
        return self._states

    def __len__(self) -> int:
        return len(self._states)

    def get(self, producer_id: int) -> ProducerState | None:
        return self._states.get(producer_id)

    def check(self, header: BatchHeader) -> Accept | Duplicate:
        """Return whether the batch is new or a duplicate.

        Raises Refusal with INVALID_PRODUCER_EPOCH or OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        state = self._states.get(header.producer_id)
        if not header.has_producer or state is None:
            return ACCEPT
        if header.producer_epoch < state.epoch:
            raise Refusal(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id} sent epoch {header.producer_epoch}, the latest is {state.epoch}",
            )
        expected = 0
        if header.producer_epoch == state.epoch:
            first_sequence, last_sequence = header.base_sequence, header.last_sequence
            for batch in state.batches:
                if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                    return Duplicate(
                        base_offset=batch.base_offset, last_offset=batch.last_offset, timestamp_ms=batch.timestamp_ms
                    )
            expected = (state.last_sequence + 1) & SEQUENCE_MAX
        if header.base_sequence != expected:
            raise Refusal(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} epoch {header.producer_epoch} sent sequence {header.base_sequence}, "
                f"expected {expected}",
            )
        return ACCEPT

    def update(self, header: BatchHeader) -> None:
        """Update the state for a batch that was written at the offsets of its header."""
        if not header.has_producer:
            return
        state = self._states.get(header.producer_id)
        batches = state.batches if state is not None and state.epoch == header.producer_epoch else ()
        last_offset = header.last_offset
        # A transaction marker has its producer's epoch, and no sequence.
        if not header.is_control:
            written = WrittenBatch(
                header.base_sequence,
                header.last_sequence,
                Offset(header.base_offset),
                last_offset,
                header.max_timestamp_ms,
            )
            batches = (*batches[-(BATCHES_REMEMBERED - 1) :], written)
        self._states[header.producer_id] = ProducerState(
            header.producer_epoch, batches, last_offset, header.max_timestamp_ms
        )

    def replay(self, recent: RecentBatches) -> None:
        """Update the state for batches found in the log, except those that it already includes."""
        for producer_id, headers in recent.by_producer.items():
            for header in headers:
                state = self._states.get(producer_id)
                if state is None or header.base_offset > state.last_offset:
                    self.update(header)

    def reaches(self, offset: Offset) -> bool:
        """Return whether the state includes a batch at or above `offset`: after truncation there it must be rebuilt."""
        return any(state.last_offset >= offset for state in self._states.values())

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Drop the state of producers that wrote nothing for this long; return their number.

        The time counts from the first call that found their present state: timestamps are the clients' and may be years
        old. `now_ms` is monotonic, so that setting the wall clock forward drops no state that a retry needs. Source:
        `producer.id.expiration.ms`.
        """
        since = {
            producer_id: known
            if (known := self._unchanged_since.get(producer_id)) is not None and known[0] == state.last_offset
            else (state.last_offset, now_ms)
            for producer_id, state in self._states.items()
        }
        silent = [producer_id for producer_id, (_, begin_ms) in since.items() if now_ms - begin_ms >= expiration_ms]
        for producer_id in silent:
            del self._states[producer_id], since[producer_id]
        self._unchanged_since = since
        return len(silent)

    def replace(self, states: Mapping[int, ProducerState]) -> None:
        self._states = dict(states)

    def clear(self) -> None:
        self._states.clear()
