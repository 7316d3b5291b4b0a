"""Finds the batches of aborted transactions among fetched ones. Source: Kafka's CompletedFetch."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from kraft.log.format.control_record import MarkerType, marker_in
from kraft.log.format.record_batch import BatchHeader, Buffer
from kraft.model.fetch import AbortedTransaction


class AbortedRecords:
    """The aborted transactions of one response, which are asked about its batches in their order.

    A producer's batches are aborted from the first offset of such a transaction on, up to its next abort marker.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._ahead = deque(sorted(aborted, key=lambda each: each.first_offset))
        self._producer_ids: set[int] = set()
        """Producers of whose aborted transactions there are batches at the present place."""

    def has(self, header: BatchHeader, batch: Buffer) -> bool:
        """Return whether the batch, which comes after those before, belongs to an aborted transaction."""
        while self._ahead and self._ahead[0].first_offset <= header.last_offset:
            self._producer_ids.add(self._ahead.popleft().producer_id)
        if not self._producer_ids or header.producer_id not in self._producer_ids:
            return False
        if header.is_control:
            marker = marker_in(header, batch)
            if marker is not None and marker.type is MarkerType.ABORT:
                self._producer_ids.discard(header.producer_id)
            return False
        return header.is_transactional
