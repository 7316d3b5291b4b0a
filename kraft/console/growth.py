"""How fast topics grow: from what pages saw of them before, as nobody watches a topic that nobody looks at."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

from msgspec import Struct

REMEMBERED_MAX: Final = 20_000
"""Topics; those that were looked at the longest time ago are forgotten first."""

YOUNGEST_MS: Final = 1_000
"""Over less time than this a rate would be chance."""

RENEWED_MS: Final = 10_000
"""A look this long ago is replaced by the one that is made now."""

OLDEST_MS: Final = 600_000


class Rate(Struct, frozen=True, kw_only=True):
    """Records per second, over the time since an earlier look."""

    per_s: float
    over_s: float


class Growth:
    """Remembers the ends of topics' logs. From any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._looks: OrderedDict[Hashable, tuple[int, int]] = OrderedDict()
        """When each topic was looked at, and its end then."""

    def seen(self, topic: Hashable, end: int, now_ms: int) -> Rate | None:
        """Return the rate since the look before; None if that was too long ago, or just now."""
        with self._lock:
            before = self._looks.get(topic)
            if before is None or now_ms - before[0] >= RENEWED_MS or end < before[1]:
                self._looks[topic] = (now_ms, end)
                self._looks.move_to_end(topic)
                if len(self._looks) > REMEMBERED_MAX:
                    self._looks.popitem(last=False)
        if before is None or end < before[1] or not YOUNGEST_MS <= now_ms - before[0] <= OLDEST_MS:
            return None
        over_s = (now_ms - before[0]) / 1_000
        return Rate(per_s=(end - before[1]) / over_s, over_s=over_s)
