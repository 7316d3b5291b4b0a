"""How long the connector waits for a cluster that is changing, before it takes what it sees for the truth."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

Seen = TypeVar("Seen")


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Deadlines.

    After an election a leader's high watermark, and after a restart a broker's metadata, is behind for a moment: what
    looks like lost records or partitions gets `settle_s` to reappear. `read_s` is how long a task waits for records
    that exist. An idle stream looks for new topics and partitions every `topics_age_s`.
    """

    settle_s: float = 10.0
    poll_s: float = 0.1
    read_s: float = 60.0
    topics_age_s: float = 1.0

    def brief(self) -> Patience:
        """Return one for offsets that people give, which may just be wrong."""
        return replace(self, settle_s=min(self.settle_s, 2.0))

    def with_retries(self, retries: int | None, interval_ms: int | None) -> Patience:
        """Return one that looks again as often, at this interval, and never gives up sooner than the usual one."""
        if retries is None and interval_ms is None:
            return self
        poll_s = (1_000 if interval_ms is None else interval_ms) / 1_000
        return replace(self, poll_s=min(max(poll_s, 0.05), 1.0), settle_s=max(self.settle_s, poll_s * (retries or 3)))

    def with_read_timeout(self, timeout_ms: int | None) -> Patience:
        return self if timeout_ms is None else replace(self, read_s=timeout_ms / 1_000)

    def settled(self, look: Callable[[], Seen], is_settled: Callable[[Seen], bool]) -> Seen:
        """Look until what is seen is settled, or the time has passed; return what was seen last."""
        deadline = time.monotonic() + self.settle_s
        while True:
            seen = look()
            if is_settled(seen) or time.monotonic() >= deadline:
                return seen
            time.sleep(self.poll_s)
