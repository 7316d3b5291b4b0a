"""The supervisor of the processes of one configuration file: starts them, restarts those that end, stops all in order.

It is small on purpose: it imports neither gRPC nor a broker, holds no data, and its processes end with it (see
`lifeline`), so that nothing is left to find when it is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from kraft.local.launching import KRAFT, PROCESS_OPTION, Process, launch
from kraft.local.notifications import Notifications
from kraft.local.restart_pause import STEADY_S, RestartPause
from kraft.local.wakeups import Wakeups
from kraft.server.config.node_authentication import spans_machines
from kraft.server.config.node_config import NodeConfig
from kraft.server.config.processes import processes
from kraft.server.identity import machine_secret, process_storage, storage
from kraft.server.identity.storage import SUPERVISOR_LOCK_FILE
from kraft.server.process import lifeline
from kraft.server.process.ports import check_listeners

log = structlog.get_logger()

STOP_DEADLINE_S: Final = 25.0
"""Time for the brokers to stop, and again for the process with the controller; then they are killed."""

_KILL_DEADLINE_S: Final = 10.0
_STANDARD_ERROR: Final = 2


def run(config: NodeConfig, command: Sequence[str] = KRAFT, stop_deadline_s: float = STOP_DEADLINE_S) -> int:
    """Run the processes of this file until SIGTERM or SIGINT, and return the exit code: 0 if all stopped in order.

    Raises ConfigError if one of them could not start; none is started then.
    """
    with storage.lock(config, SUPERVISOR_LOCK_FILE):
        check(config)
        with Wakeups() as wakeups:
            return _Supervisor(config, wakeups, command, stop_deadline_s).run()


def check(config: NodeConfig) -> None:
    """Raise ConfigError for the first process that could not start: what a node checks, before any is started."""
    process_storage.format_at_first_start(config)
    for each in processes(config):
        with storage.lock(each) as held:
            found = storage.load(each, held.unusable)
        check_listeners(each)
        if config.security.secret_file is None and not spans_machines(config):
            # One of the processes would create it, and find no place when it is too late for one clear error.
            machine_secret.find_or_create(found.cluster_id)


class _Supervisor:
    def __init__(self, config: NodeConfig, wakeups: Wakeups, command: Sequence[str], stop_deadline_s: float) -> None:
        self._wakeups = wakeups
        self._stop_deadline_s = stop_deadline_s
        # Never closed: the processes end with this one.
        reading_end, _ = os.pipe()
        self._notifications = Notifications((each.node_id for each in processes(config)), os.environ)
        starting = [*command, "server", "start", "-c", str(config.file), PROCESS_OPTION]
        self._children = [
            _Child(each, [*starting, str(number)], reading_end, self._notifications.started)
            for number, each in enumerate(processes(config))
        ]

    def run(self) -> int:
        """Start the processes, and keep them running until a stop is requested. Return the exit code."""
        for child in self._children:
            child.start()
        while not self._wakeups.stop_requested:
            for child in self._children:
                child.look_after()
            if any(child.cannot_start for child in self._children):
                # It has printed its error, in one line.
                self._stop()
                return 1
            self._notifications.pass_on({child.pid: child.node_id for child in self._children})
            self._wakeups.wait(self._next_start_s(), self._notifications.files)
        log.info("supervisor stop requested", processes=len(self._children))
        return self._stop()

    def _next_start_s(self) -> float | None:
        due = [child.due_s for child in self._children if child.due_s is not None]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _stop(self) -> int:
        """Stop the brokers, which still need the controller, then the process with the controller."""
        self._notifications.stopping()
        first, *further = self._children
        in_order = [_stop_all(further, self._stop_deadline_s), _stop_all([first], self._stop_deadline_s)]
        return 0 if all(in_order) else 1


class _Child:
    """One process of the file, over all its lives."""

    def __init__(
        self, config: NodeConfig, command: Sequence[str], lifeline_end: int, starts: Callable[[int], None]
    ) -> None:
        """`starts` is called with the node id before each start."""
        self._starts = starts
        self._config = config
        self._command = command
        self._lifeline_end = lifeline_end
        self._pause = RestartPause()
        self._process: Process | None = None
        self._started_s = 0.0
        self._lives = 0
        self.due_s: float | None = None
        """Time of the next start; None while it runs."""
        self.cannot_start = False
        """True if it has ended with an error of its own soon after its first start."""

    @property
    def node_id(self) -> int:
        return self._config.node_id

    @property
    def pid(self) -> int:
        """Its process id; 0 if it could not be started."""
        return 0 if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the process, or try again after a pause if the machine is out of processes or memory."""
        self._started_s, self.due_s = time.monotonic(), None
        self._starts(self.node_id)
        try:
            with open(_STANDARD_ERROR, "wb", closefd=False) as output:
                self._process = launch(self._command, output, self._lifeline_end, lifeline.ENVIRONMENT_VARIABLE)
        except OSError as error:
            pause_s = self._pause.after(0)
            self._process, self.due_s = None, self._started_s + pause_s
            log.warning("node not started", node=self.node_id, reason=str(error), retry_in_s=pause_s)
            return
        self._lives += 1
        log.info(
            "node started",
            node=self.node_id,
            pid=self._process.pid,
            listeners=[str(listener) for listener in self._config.listeners],
            log_dirs=[str(directory) for directory in self._config.log_dirs],
            rack=self._config.rack,
        )

    def look_after(self) -> None:
        """Start the process again if it has ended and its pause is over."""
        if self.due_s is None:
            exit_code = None if self._process is None else self._process.poll()
            if exit_code is not None:
                self._ended(exit_code)
        elif time.monotonic() >= self.due_s:
            self.start()

    def _ended(self, exit_code: int) -> None:
        now = time.monotonic()
        lived_s = now - self._started_s
        if exit_code > 0 and self._lives == 1 and lived_s < STEADY_S:
            self.cannot_start = True
            return
        pause_s = self._pause.after(lived_s)
        self.due_s = now + pause_s
        log.warning("node ended", node=self.node_id, exit_code=exit_code, restart_in_s=pause_s)

    def request_stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def wait_stopped(self, deadline_s: float) -> bool:
        """Wait for its end; kill it at the deadline. Return whether it stopped in order, or did not run."""
        if self._process is None or self.due_s is not None:
            return True
        try:
            exit_code = self._process.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            log.warning("node killed", node=self.node_id, reason="it did not stop in time")
            self._process.kill()
            self._process.wait(_KILL_DEADLINE_S)
            return False
        # SIGTERM kills a process that has not opened anything yet.
        return exit_code in (0, -signal.SIGTERM)


def _stop_all(children: Sequence[_Child], within_s: float) -> bool:
    """Stop these processes at the same time. Return whether all stopped in order."""
    deadline_s = time.monotonic() + within_s
    for child in children:
        child.request_stop()
    in_order = [child.wait_stopped(deadline_s) for child in children]
    return all(in_order)
