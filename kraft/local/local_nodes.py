"""Finds and stops the nodes of this user on this machine, by the locks on their log directories."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import psutil
from msgspec import Struct

from kraft.local.launching import PROCESS_OPTION
from kraft.server.identity import storage
from kraft.server.identity.storage import LOCK_FILE, SUPERVISOR_LOCK_FILE, StorageError, StorageMeta
from kraft.server.process import lifeline

_START = ["server", "start"]
_FORKED = "kraft.local.fork_server"
"""A node that was forked has the command line and the environment of its fork server."""
_POLL_S = 0.05

TOLD_AFTER_S: Final = 2.0
"""Time after which whoever waits is told what for."""

_LOCK_FILES = (LOCK_FILE, SUPERVISOR_LOCK_FILE)


class LocalNode(Struct, frozen=True, kw_only=True):
    """A running node; of several processes of one file, the supervisor or one of them."""

    process: psutil.Process
    """Knows its start time, so a signal never reaches another process that got the same pid."""

    cluster_id: str
    node_id: int
    log_dirs: tuple[Path, ...]
    has_launcher: bool
    """True for a child of `kraft dev`, of `kraft.testing` or of another launcher, which stops it."""

    is_supervised: bool = False
    """True for a process that a supervisor started from the same file, and would start again."""

    @property
    def is_suspended(self) -> bool:
        """Return whether somebody has stopped the process with SIGSTOP or Ctrl-Z, so that it does nothing."""
        try:
            return bool(self.process.status() == psutil.STATUS_STOPPED)
        except psutil.NoSuchProcess:
            return False

    @property
    def pid(self) -> int:
        return self.process.pid

    def __str__(self) -> str:
        return f"node {self.node_id} of cluster {self.cluster_id} (pid {self.pid})"


class StopResult(Struct, frozen=True, kw_only=True):
    """Result of `stop`."""

    stopped: list[LocalNode]
    still_running: list[LocalNode]


def find(processes: Callable[[], Iterable[psutil.Process]] = psutil.process_iter) -> list[LocalNode]:
    """Return the nodes in the order of cluster and node ids. Processes of other users are never inspected."""
    found: list[LocalNode] = []
    for process in processes():
        try:
            if process.pid != os.getpid() and process.uids().real == os.getuid():
                found += _as_node(process)
        except psutil.Error:
            # It has ended, or may not be inspected, so it is not a node of this user.
            continue
    return sorted(found, key=lambda node: (node.cluster_id, node.node_id))


def stop(
    nodes: Sequence[LocalNode], deadline_s: float, waiting: Callable[[Sequence[LocalNode]], object] = lambda _: None
) -> StopResult:
    """Send SIGTERM to all nodes, and wait until they end or the deadline.

    `waiting` is called once, with those that have not ended after TOLD_AFTER_S.
    """
    for node in nodes:
        try:
            node.process.terminate()
        except psutil.NoSuchProcess:
            # It has already ended.
            continue
    began, still_running, is_told = time.monotonic(), list(nodes), False
    while still_running := [node for node in still_running if _runs(node.process)]:
        waited_s = time.monotonic() - began
        if waited_s >= deadline_s:
            break
        if waited_s >= TOLD_AFTER_S and not is_told:
            is_told = True
            waiting(still_running)
        time.sleep(_POLL_S)
    return StopResult(stopped=[node for node in nodes if node not in still_running], still_running=still_running)


def _runs(process: psutil.Process) -> bool:
    """Return whether the process runs; a zombie does not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _as_node(process: psutil.Process) -> Iterator[LocalNode]:
    """Yield the node if the process was started or forked as one and holds locks on log directories."""
    command = process.cmdline()
    is_forked = _FORKED in command
    if not is_forked and not any(command[place : place + 2] == _START for place in range(len(command))):
        return
    metas: dict[Path, StorageMeta] = {}
    for file in process.open_files():
        path = Path(file.path)
        if path.name in _LOCK_FILES and (meta := _held_by(process.pid, path)) is not None:
            metas[path.parent] = meta
    if metas:
        first = next(iter(metas.values()))
        yield LocalNode(
            process=process,
            cluster_id=first.cluster_id,
            node_id=first.node_id,
            log_dirs=tuple(sorted(metas)),
            has_launcher=is_forked or lifeline.ENVIRONMENT_VARIABLE in process.environ(),
            is_supervised=PROCESS_OPTION in command,
        )


def _held_by(pid: int, lock: Path) -> StorageMeta | None:
    """Return the `meta.properties` beside a lock, if the lock names this process."""
    try:
        return storage.read_meta(lock.parent) if lock.read_text() == f"{pid}\n" else None
    except (OSError, StorageError, UnicodeDecodeError):
        return None
