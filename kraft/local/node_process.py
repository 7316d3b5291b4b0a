"""A node as a child process of this one: started, signalled, watched, and never left behind.

A node runs in a session of its own, so that Ctrl-C reaches the launcher alone, which then stops its nodes in order.
It ends with the launcher (see `lifeline`); only a node that is paused when the launcher is killed stays, paused.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
import time
import weakref
from collections.abc import Iterable, Sequence
from pathlib import Path

import psutil

import kraft
from kraft.local.cluster_files import NodePlan, config_file, log_file
from kraft.server.process import lifeline

KRAFT = (sys.executable, "-m", "kraft")
STOP_DEADLINE_S = 30.0
_KILL_DEADLINE_S = 10.0
_TAIL_BYTES_MAX = 16 * 1024
_TAIL_LINES_MAX = 25


class NodeFailed(Exception):
    """A node that ended by itself or did not do in time what was asked; its last log lines are in the text."""


class NodeProcess:
    """One node of a cluster whose files `cluster_files.write` has made; started and stopped any number of times.

    Whatever fails raises NodeFailed. Calls block, each with a deadline; not for several threads at once.
    """

    def __init__(self, directory: Path, plan: NodePlan, command: Sequence[str] = KRAFT) -> None:
        self.node_id = plan.node_id
        self.address = plan.grpc_address
        """`host:port` of its GRPC listener; None for a controller only."""
        self.is_controller = plan.is_voter
        self.config_path = config_file(directory, plan.node_id)
        self.log_path = log_file(directory, plan.node_id)
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._finalizer: weakref.finalize[[subprocess.Popen[bytes], int], NodeProcess] | None = None

    @property
    def pid(self) -> int:
        """Of the running node. Raises NodeFailed when it does not run."""
        return self._running().pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """Of the last run; negative for a signal; None while it runs and before the first start."""
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        """Start and return at once; the node's output goes to the end of its log file."""
        assert not self.is_running, f"node {self.node_id} runs already"
        self._cut_lifeline()
        reading_end, writing_end = os.pipe()
        try:
            with self.log_path.open("ab") as log:
                self._process = subprocess.Popen(
                    [*self._command, "server", "start", "-c", str(self.config_path)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=environment() | {lifeline.ENVIRONMENT_VARIABLE: str(reading_end)},
                    pass_fds=(reading_end,),
                    start_new_session=True,
                )
        except BaseException:
            os.close(writing_end)
            raise
        finally:
            os.close(reading_end)
        # Runs when this object is forgotten, and at the interpreter's exit at the latest.
        self._finalizer = weakref.finalize(self, _end, self._process, writing_end)

    def kill(self) -> None:
        """kill -9: no warning, as when the power fails, except that the page cache stays."""
        process = self._running()
        process.kill()
        process.wait(_KILL_DEADLINE_S)

    def terminate(self, deadline_s: float = STOP_DEADLINE_S) -> None:
        """A graceful stop. Raises NodeFailed, the node being dead, when it took too long or ended with an error."""
        self.request_stop()
        self.wait_stopped(deadline_s)

    def request_stop(self) -> None:
        """SIGTERM, for several nodes at once; `wait_stopped` follows."""
        process = self._running()
        process.terminate()
        self.resume()

    def wait_stopped(self, deadline_s: float) -> None:
        """See `terminate`. A node that SIGTERM itself ended, so early in its start that it could not handle it yet, has
        opened nothing and has stopped in order."""
        assert self._process is not None
        try:
            exit_code = self._process.wait(max(deadline_s, 0))
        except subprocess.TimeoutExpired:
            self.kill()
            raise NodeFailed(self.described(f"did not stop within {deadline_s:.0f} s and was killed")) from None
        if exit_code not in (0, -signal.SIGTERM):
            raise NodeFailed(self.described(f"ended with exit code {exit_code} instead of stopping in order"))

    def pause(self) -> None:
        """SIGSTOP: alive for the kernel, silent for everybody else."""
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._running().send_signal(signal.SIGCONT)

    def resident_bytes(self) -> int:
        """Memory that the running node holds at this moment."""
        return int(psutil.Process(self.pid).memory_info().rss)

    def log_tail(self) -> str:
        """The last lines that the node wrote."""
        try:
            with self.log_path.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL_BYTES_MAX))
                text = log.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-_TAIL_LINES_MAX:])

    def check_running(self) -> None:
        """Raises NodeFailed when the node has ended, or was never started."""
        if not self.is_running:
            ended = f"ended with exit code {self.exit_code}" if self._process is not None else "was never started"
            raise NodeFailed(self.described(ended))

    def described(self, what: str) -> str:
        """For an error: what the node did, and the end of its log."""
        return f"node {self.node_id} {what}; the end of {self.log_path}:\n{self.log_tail()}"

    def _running(self) -> subprocess.Popen[bytes]:
        self.check_running()
        assert self._process is not None
        return self._process

    def _cut_lifeline(self) -> None:
        if self._finalizer is not None:
            self._finalizer()


def stop_all(nodes: Iterable[NodeProcess], deadline_s: float = STOP_DEADLINE_S) -> None:
    """Stop those that run, all at once. Raises NodeFailed for the first that did not go in order, when all are gone."""
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


def environment() -> dict[str, str]:
    """Ours, in which a node finds this very package, even where only our own path leads to it."""
    root = str(Path(kraft.__file__).parents[1])
    if root == sysconfig.get_path("purelib"):
        return dict(os.environ)
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))}


def _end(process: subprocess.Popen[bytes], writing_end: int) -> None:
    if process.poll() is None:
        process.kill()
        process.wait(_KILL_DEADLINE_S)
    os.close(writing_end)
