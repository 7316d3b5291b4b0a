"""Starts a node in the background, in its own session, and waits until it is in service or fails.

A node of several processes (`node.processes`) is in service when each of them is.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psutil
from msgspec import Struct

from kraft.local import local_nodes
from kraft.local.launching import KRAFT, environment
from kraft.local.local_nodes import TOLD_AFTER_S
from kraft.metadata.metadata_requests import metadata_of
from kraft.model.brokers import DescribeBrokersRequest
from kraft.model.errors import Corruption, Refusal
from kraft.model.ids import BrokerId
from kraft.quorum.reminders import to_start
from kraft.runtime.disk import RealDisk, make_directories, open_privately
from kraft.server.config.loading import ConfigError
from kraft.server.config.node_config import NodeConfig
from kraft.server.config.processes import processes
from kraft.server.config.values import CONTROLLER, GRPC, Listener
from kraft.server.identity import storage
from kraft.server.process.lifeline import ENVIRONMENT_VARIABLE

if TYPE_CHECKING:
    from kraft.quorum.membership import Membership

_POLL_S: Final = 0.05
_ANSWER_DEADLINE_S: Final = 1.0
_WITHOUT_MAJORITY_S: Final = 3.0
"""Time without a majority of controllers after which the node is left waiting for them."""

_UNLIKE_LOGS_S: Final = 10.0
"""Time after which a node that said why it forms no quorum is not waited for: an operator has to act."""

_WAITING: Final = "registration waiting for controller"
"""Warning of a broker that waits for an active controller, with the reason."""

_NO_QUORUM: Final = "quorum not formed: "
"""Beginning of the warning of a node that forms no quorum, before the reason."""


class NotStarted(ConfigError):
    """The node ended, or is not in service in time; one line."""


class Started(Struct, frozen=True, kw_only=True):
    """Result of a start. `waits_for` is what the node still needs of others; None if it is in service."""

    pid: int
    log_file: Path
    waits_for: str | None
    failed_directories: tuple[str, ...] = ()
    """Why log directories cannot be used, that the node runs without."""


def default_log_file(config: NodeConfig) -> Path:
    """Return the default log file, beside the first log directory."""
    return config.log_dir.with_name(f"{config.log_dir.name}.log")


def start(
    config: NodeConfig,
    log_file: Path,
    deadline_s: float,
    command: Sequence[str] = KRAFT,
    *,
    say: Callable[[str], object] = lambda _: None,
) -> Started:
    """Start the node; return when it is in service, or when too few other controllers run for that.

    Raises NotStarted with the node's own error if it ended, and if it is not in service at the deadline; it then keeps
    running. If this call is interrupted, the node is stopped. Raises InUse, and writes nothing, if the node runs. While
    it takes long, `say` gets lines for people about what is waited for.
    """
    _check_not_running(config)
    try:
        make_directories(log_file.parent)
        with open(log_file, "ab", opener=open_privately) as log:
            begin = log.tell() if log_file.is_file() else 0
            process = subprocess.Popen(
                [*command, "server", "start", "-c", str(config.file.absolute())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={key: value for key, value in environment().items() if key != ENVIRONMENT_VARIABLE},
                start_new_session=True,
            )
    except OSError as error:
        raise NotStarted(f"{log_file}: cannot be written to: {error.strerror}: choose another --log-file") from None
    warning, problem = partial(_last_warning, log_file, begin), partial(_registration_problem, log_file, begin)
    started_s = time.monotonic()
    try:
        waits_for = asyncio.run(_Start(config, process, started_s + deadline_s, warning, problem).wait(say))
    except _Ended:
        raise NotStarted(_last_error(log_file, begin, process)) from None
    except _TooLate as late:
        raise NotStarted(
            f"node {config.node_id} (pid {process.pid}) runs, but is not in service after"
            f" {time.monotonic() - started_s:.0f} s: {late}: {warning() or f'see the last lines of {log_file}'}"
        ) from None
    except BaseException:
        process.terminate()
        raise
    failed = tuple(_failed_directories(log_file, begin))
    return Started(pid=process.pid, log_file=log_file, waits_for=waits_for, failed_directories=failed)


def _check_not_running(config: NodeConfig) -> None:
    # The log file belongs to the running node: the error of one that cannot start must not appear among its events.
    directories = {directory.resolve(): directory for directory in config.log_dirs}
    for node in local_nodes.find():
        for locked in node.log_dirs:
            if locked in directories:
                if node.node_id == config.node_id:
                    raise storage.InUse(f"node {node.node_id} is already running (pid {node.pid})")
                raise storage.in_use(directories[locked], node.pid)


class _Ended(Exception):
    """The process ended."""


class _TooLate(Exception):
    """The node is not in service at the deadline; the text says what is missing."""


class _Start:
    def __init__(
        self,
        config: NodeConfig,
        process: subprocess.Popen[bytes],
        deadline: float,
        last_warning: Callable[[], str | None],
        registration_problem: Callable[[], str | None],
    ) -> None:
        self._config = config
        self._processes = processes(config)
        self._process = process
        self._deadline = deadline
        self._last_warning = last_warning
        self._registration_problem = registration_problem
        self._unlike_logs_deadline = time.monotonic() + _UNLIKE_LOGS_S
        self._without_majority_since: float | None = None
        self._found: Membership | None = None
        # Imported while the node is starting, because importing gRPC takes long.
        from kraft.local.node_dialling import dial_as_node
        from kraft.rpc.peers import PeerConnections

        self._connections = PeerConnections(dial_as_node(config))

    async def wait(self, say: Callable[[str], object]) -> str | None:
        """Wait until the node is in service, and return None, or what it needs of others."""
        told, tell_at = "", time.monotonic() + TOLD_AFTER_S
        try:
            while (missing := await self._missing()) is not None:
                if missing != told and time.monotonic() >= tell_at:
                    told, tell_at = missing, time.monotonic() + TOLD_AFTER_S
                    say(f"Waiting for node {self._config.node_id}: {missing}")
                if self._process.poll() is not None:
                    raise _Ended
                if (others := self._too_few_others()) is not None:
                    return others
                if time.monotonic() > self._deadline or self._forms_no_quorum():
                    raise _TooLate(missing)
                await asyncio.sleep(_POLL_S)
            if self._process.poll() is not None:
                raise _Ended
            return None
        finally:
            await self._connections.close()

    async def _missing(self) -> str | None:
        """Return what is missing before the node is in service; None if nothing is."""
        # An open port alone proves nothing: another process may use it.
        open_ports = _ports_of(self._process.pid)
        for config in self._processes:
            for listener in config.listeners:
                if listener.port not in open_ports:
                    # The listeners for clients open after the node knows the cluster.
                    is_controllers = listener.name == CONTROLLER
                    missing = None if is_controllers else self._missing_of_voter()
                    return missing or f"it does not listen on {listener} yet{self._why_not_registered()}"
        for config in self._processes:
            grpc = config.listener(GRPC)
            missing = None if grpc is None else await self._missing_of_broker(config.node_id, _local_address(grpc))
            if missing is not None:
                return missing
        return self._missing_of_voter()

    def _why_not_registered(self) -> str:
        problem = self._registration_problem()
        return f", because it is not registered: {problem}" if problem else ""

    def _missing_of_voter(self) -> str | None:
        """Return what is missing before the controller, if the node is one, counts in the quorum."""
        membership = self._membership()
        if membership is None or membership.admitted_after is not None:
            return None
        if membership.is_new:
            return "the quorum is not formed yet, and one of its controllers may log the reason"
        return "its controller has lost its metadata log, and no leader has admitted it again yet"

    def _membership(self) -> Membership | None:
        """Return what the node's journal says; None for a node that is no controller, or has no journal yet."""
        from kraft.quorum.journal import stored_membership
        from kraft.server.controller.voter_config import journal_directory

        if not self._config.is_controller:
            return None
        if self._found is None or self._found.admitted_after is None:
            # A journal that is being created, or is corrupt, is the node's own affair.
            with suppress(OSError, Corruption):
                self._found = stored_membership(journal_directory(self._config), RealDisk())
        return self._found

    async def _missing_of_broker(self, node_id: int, address: str) -> str | None:
        from kraft.rpc.calls import DESCRIBE_BROKERS, METADATA
        from kraft.rpc.peers import Unreachable

        peer = self._connections.peer(address)
        try:
            answer = await peer.call(METADATA, metadata_of(()), _ANSWER_DEADLINE_S)
            if any(broker.node_id == node_id for broker in answer.brokers):
                return None if answer.controller_id >= 0 else "it does not know the active controller"
            request = DescribeBrokersRequest(broker_ids=[BrokerId(node_id)])
            described = await peer.call(DESCRIBE_BROKERS, request, _ANSWER_DEADLINE_S)
        except (Unreachable, Refusal) as error:
            return str(error)
        if any(broker.fenced_by_operator for broker in described.brokers):
            # It is as ready as an operator fence allows.
            return None
        return "the controller has not unfenced it yet"

    def _forms_no_quorum(self) -> bool:
        """Return whether the node has said why no quorum is formed, and had time to be wrong."""
        membership = self._membership()
        if membership is None or not membership.is_new or time.monotonic() < self._unlike_logs_deadline:
            return False
        self._unlike_logs_deadline = time.monotonic() + _ANSWER_DEADLINE_S
        return self._said_why_no_quorum()

    def _said_why_no_quorum(self) -> bool:
        return (self._last_warning() or "").startswith(_NO_QUORUM)

    def _too_few_others(self) -> str | None:
        voters = self._config.quorum.voters
        membership = self._membership()
        is_first_start = membership is not None and membership.is_new
        is_learner = membership is not None and membership.is_learner
        needed = len(voters) if is_first_start else len(voters) // 2 + 1
        others = [voter for voter in voters if voter.node_id != self._config.node_id]
        running = 0 if is_learner else len(voters) - len(others)
        away = [voter.node_id for voter in others if not _accepts(voter.host, voter.port)] if running < needed else []
        running += len(others) - len(away)
        now = time.monotonic()
        if running >= needed or not self._needs_others():
            self._without_majority_since = None
            return None
        self._without_majority_since = self._without_majority_since or now
        if now - self._without_majority_since < _WITHOUT_MAJORITY_S:
            return None
        if is_first_start and self._said_why_no_quorum():
            return None
        which = f"{needed} of {len(voters)} controllers"
        if is_first_start:
            which = f"all {needed} controllers at the first start"
        elif is_learner:
            which = f"{needed} other controllers, because its own lost its metadata log and does not count"
        are_running = f"{running} {'is' if running == 1 else 'are'} running"
        return f"{which}, and only {are_running}: {to_start(needed - running, away)}"

    def _needs_others(self) -> bool:
        """Return whether the node has checked its files, after which it needs the other controllers."""
        own = self._config.listener(CONTROLLER)
        if own is not None:
            return own.port in _ports_of(self._process.pid)
        return bool(local_nodes.find(lambda: _family(self._process.pid)))


def _family(pid: int) -> list[psutil.Process]:
    """Return the process and those that it has started, as a supervisor does; empty if it has ended."""
    try:
        process = psutil.Process(pid)
        return [process, *process.children()]
    except psutil.Error:
        return []


def _ports_of(pid: int) -> set[int]:
    return {port for process in _family(pid) for port in _ports_of_one(process)}


def _ports_of_one(process: psutil.Process) -> set[int]:
    try:
        connections = process.net_connections("tcp")
    except psutil.Error:
        return set()
    return {each.laddr.port for each in connections if each.status == psutil.CONN_LISTEN}


def _accepts(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=_ANSWER_DEADLINE_S):
            return True
    except OSError:
        return False


def _local_address(listener: Listener) -> str:
    return f"localhost:{listener.port}" if listener.is_wildcard else listener.address


def _last_warning(log_file: Path, begin: int) -> str | None:
    """Return the node's last warning or error since the start, with its facts, in one line; None if there is none.

    That a broker waits for a controller comes last: any other one may be the reason why it has to.
    """
    found = [each for each in _events(log_file, begin) if each.get("level") in ("warning", "error")]
    if not found:
        return None
    last = next((each for each in reversed(found) if each.get("event") != _WAITING), found[-1])
    shown = ("timestamp", "level", "event", "remedy")
    facts = ", ".join(f"{name}={value}" for name, value in last.items() if name not in shown)
    remedy = f": {last['remedy']}" if "remedy" in last else ""
    return f"{last.get('event')} ({facts}){remedy}"


def _registration_problem(log_file: Path, begin: int) -> str | None:
    """Return what the node last said of its registration since the start, if that was why it waits."""
    for event in reversed(list(_events(log_file, begin))):
        if event.get("event") == "broker registered":
            return None
        if event.get("event") == _WAITING:
            return str(event.get("reason"))
    return None


def _failed_directories(log_file: Path, begin: int) -> Iterator[str]:
    """Yield why log directories cannot be used, as the node has logged it since the start."""
    for event in _events(log_file, begin):
        if event.get("event") in ("log directory unusable", "log directory failed"):
            directory, reason = str(event.get("directory", "")), str(event.get("reason"))
            yield reason if directory in reason else f"{directory}: {reason}"


def _events(log_file: Path, begin: int) -> Iterator[dict[str, Any]]:
    """Yield the node's log events since the start."""
    for line in _lines(log_file, begin):
        try:
            event = json.loads(line)
        except ValueError:
            # A line of a library, or one that is being written.
            continue
        if isinstance(event, dict):
            yield event


def _lines(log_file: Path, begin: int) -> list[str]:
    if not log_file.is_file():
        return []
    with log_file.open("rb") as log:
        log.seek(begin)
        # Not splitlines(), which also splits at what JSON leaves as it is in a string.
        return log.read().decode("utf-8", "replace").removesuffix("\n").split("\n")


def _last_error(log_file: Path, begin: int, process: subprocess.Popen[bytes]) -> str:
    """Return the error that the node would print in the foreground: its last line that is not a log event."""
    for line in reversed(_lines(log_file, begin)):
        if line.startswith("kraft: "):
            return line.removeprefix("kraft: ")
    return (
        f"the node ended with exit code {process.returncode} before it was in service: see {log_file}, or start it"
        " without --daemon"
    )
