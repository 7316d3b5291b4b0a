"""A node as a child process of this one: started, signalled, watched, and never left behind.

A node runs in its own session, so that Ctrl-C reaches only the launcher, which then stops its nodes in order. It ends
with the launcher (see `lifeline`); only a node that is paused when the launcher is killed remains, paused.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
import weakref
from collections.abc import Iterable, Sequence
from pathlib import Path

import psutil

from kraft.local.cluster_files import NodePlan, config_file, log_file
from kraft.local.launching import KRAFT, Launch, Process, launch
from kraft.runtime.disk import open_privately
from kraft.server.process import lifeline

STOP_DEADLINE_S = 30.0
_KILL_DEADLINE_S = 10.0
_TAIL_BYTES_MAX = 16 * 1024
_TAIL_LINES_MAX = 25


class NodeFailed(Exception):
    """A node ended by itself or missed a deadline; the text has its last log lines."""


class NodeProcess:
    """One node whose files `cluster_files.write` has written; it can be started and stopped any number of times.

    Failures raise NodeFailed. Calls block, each with a deadline. Not thread-safe.
    """

    def __init__(
        self, directory: Path, plan: NodePlan, command: Sequence[str] = KRAFT, launch: Launch = launch
    ) -> None:
        self.node_id = plan.node_id
        self.address = plan.grpc_address
        """`host:port` of the GRPC listener; None without the role of a broker."""
        self.is_controller = plan.is_voter
        self.config_path = config_file(directory, plan.node_id)
        self.log_path = log_file(directory, plan.node_id)
        self._command = command
        self._launch = launch
        self._process: Process | None = None
        self.is_starting = False
        """Whether it was started, and was neither found ready nor stopped since: it has to run, or it has failed."""
        self._finalizer: weakref.finalize[[Process, int, int], NodeProcess] | None = None

    @property
    def pid(self) -> int:
        """Return the pid of the running node. Raises NodeFailed if it does not run."""
        return self._running().pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """Return the exit code of the last run, negative for a signal; None while running and before a start."""
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        """Start the node and return at once; its output is appended to its log file."""
        assert not self.is_running, f"node {self.node_id} runs already"
        self._cut_lifeline()
        reading_end, writing_end = os.pipe()
        try:
            with open(self.log_path, "ab", opener=open_privately) as log:
                command = [*self._command, "server", "start", "-c", str(self.config_path)]
                self._process = self._launch(command, log, reading_end, lifeline.ENVIRONMENT_VARIABLE)
        except BaseException:
            os.close(writing_end)
            raise
        finally:
            os.close(reading_end)
        self.is_starting = True
        # Runs when this object is collected, and at the exit of the interpreter at the latest.
        self._finalizer = weakref.finalize(self, _end, self._process, writing_end, os.getpid())

    def kill(self) -> None:
        """Kill the node with SIGKILL: as when the power fails, except that the page cache survives."""
        process = self._running()
        self.is_starting = False
        process.kill()
        process.wait(_KILL_DEADLINE_S)

    def terminate(self, deadline_s: float = STOP_DEADLINE_S) -> None:
        """Stop the node in order. Raises NodeFailed, with the node dead, if it took too long or ended with an error."""
        self.request_stop()
        self.wait_stopped(deadline_s)

    def request_stop(self) -> None:
        """Send SIGTERM without waiting, to stop several nodes at once; `wait_stopped` follows."""
        process = self._running()
        self.is_starting = False
        process.terminate()
        # A paused node stops once it goes on. One with nothing to do may have ended already.
        process.send_signal(signal.SIGCONT)

    def wait_stopped(self, deadline_s: float) -> None:
        """Wait for the end of a stop, as `terminate` does.

        A node that SIGTERM killed before its handler was installed has opened nothing, and counts as stopped in order.
        """
        assert self._process is not None
        try:
            exit_code = self._process.wait(max(deadline_s, 0))
        except subprocess.TimeoutExpired:
            self.kill()
            raise NodeFailed(self.described(f"did not stop within {deadline_s:.0f} s and was killed")) from None
        if exit_code not in (0, -signal.SIGTERM):
            raise NodeFailed(self.described(f"ended with exit code {exit_code} instead of stopping in order"))

    def pause(self) -> None:
        """Pause the node with SIGSTOP: its connections stay open, but it does not answer."""
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._running().send_signal(signal.SIGCONT)

    def resident_bytes(self) -> int:
        """Return the resident memory of the running node."""
        return int(psutil.Process(self.pid).memory_info().rss)

    def log_tail(self) -> str:
        """Return the last lines of the node's log."""
        try:
            with self.log_path.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL_BYTES_MAX))
                text = log.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-_TAIL_LINES_MAX:])

    def check_running(self) -> None:
        """Raise NodeFailed if the node has ended, or was never started."""
        if not self.is_running:
            ended = f"ended with exit code {self.exit_code}" if self._process is not None else "was never started"
            raise NodeFailed(self.described(ended))

    def described(self, what: str) -> str:
        """Return the text of an error: what happened, and the end of the node's log."""
        return f"node {self.node_id} {what}; the end of {self.log_path}:\n{self.log_tail()}"

    def _running(self) -> Process:
        self.check_running()
        assert self._process is not None
        return self._process

    def _cut_lifeline(self) -> None:
        if self._finalizer is not None:
            self._finalizer()


def stop_all(nodes: Iterable[NodeProcess], deadline_s: float = STOP_DEADLINE_S) -> None:
    """Stop the running nodes at the same time. When all have ended, raises NodeFailed for the first that failed."""
    deadline = time.monotonic() + deadline_s
    running = [node for node in nodes if node.is_running]
    for node in running:
        node.request_stop()
    failures = []
    for node in running:
        try:
            node.wait_stopped(deadline - time.monotonic())
        except NodeFailed as failure:
            failures.append(failure)
    if failures:
        raise failures[0]


def _end(process: Process, writing_end: int, launcher: int) -> None:
    # A process that was forked from the launcher, and ends first, ends no nodes.
    if os.getpid() == launcher and process.poll() is None:
        process.kill()
        process.wait(_KILL_DEADLINE_S)
    os.close(writing_end)
