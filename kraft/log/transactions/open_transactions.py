"""The transactions that hold back a partition's last stable offset.

A transaction is undecided until its marker is in the log, and unreplicated until the high watermark has passed the
marker: a consumer of committed records must not see an outcome that a new leader may lack. Source: Kafka's
ProducerStateManager, KIP-98.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from kraft.model.ids import Offset


class _Decided(NamedTuple):
    first_offset: Offset
    marker_offset: Offset


class OpenTransactions:
    """Undecided and unreplicated transactions of one partition.

    Invariants: undecided transactions are in the order of their first offsets; of the unreplicated ones, both offsets
    ascend. A decided transaction is dropped when a later marker ends one that began earlier: that one holds back more,
    and longer.
    """

    def __init__(self, undecided: Iterable[tuple[int, Offset]] = ()) -> None:
        """Begin with the producer ids and first offsets of undecided transactions, in any order."""
        self._undecided = dict(sorted(undecided, key=lambda begun: begun[1]))
        self._unreplicated: deque[_Decided] = deque()

    @property
    def first_undecided(self) -> Offset | None:
        """First offset of the oldest undecided transaction; None if there is none."""
        return next(iter(self._undecided.values()), None)

    @property
    def first_undecided_producer(self) -> int | None:
        """Producer id of the oldest undecided transaction; None if there is none."""
        return next(iter(self._undecided), None)

    def begin(self, producer_id: int, first_offset: Offset) -> None:
        """Note a transaction that begins behind all others."""
        self._undecided[producer_id] = first_offset

    def decide(self, producer_id: int, marker_offset: Offset) -> None:
        """Note the marker that ends the producer's transaction, behind all markers before it."""
        first_offset = self._undecided.pop(producer_id)
        while self._unreplicated and self._unreplicated[-1].first_offset > first_offset:
            self._unreplicated.pop()
        self._unreplicated.append(_Decided(first_offset, marker_offset))

    def replicate(self, high_watermark: Offset) -> None:
        """Forget decided transactions whose marker every in-sync replica has."""
        while self._unreplicated and self._unreplicated[0].marker_offset < high_watermark:
            self._unreplicated.popleft()

    def first_unstable(self) -> Offset | None:
        """Return the first offset of the oldest transaction that is undecided or unreplicated; None without one."""
        undecided = self.first_undecided
        if not self._unreplicated:
            return undecided
        unreplicated = self._unreplicated[0].first_offset
        return unreplicated if undecided is None else min(undecided, unreplicated)

    def take_unreplicated(self, other: OpenTransactions, log_end: Offset) -> None:
        """Take over the unreplicated transactions of `other` whose markers are below `log_end`."""
        self._unreplicated = deque(decided for decided in other._unreplicated if decided.marker_offset < log_end)
