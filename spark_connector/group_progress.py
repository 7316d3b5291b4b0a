"""Commits a query's offsets to a consumer group, so that people see its lag where they see that of other programs.

Nothing is ever read from there: the position of a query is in its checkpoint.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final
from uuid import uuid4

from spark_connector.offsets import Offsets

FLUSH_TIMEOUT_S: Final = 5.0

_log = logging.getLogger("spark_connector")


def generated_group_id(prefix: str) -> str:
    return f"{prefix}-{uuid4()}"


class GroupProgress:
    """Commits the newest offsets in a thread, so that a trigger never waits for a coordinator."""

    def __init__(self, commit: Callable[[str, Offsets], None]) -> None:
        self._commit = commit
        self._changed = threading.Condition()
        self._newest: tuple[str, Offsets] | None = None
        self._committed: tuple[str, Offsets] | None = None
        self._is_busy = False
        self._is_stopped = False
        self._has_failed = False
        self._thread: threading.Thread | None = None

    def show(self, group_id: str, offsets: Offsets) -> None:
        """Commit these offsets soon, unless newer ones come before."""
        with self._changed:
            if self._is_stopped or (group_id, offsets) in (self._newest, self._committed):
                return
            self._newest = (group_id, offsets)
            self._changed.notify_all()
            if self._thread is None:
                # A daemon, because Spark ends the process without waiting for a cluster.
                self._thread = threading.Thread(target=self._run, name="group progress", daemon=True)
                self._thread.start()

    def flush(self, timeout_s: float = FLUSH_TIMEOUT_S) -> None:
        """Wait until the newest offsets are committed, or the timeout passes."""
        with self._changed:
            self._changed.wait_for(lambda: self._newest is None and not self._is_busy, timeout_s)

    def stop(self, timeout_s: float = FLUSH_TIMEOUT_S) -> None:
        """Commit what is waiting, within the timeout."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._newest is not None or self._is_stopped)
                wanted, self._newest = self._newest, None
                self._is_busy = wanted is not None
            if wanted is None:
                return
            is_committed = self._try_to_commit(*wanted)
            with self._changed:
                # After a failure, an idle query shows the same offsets again: then they are tried again.
                self._committed = wanted if is_committed else None
                self._is_busy = False
                self._changed.notify_all()

    def _try_to_commit(self, group_id: str, offsets: Offsets) -> bool:
        try:
            self._commit(group_id, offsets)
        except Exception as error:  # noqa: BLE001 - the query does not depend on this, whatever goes wrong
            if not self._has_failed:
                _log.warning("offsets not committed, the query continues: group=%s reason=%s", group_id, error)
            self._has_failed = True
            return False
        if self._has_failed:
            _log.warning("offsets committed again: group=%s", group_id)
        self._has_failed = False
        return True
