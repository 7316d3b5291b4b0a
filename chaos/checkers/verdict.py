"""Anomalies of a history, and the verdict that lists them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum


class AnomalyKind(StrEnum):
    """The names are those of the Jepsen test of Kafka-like logs, so that both can be read side by side."""

    INCONSISTENT_OFFSETS = "inconsistent-offsets"
    """Two values at one key and offset."""

    DUPLICATE = "duplicate"
    """One value at two offsets."""

    LOST_WRITE = "lost-write"
    """Acknowledged below the highest offset that anybody read of its key, and never read."""

    UNSEEN = "unseen"
    """Acknowledged, not read by the end, and no lost-write: it was above everything that was read."""

    ABORTED_READ = "aborted-read"
    """Read, although its send failed for certain (G1a)."""

    PHANTOM_READ = "phantom-read"
    """Read, although nobody ever sent it."""

    POLL_SKIP = "poll-skip"
    """Between two polls of a process, a known offset was jumped over."""

    INT_POLL_SKIP = "int-poll-skip"
    """The same inside one poll."""

    NONMONOTONIC_POLL = "nonmonotonic-poll"
    """A process polled an offset that was not above those it had polled before."""

    INT_NONMONOTONIC_POLL = "int-nonmonotonic-poll"
    """The same inside one poll."""

    NONMONOTONIC_SEND = "nonmonotonic-send"
    """A process's later send of a key lies before its earlier one."""

    INT_NONMONOTONIC_SEND = "int-nonmonotonic-send"
    """The same inside one send."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """One finding; `operations` are the indexes in the history that show it."""

    kind: AnomalyKind
    key: str
    text: str
    operations: tuple[int, ...]

    def __str__(self) -> str:
        shown = ", ".join(str(index) for index in self.operations)
        return f"{self.kind} in {self.key}: {self.text} (operations {shown})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Size and anomalies of a history. Counts are of values."""

    anomalies: tuple[Anomaly, ...]
    acknowledged: int
    failed: int
    """Certain not to be stored."""

    unknown: int
    """Sent, and neither acknowledged nor refused: they may be there or not."""

    read: int
    """Different values that anybody read."""

    is_drained: bool
    """The last reading of everything came to its end; without it, `unseen` may only mean: not looked at."""

    @property
    def is_clean(self) -> bool:
        """Every kind of anomaly is fatal: none is legal where partitions are assigned by hand."""
        return not self.anomalies and self.is_drained

    @property
    def counts(self) -> Counter[AnomalyKind]:
        return Counter(anomaly.kind for anomaly in self.anomalies)

    @property
    def lost(self) -> int:
        """Acknowledged values that nobody could read."""
        return self.counts[AnomalyKind.LOST_WRITE] + self.counts[AnomalyKind.UNSEEN]

    @property
    def duplicates(self) -> int:
        return self.counts[AnomalyKind.DUPLICATE]
