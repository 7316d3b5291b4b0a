"""What is known of one mirrored partition: its position, and which offset of the source is which of the target.

Records that lie together at both ends are a run. A mirror keeps the last runs, and of older ones fewer and fewer: a
committed offset between two kept runs becomes the end of the earlier one. So a group that goes on at the target never
misses a record, and reads at most half as many twice as it was behind the mirror.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

EXACT_RUNS: Final = 8
"""The newest runs are all kept."""


class Run(NamedTuple):
    """Consecutive records at both ends."""

    source: int
    target: int
    records: int

    @property
    def source_end(self) -> int:
        return self.source + self.records

    @property
    def target_end(self) -> int:
        return self.target + self.records


class PartitionState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The position in one partition of the source, as the positions topic keeps it."""

    topic: str
    partition: int
    topic_id: str = ""
    """Id of the topic at the source: one that was deleted and created again begins anew."""

    target_id: str = ""
    """Id of the topic at the target, likewise; empty if it was not noted."""

    next_offset: int = 0
    """The next one to read at the source."""

    leader_epoch: int = -1
    """Of the last batch that was read at the source: a leader that does not have it has lost records. -1: unknown."""

    target_end: int = 0
    """The offset after the last mirrored record at the target."""

    records: int = 0
    """Mirrored so far."""

    skipped: int = 0
    """Offsets that the source deleted before they were mirrored."""

    timestamp_ms: int = 0
    """Timestamp of the last mirrored record."""

    runs: tuple[Run, ...] = ()

    def advanced(
        self, next_offset: int, runs: Sequence[Run], timestamp_ms: int, leader_epoch: int = -1
    ) -> PartitionState:
        """Return the state after these records were stored at the target."""
        joined = _joined((*self.runs, *runs))
        return replace(
            self,
            next_offset=next_offset,
            leader_epoch=leader_epoch,
            target_end=joined[-1].target_end if joined else self.target_end,
            records=self.records + sum(each.records for each in runs),
            timestamp_ms=timestamp_ms if runs else self.timestamp_ms,
            runs=thinned(joined),
        )

    def at_target(self, committed: int) -> int:
        """Return where a group with this committed offset goes on at the target; never after what is mirrored."""
        if committed >= self.next_offset or not self.runs:
            return self.target_end
        number = bisect_right(self.runs, committed, key=lambda run: run.source) - 1
        if number < 0:
            return self.runs[0].target
        run = self.runs[number]
        return run.target + min(committed - run.source, run.records)

    def turned(self, topic: str, topic_id: str) -> PartitionState:
        """Return the state for the way back: the target's records up to here are those of the source."""
        return PartitionState(
            topic=topic,
            partition=self.partition,
            topic_id=topic_id,
            target_id=self.topic_id,
            next_offset=self.target_end,
            target_end=self.next_offset,
            timestamp_ms=self.timestamp_ms,
            runs=tuple(Run(each.target, each.source, each.records) for each in self.runs),
        )

    def is_further(self, other: PartitionState | None) -> bool:
        """Return whether more of this very topic is mirrored by this state than by the other one."""
        if other is None or other.topic_id != self.topic_id:
            return self.next_offset > 0
        return self.next_offset > other.next_offset

    def continued(self, other: PartitionState) -> PartitionState:
        """Return this state, or that of another mirror with the higher counts of both, if it is further on.

        What the way back wrote at the source came from the target, and must not go there again; what another mirror
        brought is there already.
        """
        if other.topic_id != self.topic_id or not other.is_further(self):
            return self
        first = other.runs[0].source if other.runs else other.next_offset
        return replace(
            other,
            target_id=self.target_id or other.target_id,
            records=max(self.records, other.records),
            skipped=max(self.skipped, other.skipped),
            runs=thinned((*(each for each in self.runs if each.source_end <= first), *other.runs)),
        )


def runs_of(offsets: Sequence[int], stored: Iterable[tuple[int, int, int]]) -> list[Run]:
    """Return the runs of records with these offsets at the source.

    `stored` has (first index, number of records, base offset) of parts that lie together at the target; a base offset
    of -1 is unknown.
    """
    found: list[Run] = []
    for first, count, base in stored:
        for row in range(first, first + count) if base >= 0 else ():
            run = Run(offsets[row], base + row - first, 1)
            if found and _follows(run, found[-1]):
                found[-1] = found[-1]._replace(records=found[-1].records + 1)
            else:
                found.append(run)
    return found


def thinned(runs: tuple[Run, ...]) -> tuple[Run, ...]:
    """Return the newest runs, and of older ones so many that a gap is at most half as far as its distance to the end.

    The first one stays: it says where the mirror began.
    """
    if len(runs) <= EXACT_RUNS:
        return runs
    head = runs[-1].source_end
    kept = list(reversed(runs[-EXACT_RUNS:]))
    older = list(reversed(runs[:-EXACT_RUNS]))
    row = 0
    while row < len(older):
        newer = kept[-1]
        reach = (head - newer.source) // 2
        while row + 1 < len(older) and newer.source - older[row + 1].source_end <= reach:
            row += 1
        kept.append(older[row])
        row += 1
    if kept[-1] != runs[0]:
        kept.append(runs[0])
    return tuple(reversed(kept))


def _joined(runs: Iterable[Run]) -> tuple[Run, ...]:
    joined: list[Run] = []
    for run in runs:
        if joined and _follows(run, joined[-1]):
            joined[-1] = joined[-1]._replace(records=joined[-1].records + run.records)
        else:
            joined.append(run)
    return tuple(joined)


def _follows(run: Run, before: Run) -> bool:
    return run.source == before.source_end and run.target == before.target_end
