"""One node of a cluster: a process with the roles of its configuration file, from its start to its stop.

A requested stop closes everything in order and leaves the clean shutdown markers. Anything else that ends the node (a
failed disk, a broker id that another process took, our own bug) ends the process at once, with one line: what was
acknowledged is on disk, and the next start recovers it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

import structlog

from kraft.metadata.features import UnsupportedFeatureLevel
from kraft.metadata.replayed_image import ContradictoryEntry
from kraft.model.errors import Corruption
from kraft.quorum.peer_link import SERVER_OPTIONS as QUORUM_SERVER_OPTIONS
from kraft.rpc.identity import PROCESS_ID_BYTES
from kraft.rpc.refusal_log import RefusalLog
from kraft.runtime.allocator import keep_freed_memory
from kraft.runtime.clock import SystemClock
from kraft.runtime.cycle_collector import bound_collections
from kraft.runtime.disk import RealDisk
from kraft.runtime.entropy import SystemEntropy
from kraft.runtime.spare_files import SpareFiles
from kraft.server.broker.broker_node import BrokerNode
from kraft.server.broker.lifecycle import BrokerRefused
from kraft.server.config.loading import ConfigError
from kraft.server.config.node_config import NodeConfig
from kraft.server.config.values import CONTROLLER
from kraft.server.controller.controller_node import ControllerNode, MetadataUnusable
from kraft.server.identity import storage
from kraft.server.identity.credentials import NodeCredentials
from kraft.server.identity.storage import NodeStorage
from kraft.server.identity.world import NodeWorld
from kraft.server.loop.background import cancelled
from kraft.server.loop.crowds import new_event_loop
from kraft.server.loop.watch import LoopFacts, watch_loop
from kraft.server.process.file_limit import raise_file_limit
from kraft.server.process.listeners import Listeners
from kraft.server.process.node_http import NodeHttp, Parts
from kraft.server.process.ports import check_listeners
from kraft.server.process.pulse import Pulse
from kraft.server.process.service_manager import ServiceManager

log = structlog.get_logger()

HANG_UP_GRACE_S: Final = 0.2


class StartError(Exception):
    """The node cannot start or continue; one line, with the remedy."""


_EXPECTED: Final = (
    BrokerRefused,
    ConfigError,
    StartError,
    ContradictoryEntry,
    Corruption,
    UnsupportedFeatureLevel,
    OSError,
)
"""Errors that may end a role; their own text is reported."""


def run(config: NodeConfig) -> int:
    """Run the node until SIGTERM or SIGINT, and return the exit code of the process. Raises StartError."""
    keep_freed_memory()
    try:
        with storage.lock(config) as held:
            found = storage.load(config, held.unusable)
            check_listeners(config)
            if config.is_broker:
                BrokerNode.check(config)
            credentials = NodeCredentials(config, found.cluster_id, RefusalLog(SystemClock().monotonic_ms))
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                return runner.run(_Node(config, found, credentials).run())
    except (ConfigError, MetadataUnusable, OSError) as error:
        raise StartError(str(error)) from error


class _Node:
    def __init__(self, config: NodeConfig, found: NodeStorage, credentials: NodeCredentials) -> None:
        self._config = config
        self._storage = found
        entropy = SystemEntropy()
        self._world = NodeWorld(
            clock=SystemClock(), entropy=entropy, disk=RealDisk(SpareFiles()), credentials=credentials, fatal=self._fail
        )
        process_id = entropy.bytes(PROCESS_ID_BYTES)
        self._listeners = Listeners(config, found.cluster_id, credentials, process_id, raise_file_limit())
        self._stop_requested: asyncio.Future[None]
        self._failed: asyncio.Future[str]
        self._controller: ControllerNode | None = None
        self._broker: BrokerNode | None = None
        self._loop_facts = LoopFacts()
        self._roles: list[asyncio.Task[None]] = []
        self._beating: asyncio.Task[None]
        self._pulse = Pulse(self._why_not_ready, ServiceManager(os.environ))
        self._http = NodeHttp(config, self._parts, self._pulse, self._loop_facts, credentials.refusals.counts)

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        self._failed, self._stop_requested = loop.create_future(), loop.create_future()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._request_stop)
        # Not among the roles, which end before the logs are closed: that may take long, too.
        self._beating = self._running("pulse", self._pulse.run())
        try:
            return await self._run()
        finally:
            await cancelled([self._beating])

    async def _run(self) -> int:
        try:
            await self._start()
        except Exception:
            # A gRPC server that is not stopped would outlive the event loop, and end with a traceback.
            await self._hang_up()
            raise
        self._run_role("loop watch", watch_loop(self._loop_facts))
        self._run_role("connection watch", self._listeners.watch(self._world.clock.wall_ms))
        bound_collections()
        ends: list[asyncio.Future[Any]] = [self._stop_requested, self._failed]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if self._failed.done():
            await self._hang_up()
            raise StartError(self._failed.result())
        await self._stop()
        return 0

    # --- start -----------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        config = self._config
        log.info(
            "node process started",
            node=config.node_id,
            cluster=self._storage.cluster_id,
            roles=sorted(role.value for role in config.roles),
            pid=os.getpid(),
            **self._last_stop(),
        )
        # First, so that the start itself is answered for.
        await self._http.start()
        if config.is_controller:
            await self._start_controller()
        # A start that was refused until here leaves the markers: it has not touched a log.
        self._storage = await asyncio.to_thread(storage.take_clean_shutdown_markers, config, self._storage)
        for reason in self._storage.unusable.values():
            log.error("log directory unusable", reason=reason, remedy="repair it, then restart the node")
        if config.is_broker:
            self._start_broker()

    def _last_stop(self) -> dict[str, bool]:
        """Return how the node ended before, for the log; nothing for a first start."""
        directories = self._storage.directories
        if not any(directory.has_been_used for directory in directories):
            return {"first_start": True}
        return {"clean_shutdown": all(directory.closed_cleanly for directory in directories)}

    async def _start_controller(self) -> None:
        controller = self._controller = ControllerNode(self._config, self._storage, self._world)
        services = controller.grpc_services()
        await controller.start(lambda: self._listeners.listen(CONTROLLER, services, QUORUM_SERVER_OPTIONS))
        self._run_role("controller", controller.run())
        self._run_role("metadata snapshots", controller.write_snapshots())

    def _start_broker(self) -> None:
        own_controller = () if self._controller is None else self._controller.calls
        broker = self._broker = BrokerNode(self._config, self._storage, self._world, own_controller=own_controller)
        services = broker.apis.grpc_services()

        async def listen() -> None:
            await self._listeners.listen_to_clients(services, broker.apis)
            bound_collections()

        self._run_role("broker", broker.run(listen))

    def _why_not_ready(self) -> str | None:
        if self._controller is None and self._broker is None:
            return "it is starting"
        of_controller = None if self._controller is None else self._controller.why_not_ready()
        if of_controller is not None or not self._config.is_broker:
            return of_controller
        return "its controller is starting" if self._broker is None else self._broker.why_not_ready()

    def _parts(self) -> Parts:
        return self._broker, self._controller, self._listeners.kafka

    def _run_role(self, role: str, running: Coroutine[Any, Any, None]) -> None:
        self._roles.append(self._running(role, running))

    def _running(self, role: str, running: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(running, name=role)
        task.add_done_callback(self._role_ended)
        return task

    # --- end -------------------------------------------------------------------------------------------------

    def _request_stop(self) -> None:
        if not self._stop_requested.done():
            self._stop_requested.set_result(None)

    def _role_ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._fail(_in_one_line(error, task.get_name()))

    def _fail(self, reason: str) -> None:
        """End the node without another response: what is not acknowledged by now never will be."""
        if not self._failed.done():
            log.error("node failed", node=self._config.node_id, reason=reason)
            self._failed.set_result(reason)

    async def _stop(self) -> None:
        log.info("node stop requested", node=self._config.node_id)
        self._pulse.stopping()
        if self._broker is not None:
            await self._move_leaderships_away(self._broker)
        if self._controller is not None:
            await self._controller.finish_shutdowns()
        await self._listeners.stop()
        # `_role_ended` gets the errors of the roles.
        await cancelled(self._roles)
        if self._broker is not None:
            await self._close(self._broker)
        if self._controller is not None:
            await self._controller.close()
        if self._failed.done():
            # Without the clean shutdown markers, the next start checks everything on the disk.
            raise StartError(self._failed.result())
        await asyncio.to_thread(storage.leave_clean_shutdown_markers, self._closed_cleanly())
        # Last: a stop may take long, and is watched, too.
        await self._http.stop()
        log.info("node stopped", node=self._config.node_id)

    async def _move_leaderships_away(self, broker: BrokerNode) -> None:
        try:
            await broker.move_leaderships_away()
        except BrokerRefused as refused:
            log.warning("controlled shutdown skipped", reason=str(refused))

    async def _close(self, broker: BrokerNode) -> None:
        try:
            await broker.close()
        except OSError as error:
            self._fail(str(error))

    def _closed_cleanly(self) -> list[Path]:
        if self._broker is not None:
            return [Path(directory) for directory in self._broker.log_directories_closed]
        return [directory.path for directory in self._storage.directories]

    async def _hang_up(self) -> None:
        """Cut off every call. gRPC prints tracebacks about listeners and calls that outlive the event loop."""
        self._http.close()
        stopping = [asyncio.ensure_future(listener) for listener in self._listeners.cut_off()]
        for task in (*self._roles, self._beating):
            task.cancel()
        # The calls unwind at once; what does not end in time is abandoned.
        unwinding = {*asyncio.all_tasks(), *stopping} - {asyncio.current_task()}
        if unwinding:
            await asyncio.wait(unwinding, timeout=HANG_UP_GRACE_S)


def _in_one_line(error: BaseException, role: str) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, _EXPECTED):
        return str(error)
    # Our own bug: a report needs its place.
    log.error("internal error", role=role, exc_info=error)
    return f"internal error in the {role}: {error!r}: report it with this log"
