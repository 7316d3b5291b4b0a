"""The snapshots of a voter under measurement: none, so that its journal keeps every entry."""

from __future__ import annotations

from collections.abc import Callable

from kraft.quorum.snapshots import Snapshot


class Untrimmed:
    """A keeper that has no snapshot and gets none."""

    start_id = None

    def latest(self) -> Snapshot | None:
        return None

    def keep(self, snapshot: Snapshot) -> Callable[[], None]:
        raise RuntimeError(f"another voter sent snapshot {snapshot.id}")
