"""The transactions of one log, as its leader uses them: what is stable, what was aborted, and which may begin."""

from __future__ import annotations

from collections.abc import Container
from typing import NoReturn

from kraft.log.append_work import AppendOrigin
from kraft.log.format.control_record import marker_in
from kraft.log.format.record_batch import Buffer, read_header
from kraft.log.log_files import LogFiles
from kraft.log.log_health import LogHealth
from kraft.log.recovery.producer_state import ProducerStates
from kraft.log.segment import lookup
from kraft.log.segment.aborted_index import AbortedEntries, collect_aborted
from kraft.log.segment.lookup import AbortedLookUp
from kraft.log.transactions.aborted import AbortedTxn
from kraft.log.transactions.verification import VerificationGuard
from kraft.model.errors import Refusal
from kraft.model.ids import Offset


class LogTransactions:
    """Questions about the transactions of one log. Appends to the log answer them: nothing here changes it."""

    def __init__(self, files: LogFiles, producers: ProducerStates, health: LogHealth) -> None:
        self._files = files
        self._producers = producers
        self._health = health

    # --- consumers of committed records ----------------------------------------------------------------------

    def last_stable_offset(self, high_watermark: Offset) -> Offset:
        """Return the offset below which every transaction is decided and its marker replicated.

        At most the high watermark. A transaction whose first records were deleted begins at the log start.
        """
        unstable = self._producers.transactions.first_unstable()
        if unstable is None:
            return high_watermark
        return min(max(unstable, self._files.log_start), high_watermark)

    def oldest_write_ms(self) -> int | None:
        """Return when the producer of the oldest undecided transaction wrote last; None without one."""
        producer_id = self._producers.transactions.first_undecided_producer
        state = None if producer_id is None else self._producers.get(producer_id)
        return None if state is None else state.timestamp_ms

    def high_watermark_advanced(self, high_watermark: Offset) -> None:
        """Forget decided transactions below the high watermark: they no longer hold back the last stable offset."""
        self._producers.transactions.replicate(high_watermark)

    def may_have_aborted(self, start: Offset) -> bool:
        """Return whether some segment with offsets from `start` on has aborted transactions."""
        files = self._files
        is_possible = files.checkpoint.aborted_from is not None
        return is_possible and any(lookup.aborted_entries(files.segments, start, copied=False))

    def aborted(self, start: Offset, upper: Offset) -> list[AbortedTxn]:
        """Return the aborted transactions with offsets in [start, upper), in the order of their markers.

        Raises Refusal with KAFKA_STORAGE_ERROR if an index cannot be read: aborted records must not look committed.
        """
        try:
            return collect_aborted(lookup.aborted_entries(self._files.segments, start, copied=False), start, upper)
        except (OSError, ValueError) as error:
            self.look_up_failed(error)

    def look_up_aborted(
        self, start: Offset, upper: Offset, producers: Container[int]
    ) -> list[AbortedTxn] | AbortedLookUp:
        """Return the aborted transactions of these producers with offsets in [start, upper).

        Returns the rest of the look-up if it takes more than a step. Raises Refusal as `aborted`.
        """
        look_up = lookup.aborted(self._files.segments, start, upper, producers)
        try:
            next(look_up.steps)
        except StopIteration as end:
            found: list[AbortedTxn] = end.value
            return found
        except (OSError, ValueError) as error:
            self.look_up_failed(error)
        return look_up

    def look_up_failed(self, error: OSError | ValueError) -> NoReturn:
        """Refuse a look-up that could not read an index of aborted transactions; only want of files keeps the log."""
        if isinstance(error, OSError):
            self._health.refuse_read(error)
        self._health.fail(OSError(f"an index of aborted transactions is damaged: {error}"))

    def aborted_entries(self, start: Offset) -> tuple[AbortedEntries, ...]:
        """Return the entries of the segments from `start` on, for `collect_aborted` in another thread."""
        return tuple(lookup.aborted_entries(self._files.segments, start, copied=True))

    # --- producers -------------------------------------------------------------------------------------------

    def kept_batches(self) -> dict[int, Offset]:
        """Return for each producer the last offset of the batch that compaction keeps for the producer's state."""
        return {producer_id: state.kept_offset for producer_id, state in self._producers.states.items()}

    def check(self, batch: Buffer, origin: AppendOrigin) -> None:
        """Raise the Refusal that an append of this batch would end with now, because of its producer or its marker.

        Raises InvalidBatch for bytes that are no batch.
        """
        header = read_header(batch)
        self._producers.check(header, marker_in(header, batch), origin)

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, begins_at_zero: bool
    ) -> VerificationGuard | None:
        """Begin to verify a batch with the coordinator; return the guard for its append.

        Returns None if the transaction is open in this log already: the coordinator has to end it, so it knows it.
        """
        if self._producers.has_open_transaction(producer_id, epoch):
            return None
        return self._producers.verifications.begin(producer_id, epoch, sequence, begins_at_zero)

    def verification_refused(self, producer_id: int, guard: VerificationGuard, refusal: Refusal) -> None:
        """Forget a batch that the coordinator has refused, unless its producer may send it again in its order."""
        if not refusal.error_code.retriable:
            self._producers.verifications.refuse(producer_id, guard)

    def end_verifications(self) -> None:
        """Invalidate all guards, at the end of a leadership: the markers that another leader writes are not checked."""
        self._producers.verifications.clear()
