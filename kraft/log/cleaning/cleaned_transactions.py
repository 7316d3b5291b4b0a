"""The transactions of the batches that a compaction reads, in order: which were aborted, and which marker is needed.

An aborted transaction's records are dropped. A marker is needed until a cleaning finds no batch of its transaction; it
then gets a delete horizon, as tombstones do, so that consumers in the middle of the transaction still see it. All
transactions are decided: a cleaning ends at or below the last stable offset. The rules are those of Kafka's
CleanedTransactionMetadata.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from kraft.log.format.control_record import EndTransactionMarker, MarkerType
from kraft.log.format.record_batch import BatchHeader
from kraft.log.segment.aborted_index import AbortedEntries, collect_aborted
from kraft.log.segment.segment_facts import SegmentFacts
from kraft.log.transactions.aborted import AbortedTxn


class CleanedTransactions:
    """Transactions of one pass over a log's segments. Used by one thread."""

    def __init__(self, entries: Sequence[AbortedEntries]) -> None:
        """Take the aborted transactions of the segments, and of all later ones: markers may be there."""
        self._entries = entries
        self._coming: list[AbortedTxn] = []
        self._aborted: dict[int, AbortedTxn] = {}
        """Aborted transactions that have begun, by producer id."""
        self._has_batches: set[int] = set()
        """Producers of whose present transaction a batch was read."""
        self._kept: list[AbortedTxn] = []

    def begin_segment(self, segment: SegmentFacts) -> None:
        """Note that the batches of this segment come next. Raises OSError, and ValueError for a damaged index."""
        if self._entries:
            found = collect_aborted(self._entries, segment.base_offset, segment.end_offset)
            self._coming = sorted(found, key=attrgetter("first_offset"), reverse=True)

    def is_aborted(self, header: BatchHeader) -> bool:
        """Note the next batch, which holds no marker; return whether it is part of an aborted transaction."""
        if not header.is_transactional:
            return False
        self._begin_up_to(header)
        self._has_batches.add(header.producer_id)
        return header.producer_id in self._aborted

    def needs_marker(self, header: BatchHeader, marker: EndTransactionMarker | None) -> bool:
        """Note the next control batch; return whether its marker is needed: a batch of its transaction was read.

        A marker that was emptied is not needed, a control record of another type is.
        """
        if marker is None:
            return bool(header.record_count)
        self._begin_up_to(header)
        aborted = self._aborted.pop(header.producer_id, None)
        has_batches = header.producer_id in self._has_batches
        self._has_batches.discard(header.producer_id)
        if marker.type is MarkerType.ABORT and has_batches and aborted is not None:
            self._kept.append(aborted)
        return has_batches

    def take_kept(self) -> tuple[AbortedTxn, ...]:
        """Return the aborted transactions since the last call that consumers still have to know of."""
        kept, self._kept = tuple(self._kept), []
        return kept

    def _begin_up_to(self, header: BatchHeader) -> None:
        while self._coming and self._coming[-1].first_offset <= header.last_offset:
            aborted = self._coming.pop()
            if aborted.last_offset >= header.base_offset:
                self._aborted[aborted.producer_id] = aborted
