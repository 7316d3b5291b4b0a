"""One node of a cluster: a process with the roles of its configuration file, from its start to its stop.

A stop that was asked for closes everything in order and leaves the mark of a clean stop. Anything else that ends the
node (a disk that fails, a broker id that another process took, our own bug) ends the process at once and in one line:
what was acknowledged is on disk, and the next start recovers it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import grpc.aio
import structlog

from kraft.metadata.features import SUPPORTED_FEATURES, UnsupportedFeatureLevel
from kraft.metadata.topic_decisions import ControllerDefaults
from kraft.model.errors import Corruption
from kraft.quorum.peer_link import SERVER_OPTIONS as QUORUM_SERVER_OPTIONS
from kraft.quorum.peer_security import PeerSecurity
from kraft.quorum.raft_quorum import RaftQuorum
from kraft.quorum.snapshots import SnapshotStore
from kraft.quorum.world import QuorumWorld
from kraft.rpc.call import Served
from kraft.rpc.identity import PROCESS_ID_BYTES, Identity, identity_service
from kraft.rpc.refusal_log import RefusalLog
from kraft.rpc.services import SERVER_OPTIONS, Service
from kraft.runtime.allocator import keep_freed_memory
from kraft.runtime.clock import SystemClock
from kraft.runtime.cycle_collector import exempt_what_lives_long
from kraft.runtime.disk import RealDisk
from kraft.runtime.entropy import SystemEntropy
from kraft.server.broker.broker_node import BrokerNode
from kraft.server.broker.lifecycle import BrokerRefused
from kraft.server.broker.world import BrokerWorld
from kraft.server.cluster.metadata_snapshots import SnapshotPolicy
from kraft.server.config.loading import ConfigError
from kraft.server.config.node_config import NodeConfig
from kraft.server.config.values import CONTROLLER, GRPC, Listener
from kraft.server.controller.controller_node import ControllerConfig, ControllerNode
from kraft.server.controller.state_machine_host import StateMachineHost
from kraft.server.controller.voter_config import voter_config
from kraft.server.controller.voter_features import VoterFeatures
from kraft.server.controller.voter_snapshots import VoterSnapshots
from kraft.server.handlers.describe_configs import DescribeConfigsHandler
from kraft.server.identity import storage
from kraft.server.identity.credentials import NodeCredentials
from kraft.server.identity.storage import NodeStorage
from kraft.server.kafka_listener.connection import ConnectionLimits
from kraft.server.kafka_listener.listener import KafkaListener, ListenerLimits
from kraft.server.kafka_listener.memory import ListenerMemory
from kraft.server.kafka_listener.requests import ELEMENT_BYTES, KafkaRequests
from kraft.server.loop.watch import watch_loop
from kraft.server.process.advertised_addresses import check_advertised, check_advertised_to_kafka
from kraft.server.process.file_limit import connections_max, raise_file_limit
from kraft.server.process.ports import check_listeners

log = structlog.get_logger()

LISTENER_GRACE_S: Final = 0.5
"""How long calls that are under way may take to end when a listener closes."""

HANG_UP_GRACE_S: Final = 0.2

METADATA_SNAPSHOTS: Final = "__cluster_metadata/controller"
"""In `metadata.log.dir`."""


class StartError(Exception):
    """Why the node does not start or go on: one line, with the remedy."""


_EXPECTED: Final = (BrokerRefused, ConfigError, StartError, Corruption, UnsupportedFeatureLevel, OSError)
"""What may end a role, told as it is."""


def run(config: NodeConfig) -> int:
    """Runs the node until SIGTERM or SIGINT. Returns the process' exit code. Raises StartError."""
    keep_freed_memory()
    try:
        with storage.lock(config) as held:
            found = storage.load(config, held.unusable)
            # Before the mark of the last clean stop is used up.
            check_listeners(config)
            credentials = NodeCredentials(config, found.cluster_id, RefusalLog(SystemClock().monotonic_ms))
            return asyncio.run(_Node(config, found, credentials).run())
    except (ConfigError, OSError) as error:
        raise StartError(str(error)) from error


class _Node:
    def __init__(self, config: NodeConfig, found: NodeStorage, credentials: NodeCredentials) -> None:
        self._config = config
        self._storage = found
        self._credentials = credentials
        self._clock, self._entropy = SystemClock(), SystemEntropy()
        self._process_id = self._entropy.bytes(PROCESS_ID_BYTES)
        self._stop_asked: asyncio.Future[None]
        self._failed: asyncio.Future[str]
        self._listeners: list[grpc.aio.Server] = []
        self._controller: ControllerNode | None = None
        self._controller_calls: list[Served] = []
        self._quorum: RaftQuorum | None = None
        self._snapshots: VoterSnapshots | None = None
        self._broker: BrokerNode | None = None
        self._kafka: KafkaListener | None = None
        self._files_max: int
        self._roles: list[asyncio.Task[None]] = []

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        self._failed, self._stop_asked = loop.create_future(), loop.create_future()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._ask_to_stop)
        await self._start()
        self._play("loop watch", watch_loop())
        exempt_what_lives_long()
        ends: list[asyncio.Future[Any]] = [self._stop_asked, self._failed]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if self._failed.done():
            await self._hang_up()
            raise StartError(self._failed.result())
        await self._stop()
        return 0

    # --- start -----------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        config = self._config
        self._files_max = raise_file_limit()
        self._storage = await asyncio.to_thread(storage.take_clean_shutdown_markers, config, self._storage)
        log.info(
            "node starts",
            node=config.node_id,
            cluster=self._storage.cluster_id,
            roles=sorted(config.roles),
            pid=os.getpid(),
            clean_shutdown=all(directory.closed_cleanly for directory in self._storage.directories),
        )
        for reason in self._storage.unusable.values():
            log.error("log directory cannot be used: starting without it", reason=reason)
        if config.is_controller:
            await self._start_controller()
        if config.is_broker:
            self._start_broker()

    async def _start_controller(self) -> None:
        config = self._config
        self._controller = ControllerNode(
            ControllerConfig(
                cluster_id=self._storage.cluster_id,
                node_id=config.node_id,
                broker_session_timeout_ms=config.broker.session_timeout_ms,
                defaults=ControllerDefaults(
                    partitions=config.topics.partitions,
                    replication_factor=config.topics.replication_factor,
                    configs=config.topics.configs,
                ),
                elections=config.elections,
                settings=config.settings,
            ),
            self._clock,
            self._entropy,
            features_of_others=VoterFeatures(
                config.quorum.voters, config.node_id, self._credentials.dial_controller
            ).of_those_that_are_no_brokers,
        )
        self._snapshots = self._voter_snapshots(self._controller.host)
        self._quorum = RaftQuorum(
            config=voter_config(self._config, self._storage.cluster_id),
            world=QuorumWorld(disk=RealDisk(), clock=self._clock, entropy=self._entropy),
            listener=self._controller.host,
            fatal=self._fail,
            security=PeerSecurity(
                dial=self._credentials.dial_controller,
                objection=self._credentials.objection_to_voter,
                handshake_failure=self._credentials.handshake_failure,
                refused=self._credentials.refusals.tell,
            ),
            snapshots=self._snapshots,
        )
        self._controller.attach(self._quorum)
        self._snapshots.attach(self._quorum)
        host = self._controller.host
        await self._load(self._snapshots)
        describe_configs = DescribeConfigsHandler(config, lambda: host.image)
        self._controller_calls = [*self._controller.served(), *describe_configs.served()]
        services = [self._quorum.service, Service(*self._controller_calls)]
        await self._listen(CONTROLLER, services, QUORUM_SERVER_OPTIONS)
        try:
            await self._quorum.start()
        except Corruption as corruption:
            raise StartError(
                f"the metadata log is damaged: {corruption}; restore it from another voter"
            ) from corruption
        self._play("controller", self._controller.run())
        self._play("metadata snapshots", self._snapshots.run())

    def _voter_snapshots(self, host: StateMachineHost) -> VoterSnapshots:
        quorum = self._config.quorum
        return VoterSnapshots(
            SnapshotStore(RealDisk(), str(self._config.metadata_log_dir / METADATA_SNAPSHOTS)),
            host,
            policy=SnapshotPolicy(
                entry_bytes_between=quorum.snapshot_entry_bytes_between, interval_ms=quorum.snapshot_interval_ms
            ),
            cluster_id=self._storage.cluster_id,
            monotonic_ms=self._clock.monotonic_ms,
            failed=self._fail,
        )

    async def _load(self, snapshots: VoterSnapshots) -> None:
        try:
            await snapshots.load()
        except Corruption as corruption:
            raise StartError(
                f"the metadata snapshots are damaged: {corruption}; restore them from another voter"
            ) from corruption
        except UnsupportedFeatureLevel as error:
            raise StartError(str(error)) from error

    def _start_broker(self) -> None:
        world = BrokerWorld(
            clock=self._clock,
            entropy=self._entropy,
            disk=RealDisk(),
            credentials=self._credentials,
            fatal=self._fail,
            own_controller=self._controller_calls,
        )
        self._broker = BrokerNode(self._config, self._storage, world)
        services = list(self._broker.handlers.grpc_services())
        options = [("grpc.max_receive_message_length", self._config.network.request_bytes_max)]
        self._play("broker", self._broker.run(lambda: self._listen_to_clients(services, options)))

    async def _listen_to_clients(self, services: list[Any], options: Sequence[tuple[str, int]]) -> None:
        """Until this returns the broker is not in service: nobody is sent to an address that leads elsewhere."""
        await self._listen(GRPC, services, options)
        await check_advertised(self._config, self._identity(GRPC), self._credentials.dial_broker)
        if self._config.kafka_listeners:
            await self._listen_to_kafka(self._config.kafka_listeners)
        exempt_what_lives_long()

    async def _listen_to_kafka(self, listeners: Sequence[Listener]) -> None:
        assert self._broker is not None, "clients are listened to by a broker"
        network = self._config.network
        limits = ListenerLimits(
            frame_bytes_max=network.request_bytes_max,
            connections_max=min(network.connections_max, connections_max(self._files_max)),
            connection=ConnectionLimits(idle_s_max=network.connection_idle_ms_max / 1_000),
        )
        memory = ListenerMemory(network.request_bytes_max)
        self._kafka = KafkaListener(limits, self._credentials.refusals, memory)
        for listener in listeners:
            answering = partial(
                KafkaRequests,
                self._broker.handlers.kafka_apis(listener.name),
                unread=memory.unread,
                elements_max=network.request_bytes_max // ELEMENT_BYTES,
            )
            await self._kafka.listen(listener.host, listener.port, answering)
            log.info("listening", listener=str(listener))
        for listener in listeners:
            await check_advertised_to_kafka(self._config, listener.name, self._storage.cluster_id)

    async def _listen(self, name: str, services: list[Any], options: Sequence[tuple[str, int]]) -> None:
        listener = self._config.listener(name)
        assert listener is not None, f"the configuration was checked to have a {name} listener"
        gatekeeper = self._credentials.gatekeeper(name)
        server = grpc.aio.server(options=[*SERVER_OPTIONS, *options], interceptors=[gatekeeper])
        for service in (gatekeeper, identity_service(self._identity(name)), *services):
            service.add_to(server)
        _bind(server, listener, self._credentials.server_credentials(name))
        await server.start()
        self._listeners.append(server)
        log.info("listening", listener=str(listener))

    def _identity(self, listener: str) -> Identity:
        return Identity(
            cluster_id=self._storage.cluster_id,
            node_id=self._config.node_id,
            process_id=self._process_id,
            features=list(SUPPORTED_FEATURES.values()),
            listener=listener,
        )

    def _play(self, role: str, playing: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(playing, name=role)
        task.add_done_callback(self._role_ended)
        self._roles.append(task)

    # --- end -------------------------------------------------------------------------------------------------

    def _ask_to_stop(self) -> None:
        if not self._stop_asked.done():
            self._stop_asked.set_result(None)

    def _role_ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._fail(_in_one_line(error, task.get_name()))

    def _fail(self, reason: str) -> None:
        """Ends the node without another word to anybody: what is not acknowledged by now never will be."""
        if not self._failed.done():
            self._failed.set_result(reason)

    async def _stop(self) -> None:
        log.info("node stops", node=self._config.node_id)
        if self._broker is not None:
            await self._hand_on_leaderships(self._broker)
        await asyncio.gather(*self._stopping(LISTENER_GRACE_S))
        for task in self._roles:
            task.cancel()
        # What a role ends with is heard in `_role_ended`.
        await asyncio.gather(*self._roles, return_exceptions=True)
        if self._broker is not None:
            await self._close(self._broker)
        if self._snapshots is not None:
            await self._snapshots.write()
            self._snapshots.close()
        if self._quorum is not None:
            await self._quorum.stop()
        if self._failed.done():
            # No mark of a clean stop: the next start checks everything that is on the disk.
            raise StartError(self._failed.result())
        await asyncio.to_thread(storage.leave_clean_shutdown_markers, self._closed_cleanly())
        log.info("node stopped", node=self._config.node_id)

    async def _hand_on_leaderships(self, broker: BrokerNode) -> None:
        try:
            await broker.hand_on_leaderships()
        except BrokerRefused as refused:
            log.warning("there is nothing to hand on", reason=str(refused))

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
        """Cuts every call off. gRPC prints tracebacks about listeners and calls that the event loop ends under."""
        stopping = [asyncio.ensure_future(listener) for listener in self._stopping(0)]
        for task in self._roles:
            task.cancel()
        # The calls unwind at once; what does not end by itself is not waited for any longer.
        unwinding = {*asyncio.all_tasks(), *stopping} - {asyncio.current_task()}
        if unwinding:
            await asyncio.wait(unwinding, timeout=HANG_UP_GRACE_S)

    def _stopping(self, grace_s: float) -> list[Coroutine[Any, Any, None]]:
        """Each listener's stop, to be awaited."""
        stops: list[Coroutine[Any, Any, None]] = [server.stop(grace_s or None) for server in self._listeners]
        return stops if self._kafka is None else [*stops, self._kafka.stop(grace_s)]


def _bind(server: grpc.aio.Server, listener: Listener, credentials: grpc.ServerCredentials | None) -> None:
    try:
        if credentials is None:
            bound = server.add_insecure_port(listener.address)
        else:
            bound = server.add_secure_port(listener.address, credentials)
    except RuntimeError:
        bound = 0
    if bound != listener.port:
        raise StartError(f"{listener} cannot be bound: the port is in use or the host is not this machine's")


def _in_one_line(error: BaseException, role: str) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, _EXPECTED):
        return str(error)
    # Our own bug: the place it happened at is what its report needs.
    log.error("bug", role=role, exc_info=error)
    return f"the {role} stopped on an internal error: {error!r}; please report it with this log"
