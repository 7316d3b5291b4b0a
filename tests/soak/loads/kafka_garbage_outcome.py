"""Result of a run of garbage: the figures that are printed, and the objections."""

from __future__ import annotations

import json
import re
import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from tests.soak.loads.kafka_garbage import Damage
from tests.soak.loads.kafka_garbage_work import RECORDS_A_ROUND

REQUEST_BYTES_MAX: Final = 16 * 1024 * 1024
"""The value of socket.request.max.bytes; memory may grow by twice this."""

GROWTH_MAX: Final = 2 * REQUEST_BYTES_MAX


@dataclass(slots=True)
class Log:
    """The node's log."""

    refusals_logged: int = 0
    refusals_counted: int = 0
    """Refusals that were only counted in another line."""

    kinds_logged_most: int = 0
    """Log lines of the most frequent kind of refusal."""

    unnamed: int = 0
    """Lines about a refusal without a peer or a reason."""

    tracebacks: int = 0
    bugs: int = 0

    def read(self, text: str) -> None:
        self.tracebacks, self.bugs = text.count("Traceback"), text.count('"event": "internal error"')
        refusals = [json.loads(line) for line in text.splitlines() if '"event": "peer refused"' in line]
        kinds = Counter(re.sub(r"\d+", "#", line.get("reason", "")) for line in refusals)
        self.refusals_logged, self.kinds_logged_most = len(refusals), max(kinds.values(), default=0)
        self.refusals_counted = sum(line.get("refusals_not_logged", 0) for line in refusals)
        self.unnamed = sum(not line.get("reason") or ":" not in line.get("peer", "") for line in refusals)


@dataclass(slots=True)
class Outcome:
    """Result of a run: the frames sent, the node's work meanwhile, and its memory."""

    frames: int = 0
    ends: Counter[tuple[Damage, str]] = field(default_factory=Counter)
    served: str = ""
    pairs: int = 0
    """Every key and version that the node advertises and serves."""

    resident_before: int = 0
    resident_connected: int = 0
    """Memory with the idle connections, before anything is sent."""

    resident_max: int = 0
    resident_after: int = 0
    cpu_s: float = 0.0
    log: Log = field(default_factory=Log)
    is_alive: bool = False
    idle: int = 0
    idle_at_the_end: int = 0
    crowd: str = ""
    work_s: list[float] = field(default_factory=list)
    work_errors: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def resident_growth(self) -> int:
        return self.resident_max - self.resident_connected

    @property
    def closed(self) -> int:
        return sum(count for (_, end), count in self.ends.items() if end == "closed")

    @property
    def objections(self) -> list[str]:
        """Return what was wrong; empty if nothing was."""
        found = {
            "the node died": not self.is_alive,
            "tracebacks in its log": bool(self.log.tracebacks or self.log.bugs),
            "its memory grew too much": self.resident_growth > GROWTH_MAX,
            "idle connections were lost": self.idle_at_the_end < self.idle,
            "librdkafka noticed": bool(self.work_errors),
            "a kind of refusal was logged too often": self.log.kinds_logged_most > 1 + self.seconds / 60,
            "a refusal was logged without its peer or its reason": bool(self.log.unnamed),
        }
        return [what for what, holds in found.items() if holds]

    def __str__(self) -> str:
        slowest, median = max(self.work_s, default=0.0), statistics.median(self.work_s or [0.0])
        lines = [
            f"{self.frames:,} malformed frames in {self.seconds:.0f} s, {self.cpu_s:.0f} s of the node's time",
            *(f"  {kind.value}: {_counts(self._ends_of(kind))}" for kind in Damage),
            f"every version that is served, {self.pairs} in all: {self.served}",
            f"crashes: {0 if self.is_alive else 1}; bugs {self.log.bugs}, tracebacks {self.log.tracebacks}",
            (
                f"closed: {self.closed:,} connections; lines about that: {self.log.refusals_logged}, which speak of "
                f"{self.log.refusals_counted:,} others, the same kind at most {self.log.kinds_logged_most} times"
            ),
            f"{self.idle:,} idle connections, {self.idle_at_the_end:,} of them there in the end; {self.crowd}",
            (
                f"resident memory: {_mib(self.resident_before)} before, {_mib(self.resident_connected)} with the idle, "
                f"{_mib(self.resident_max)} at most, {_mib(self.resident_after)} after"
            ),
            f"  it grew by {_mib(self.resident_growth)}, and may by {_mib(GROWTH_MAX)}: twice socket.request.max.bytes",
            (
                f"meanwhile librdkafka wrote and read {len(self.work_s):,} times {RECORDS_A_ROUND} records: "
                f"median {median:.3f} s, slowest {slowest:.2f} s, errors: {dict(self.work_errors) or 'none'}"
            ),
            f"objections: {'; '.join(self.objections) or 'none'}",
        ]
        return "\n".join(lines)

    def _ends_of(self, kind: Damage) -> Counter[str]:
        return Counter({end: count for (of, end), count in self.ends.items() if of is kind})


def described(pairs: Iterable[tuple[str, int]]) -> str:
    """`FETCH 4-18, METADATA 0-13`"""
    versions: dict[str, list[int]] = {}
    for name, version in pairs:
        versions.setdefault(name, []).append(version)
    return ", ".join(
        f"{name} {min(found)}" + (f"-{max(found)}" if len(found) > 1 else "") for name, found in versions.items()
    )


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in counter.most_common())


def _mib(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"
