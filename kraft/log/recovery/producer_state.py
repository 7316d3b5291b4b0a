"""The state of a partition's idempotent and transactional producers, which distinguishes a retry from a gap.

A producer numbers its records per partition. A batch that continues the sequence is accepted; for a duplicate of one of
the last five, the response has the offsets of the first; anything else is refused. A marker ends the transaction that
the producer's first transactional batch has opened. Sources: KIP-98, KIP-360 (an unknown producer, perhaps because its
records are gone, may start at any sequence), KIP-890; the rules are those of Kafka's ProducerAppendInfo.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec import Struct

from kraft.log.append_work import CLIENT, AppendOrigin
from kraft.log.format.control_record import EndTransactionMarker, MarkerType
from kraft.log.format.record_batch import CONTROL_BIT, SEQUENCE_MAX, TRANSACTIONAL_BIT, BatchHeader
from kraft.log.transactions.aborted import AbortedTxn
from kraft.log.transactions.open_transactions import OpenTransactions
from kraft.log.transactions.verification import Verifications
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import Offset

BATCHES_REMEMBERED: Final = 5
"""Batches kept per producer: it has at most five requests in flight, so a retry is never older."""

_KEPT_FROM: Final = 1 - BATCHES_REMEMBERED
"""Index of the first batch that is kept when one more is written."""

NO_COORDINATOR_EPOCH: Final = -1

_new_tuple: Final = tuple.__new__
"""Makes a named tuple of as many values as it has fields at half the cost."""

EPOCH_BUMP: Final = 2
"""Transaction version since which the coordinator bumps the producer epoch for a marker (KIP-890)."""


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
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    """Epoch of the transaction coordinator that wrote the last marker."""
    transaction_start: Offset | None = None
    """First offset of the open transaction; None if none is open."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else -1

    @property
    def kept_offset(self) -> Offset:
        """Last offset of the batch that compaction keeps for its header: that of the last sequence, or the marker."""
        return self.batches[-1].last_offset if self.batches else self.last_offset

    def duplicate_of(self, header: BatchHeader) -> Duplicate | None:
        """Return the batch of the same epoch and sequences that is in the log; None if there is none."""
        if header.producer_epoch == self.epoch:
            first_sequence = header.base_sequence
            # Sequences may step back: a leader that has forgotten the producer accepts any.
            for batch in self.batches:
                if batch.first_sequence == first_sequence and batch.last_sequence == header.last_sequence:
                    return Duplicate(
                        base_offset=batch.base_offset, last_offset=batch.last_offset, timestamp_ms=batch.timestamp_ms
                    )
        return None


class Accept(Struct, frozen=True):
    """The batch continues the producer's sequence, or has no producer id."""


class Duplicate(Struct, frozen=True, kw_only=True):
    """The batch is already in the log at these offsets. `timestamp_ms` is its largest timestamp."""

    base_offset: Offset
    last_offset: Offset
    timestamp_ms: int


ACCEPT: Final = Accept()


class _Recent:
    """The part of a scan that one producer's state can depend on."""

    __slots__ = ("batches", "begun", "marker")

    def __init__(self) -> None:
        self.batches: deque[BatchHeader] = deque(maxlen=BATCHES_REMEMBERED)
        self.marker: tuple[BatchHeader, EndTransactionMarker | None] | None = None
        self.begun: Offset | None = None
        """First offset of the first transactional batch after the last marker."""

    def steps(self) -> list[tuple[BatchHeader, EndTransactionMarker | None]]:
        """Return the batches and the marker in the order of the log."""
        steps: list[tuple[BatchHeader, EndTransactionMarker | None]] = [(header, None) for header in self.batches]
        if self.marker is not None:
            steps.append(self.marker)
        return sorted(steps, key=lambda step: step[0].base_offset)


class RecentBatches:
    """Headers of the latest batches of each producer in a scan: the only ones that its state can depend on."""

    def __init__(self) -> None:
        self.by_producer: dict[int, _Recent] = {}

    def note(self, header: BatchHeader, marker: EndTransactionMarker | None = None) -> None:
        """Add the next batch of the scan, and the marker in it."""
        if header.producer_id < 0:
            return
        recent = self.by_producer.get(header.producer_id)
        if recent is None:
            recent = self.by_producer[header.producer_id] = _Recent()
        if header.is_control:
            recent.marker = header, marker
            if marker is not None:
                recent.begun = None
        else:
            recent.batches.append(header)
            if header.is_transactional and recent.begun is None:
                recent.begun = Offset(header.base_offset)


class ProducerStates:
    """State of all producers of one partition."""

    def __init__(self, states: Mapping[int, ProducerState] | None = None) -> None:
        self._unchanged_since: dict[int, tuple[Offset, int]] = {}
        self.verifications = Verifications()
        self.replace(states or {})

    @property
    def states(self) -> Mapping[int, ProducerState]:
        """States by producer id."""
        return self._states

    def __len__(self) -> int:
        return len(self._states)

    def get(self, producer_id: int) -> ProducerState | None:
        return self._states.get(producer_id)

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Return whether the producer has written to a transaction in this epoch that no marker has ended."""
        state = self._states.get(producer_id)
        return state is not None and state.transaction_start is not None and state.epoch == epoch

    # --- checks of a leader ----------------------------------------------------------------------------------

    def check(
        self, header: BatchHeader, marker: EndTransactionMarker | None = None, origin: AppendOrigin = CLIENT
    ) -> Accept | Duplicate:
        """Return whether the batch is new or a duplicate. A marker invalidates the verifications of its transaction.

        Raises Refusal with INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_TXN_STATE,
        NOT_ENOUGH_REPLICAS if the batch has to be verified again or, for a marker, TRANSACTION_COORDINATOR_FENCED.
        """
        if header.producer_id < 0:
            return ACCEPT
        state = self._states.get(header.producer_id)
        if marker is not None:
            if state is not None:
                _check_marker(state, header, marker, origin.transaction_version)
            is_bumped = origin.transaction_version >= EPOCH_BUMP
            self.verifications.end_by_marker(header.producer_id, header.producer_epoch, is_bumped=is_bumped)
            return ACCEPT
        if state is not None:
            if not origin.is_coordinator and (duplicate := state.duplicate_of(header)) is not None:
                _check_not_ended(state, header, duplicate)
                return duplicate
            if header.producer_epoch < state.epoch:
                raise _old_epoch(header, state, "the latest is")
        is_transactional = header.attributes & TRANSACTIONAL_BIT
        if is_transactional:
            self._check_verified(header, state, origin)
        if state is not None:
            if not origin.is_coordinator:
                _check_sequence(state, header)
            if state.transaction_start is not None and not is_transactional:
                raise Refusal(
                    ErrorCode.INVALID_TXN_STATE,
                    f"producer {header.producer_id} sent records outside of its open transaction",
                )
        return ACCEPT

    def _check_verified(self, header: BatchHeader, state: ProducerState | None, origin: AppendOrigin) -> None:
        """Raise Refusal unless the transactional batch may be written at this point of its transaction."""
        producer_id = header.producer_id
        is_open = self.has_open_transaction(producer_id, header.producer_epoch)
        if not is_open and not self.verifications.allows(producer_id, origin.guard):
            raise _unverified(producer_id, origin)
        verification = self.verifications.get(producer_id)
        if verification is None or origin.is_coordinator:
            return
        is_unknown = state is None or not state.batches
        must_begin = verification.begins_at_zero and is_unknown and header.base_sequence != 0
        if must_begin or header.base_sequence > verification.lowest_sequence:
            expected = 0 if must_begin else verification.lowest_sequence
            raise _out_of_order(header, f"the first of its transaction is {expected}")

    # --- batches in the log ----------------------------------------------------------------------------------

    def update(self, header: BatchHeader, marker: EndTransactionMarker | None = None) -> AbortedTxn | None:
        """Update the state for a batch that was written at the offsets of its header, and the marker in it.

        Returns the transaction that it aborted, if any.
        """
        producer_id = header.producer_id
        if producer_id < 0:
            return None
        state = self._states.get(producer_id)
        batches: tuple[WrittenBatch, ...] = ()
        coordinator_epoch, start = NO_COORDINATOR_EPOCH, None
        if state is not None:
            coordinator_epoch, start = state.coordinator_epoch, state.transaction_start
            if state.epoch == header.producer_epoch:
                batches = state.batches
        last_offset, attributes = header.last_offset, header.attributes
        aborted = None
        # A transaction marker has its producer's epoch, and no sequence.
        if attributes & CONTROL_BIT:
            if marker is not None:
                coordinator_epoch = marker.coordinator_epoch
                aborted, start = self._end_transaction(producer_id, start, last_offset, marker), None
        else:
            written = _new_tuple(
                WrittenBatch,
                (header.base_sequence, header.last_sequence, header.base_offset, last_offset, header.max_timestamp_ms),
            )
            batches = (*batches[_KEPT_FROM:], written)
            if attributes & TRANSACTIONAL_BIT:
                self.verifications.end(producer_id)
                if start is None:
                    start = Offset(header.base_offset)
                    self.transactions.begin(producer_id, start)
        self._states[producer_id] = _new_tuple(
            ProducerState,
            (header.producer_epoch, batches, last_offset, header.max_timestamp_ms, coordinator_epoch, start),
        )
        return aborted

    def _end_transaction(
        self, producer_id: int, start: Offset | None, marker_offset: Offset, marker: EndTransactionMarker
    ) -> AbortedTxn | None:
        # A marker without records in this partition holds nothing back, and consumers need not know of it.
        if start is None:
            return None
        self.transactions.decide(producer_id, marker_offset)
        if marker.type is MarkerType.COMMIT:
            return None
        undecided = self.transactions.first_undecided
        stable = marker_offset + 1 if undecided is None else undecided
        return AbortedTxn(producer_id, start, marker_offset, stable)

    # --- recovery --------------------------------------------------------------------------------------------

    def replay(self, recent: RecentBatches) -> None:
        """Update the state for batches found in the log, except those that it already includes."""
        for producer_id, found in recent.by_producer.items():
            known = self._states.get(producer_id)
            start = None if known is None else known.transaction_start
            least = -1 if known is None else known.last_offset
            steps = [(header, marker) for header, marker in found.steps() if header.base_offset > least]
            for header, marker in steps:
                self.update(header, marker)
            if any(marker is not None for _, marker in steps) or start is None:
                # The scan has noted the first batch of the transaction, which may not be among the latest.
                start = found.begun
            if steps:
                self._states[producer_id] = self._states[producer_id]._replace(transaction_start=start)
        self.replace(self._states)

    def reaches(self, offset: Offset) -> bool:
        """Return whether the state includes a batch at or above `offset`: after truncation there it must be rebuilt."""
        return any(state.last_offset >= offset for state in self._states.values())

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Drop the state of producers that wrote nothing for this long; return their number.

        The time counts from the first call that found their present state: timestamps are the clients' and may be years
        old. `now_ms` is monotonic, so that setting the wall clock forward drops no state that a retry needs. A producer
        with an open transaction stays: its marker is still to come. Source: `producer.id.expiration.ms`.
        """
        since = {
            producer_id: known
            if (known := self._unchanged_since.get(producer_id)) is not None and known[0] == state.last_offset
            else (state.last_offset, now_ms)
            for producer_id, state in self._states.items()
            if state.transaction_start is None
        }
        silent = [producer_id for producer_id, (_, begin_ms) in since.items() if now_ms - begin_ms >= expiration_ms]
        for producer_id in silent:
            del self._states[producer_id], since[producer_id]
        self._unchanged_since = since
        self.verifications.expire(now_ms, expiration_ms)
        return len(silent)

    def replace(self, states: Mapping[int, ProducerState]) -> None:
        """Replace all states. Which decided transactions are not replicated yet is then unknown."""
        self._states = dict(states)
        self.transactions = OpenTransactions(
            (producer_id, state.transaction_start)
            for producer_id, state in states.items()
            if state.transaction_start is not None
        )

    def restore(self, states: Mapping[int, ProducerState], before: OpenTransactions, log_end: Offset) -> None:
        """Replace all states; of the decided transactions of `before`, those below `log_end` stay unreplicated."""
        self.replace(states)
        self.transactions.take_unreplicated(before, log_end)

    def clear(self) -> None:
        self.replace({})


def _unverified(producer_id: int, origin: AppendOrigin) -> Refusal:
    """Return the refusal of records that may not begin a transaction here.

    Their verification may have ended with a lead, or their transaction while they waited. The log cannot tell, and most
    producers end at INVALID_TXN_STATE: they send the records again, and the coordinator tells, as after a verification
    that could not be made.
    """
    problem = f"the records of producer {producer_id} are not part of an open transaction"
    if origin.is_verified_again:
        return Refusal(ErrorCode.NOT_ENOUGH_REPLICAS, f"{problem} here, or are not verified any more; retry")
    return Refusal(ErrorCode.INVALID_TXN_STATE, f"{problem}: send them with their transactional id")


def _check_sequence(state: ProducerState, header: BatchHeader) -> None:
    """Raise Refusal unless the batch continues the sequence, or begins that of a new epoch."""
    expected = (state.last_sequence + 1) & SEQUENCE_MAX if header.producer_epoch == state.epoch else 0
    if header.base_sequence != expected:
        raise _out_of_order(header, f"expected {expected}")


def _out_of_order(header: BatchHeader, expectation: str) -> Refusal:
    return Refusal(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {header.producer_id} epoch {header.producer_epoch} sent sequence {header.base_sequence}, "
        f"{expectation}",
    )


def _check_not_ended(state: ProducerState, header: BatchHeader, duplicate: Duplicate) -> None:
    """Raise Refusal if the transaction of the batch in the log has ended.

    No producer waits for the response to such a batch, so the one that has come may have other records: librdkafka
    gives them the sequences of records that it dropped at an abort (docs/adr/0036). Acknowledged, they would be lost.
    """
    if header.is_transactional and (state.transaction_start is None or duplicate.base_offset < state.transaction_start):
        raise Refusal(
            ErrorCode.UNKNOWN_PRODUCER_ID,
            f"producer {header.producer_id} sent sequence {header.base_sequence} again, whose transaction has ended: "
            "abort the transaction, and repeat it with the next epoch",
        )


def _check_marker(
    state: ProducerState, header: BatchHeader, marker: EndTransactionMarker, transaction_version: int
) -> None:
    """Raise Refusal for a marker of an ended transaction, or from a coordinator that was replaced."""
    epoch = header.producer_epoch
    if epoch < state.epoch:
        raise _old_epoch(header, state, "the latest is")
    # The same marker may be written again after the coordinator lost the response.
    if transaction_version >= EPOCH_BUMP and epoch == state.epoch and state.transaction_start is not None:
        raise _old_epoch(header, state, "a marker must bump")
    if marker.coordinator_epoch < state.coordinator_epoch:
        raise Refusal(
            ErrorCode.TRANSACTION_COORDINATOR_FENCED,
            f"a marker for producer {header.producer_id} has coordinator epoch {marker.coordinator_epoch}, "
            f"the latest is {state.coordinator_epoch}",
        )


def _old_epoch(header: BatchHeader, state: ProducerState, reason: str) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"producer {header.producer_id} sent epoch {header.producer_epoch}, {reason} {state.epoch}",
    )
