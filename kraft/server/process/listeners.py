"""Listeners of a node: CONTROLLER and GRPC for Kraft's own calls, and those of Kafka's protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from socket import SOCK_STREAM
from typing import Any, Final

import grpc.aio
import structlog

from kraft.metadata.features import SUPPORTED_FEATURES
from kraft.model.callbacks import NowMs
from kraft.model.config_types import INT32_MAX
from kraft.rpc.client_gate import ClientGate
from kraft.rpc.gatekeeper import Gatekeeper
from kraft.rpc.identity import Identity, identity_service
from kraft.rpc.requests_in_progress import RequestsInProgress
from kraft.rpc.served_frames import ServedFrames
from kraft.rpc.services import CALLS_MAX, SERVER_OPTIONS, Service
from kraft.server.broker.apis import BrokerApis
from kraft.server.config.node_config import NodeConfig
from kraft.server.config.values import CONTROLLER, GRPC, Listener
from kraft.server.identity.credentials import NodeCredentials
from kraft.server.kafka_listener.listener import KafkaListener
from kraft.server.kafka_listener.memory import ListenerMemory
from kraft.server.loop.periods import loop_time_s
from kraft.server.process.advertised_addresses import check_advertised, check_advertised_to_kafka
from kraft.server.process.connection_rules import ConnectionRules
from kraft.server.process.connection_watch import Watched, watch_connections
from kraft.server.process.file_limit import connection_shares
from kraft.server.process.foreign_clients import remembered_peers, watch_foreign_clients
from kraft.server.process.grpc_clients import GrpcClients
from kraft.server.process.grpc_login import grpc_login
from kraft.server.process.kafka_answering import KafkaAnswering, connections_by_address, kafka_limits
from kraft.server.process.ports import CannotListen

log = structlog.get_logger()

GRACE_S: Final = 0.5
"""Time that requests in progress may take when the listeners close."""

STREAM_GRACE_S: Final = 0.02
"""Time after the last response, in which gRPC sends it; streams that are open then are cut off."""

UNENDING_GRACE_S: Final = 3_600.0
"""For a stop that only refuses new requests, until another one cuts off what is left. gRPC's own grace must not end
meanwhile: of two stops, one may destroy the server while the other's ends, which then crashes the process."""


class Listeners:
    def __init__(
        self, config: NodeConfig, cluster_id: str, credentials: NodeCredentials, process_id: bytes, files_max: int
    ) -> None:
        """`files_max` is the number of files that the process may open."""
        self._config = config
        self._cluster_id = cluster_id
        self._credentials = credentials
        self._process_id = process_id
        self._shares = connection_shares(
            files_max,
            has_kafka=bool(config.kafka_listeners),
            has_grpc=config.is_broker,
            has_controller=config.is_controller,
        )
        self._watched: list[Watched] = []
        self._look_now = asyncio.Event()
        self._ended_peers: set[str] = set()
        """Peers whose connections were not ended by gRPC: by the rules, or with the process before this one."""
        self._grpc: list[grpc.aio.Server] = []
        self._in_progress: list[RequestsInProgress] = []
        self._kafka: KafkaListener | None = None
        self._gatekeepers: dict[str, Gatekeeper] = {}
        self._node_connections: ServedFrames | None = None

    async def listen(
        self,
        name: str,
        services: Sequence[Any],
        options: Sequence[tuple[str, int]],
        clients: ClientGate | None = None,
    ) -> None:
        """Serve gRPC on the listener of that name; `clients` admits those that logged in. Raises CannotListen."""
        listener = self._config.listener(name)
        assert listener is not None, f"the configuration was checked to have a {name} listener"
        gatekeeper = self._gatekeepers[name] = self._credentials.gatekeeper(name, clients)
        gatekeeper.received.flood_began = self._look_now.set
        connections_max = self._shares.controller if name == CONTROLLER else self._shares.grpc
        at_an_address = max(1, connections_max // await _addresses(listener))
        server = grpc.aio.server(
            options=[*SERVER_OPTIONS, *options, ("grpc.max_allowed_incoming_connections", at_an_address)],
            interceptors=[gatekeeper],
            maximum_concurrent_rpcs=CALLS_MAX,
        )
        for service in (gatekeeper, identity_service(self._identity(name)), *services):
            service.add_to(server)
        # Before anybody can connect: these are connections of a process that had the port before.
        self._ended_peers |= await asyncio.to_thread(remembered_peers, listener.port)
        _bind(server, listener, self._credentials.server_credentials(name))
        await server.start()
        self._grpc.append(server)
        self._watched.append(
            Watched(
                port=listener.port,
                received=gatekeeper.received,
                rules=ConnectionRules(
                    connections_max=connections_max,
                    message_bytes_max=self._config.network.request_bytes_max,
                    login_bytes_max=gatekeeper.login_bytes_max,
                    host_max=await self._connections_of_host(name),
                ),
                requires_proof=gatekeeper.requires_proof,
            )
        )
        self._in_progress += [service.in_progress for service in services if isinstance(service, Service)]
        log.info("listener started", listener=str(listener))

    async def _connections_of_host(self, name: str) -> Callable[[str], int] | None:
        """Return how many connections an address may have at a gRPC listener; None: as many as there are."""
        most = self._config.connections.per_host_max
        overrides = await connections_by_address(self._config)
        if name == CONTROLLER or (most == INT32_MAX and not overrides):
            # CONTROLLER is for nodes, of which several may be on one machine.
            return None
        return lambda host: overrides.get(host, most)

    async def listen_to_clients(self, services: Sequence[Any], apis: BrokerApis) -> None:
        """Serve clients, and check the advertised addresses.

        The broker is not in service before this returns, so no client is sent to a wrong address.
        """
        options = [("grpc.max_receive_message_length", self._config.network.request_bytes_max)]
        login = grpc_login(self._config.security_of(GRPC), apis, self._credentials.refusals)
        await self.listen(GRPC, [*services, login.service], options, login.gate)
        if login.gate is not None:
            apis.when_users_change(login.gate.users_changed)
        listener = self._config.listener(GRPC)
        assert listener is not None, "it has just begun to listen"
        apis.clients.show(GrpcClients(GRPC, listener.port, self._gatekeepers[GRPC].received).connections)
        await check_advertised(self._config, self._identity(GRPC), self._credentials.dial_broker)
        if self._config.kafka_listeners:
            await self._listen_to_kafka(self._config.kafka_listeners, apis)

    async def _listen_to_kafka(self, listeners: Sequence[Listener], apis: BrokerApis) -> None:
        config = self._config
        memory = ListenerMemory(config.network.request_bytes_max)
        tls, refusals = self._credentials.kafka_tls, self._credentials.refusals
        limits = await kafka_limits(config, self._shares.kafka)
        self._kafka = KafkaListener(limits, refusals, memory, tls.buffers, apis.throttling)
        apis.clients.show(self._kafka.clients)
        self._node_connections = ServedFrames(apis.replica_fetch(), self._gatekeepers[GRPC], refusals)
        answering = KafkaAnswering(
            config, tls, apis, memory.unread, self._node_connections, self._kafka.times, memory.large.largest
        )
        for listener in listeners:
            await self._kafka.listen(
                listener.host,
                listener.port,
                answering.at(listener.name),
                asks_for_login=config.security_of(listener.name).sasl is not None,
                name=listener.name,
                creation_rate_max=dict(config.connections.creation_rates_of_listeners).get(listener.name),
                refused=apis.logins.refused_at(listener.name),
            )
            log.info("listener started", listener=str(listener))
        for listener in listeners:
            await check_advertised_to_kafka(self._config, listener.name, self._cluster_id, tls)

    @property
    def kafka(self) -> KafkaListener | None:
        """The listener for Kafka's clients; None until it listens."""
        return self._kafka

    async def watch(self, wall_ms: NowMs) -> None:
        """Watch the connections of the gRPC listeners until cancelled, also of those that begin to listen later.

        And the files of the node's credentials, whose certificates end by the clock `wall_ms`.
        """
        refusals, ended_peers = self._credentials.refusals, self._ended_peers
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(watch_connections(self._watched, refusals, self._look_now, ended_peers))
            tasks.create_task(self._credentials.watch(wall_ms))
            tasks.create_task(watch_foreign_clients(self._remedies(), refusals, ended_peers))

    def _remedies(self) -> dict[int, str]:
        """Return why gRPC ended connections of a listener, by port: the system tells no more than that it did."""
        of_kafka = [each for each in self._config.advertised_listeners if each.name not in (GRPC, CONTROLLER)]
        instead = f"connects to {of_kafka[0]}" if of_kafka else "has no listener at this node"
        return {
            each.port: f"gRPC ended its connections to {each}: it may be a Kafka client, which {instead}, or a "
            "gRPC client whose keepalive is too frequent"
            for each in self._config.listeners
            if each.name in (GRPC, CONTROLLER)
        }

    def _identity(self, listener: str) -> Identity:
        return Identity(
            cluster_id=self._cluster_id,
            node_id=self._config.node_id,
            process_id=self._process_id,
            features=list(SUPPORTED_FEATURES.values()),
            listener=listener,
        )

    async def stop(self) -> None:
        """Stop in order: take no more requests, respond to those in progress, and close what is left open then."""
        until_s = loop_time_s() + GRACE_S
        refusing = [asyncio.ensure_future(server.stop(UNENDING_GRACE_S)) for server in self._grpc]
        if self._kafka is not None:
            # Outside the timeout, which would end first: after the grace it closes its connections.
            await self._kafka.stop(GRACE_S)
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until_s):
                for requests in self._in_progress:
                    await requests.none_left()
        self._close_node_connections()
        if refusing:
            # A request of one listener may wait for the quorum, which uses streams of another.
            await asyncio.wait(refusing, timeout=STREAM_GRACE_S)
        await asyncio.gather(*(server.stop(None) for server in self._grpc), *refusing)

    def _close_node_connections(self) -> None:
        if self._node_connections is not None:
            self._node_connections.close()

    def cut_off(self) -> list[Coroutine[Any, Any, None]]:
        """Return the immediate stop of each listener, to be awaited."""
        self._close_node_connections()
        stops: list[Coroutine[Any, Any, None]] = [server.stop(None) for server in self._grpc]
        return stops if self._kafka is None else [*stops, self._kafka.stop(0)]


async def _addresses(listener: Listener) -> int:
    """Return the number of addresses of the host: gRPC's limit of connections is one for each."""
    if listener.is_wildcard:
        return 1
    try:
        found = await asyncio.get_running_loop().getaddrinfo(listener.host, listener.port, type=SOCK_STREAM)
    except OSError:
        # To listen there fails next, and says why.
        return 1
    return len({address[:2] for *_, address in found})


def _bind(server: grpc.aio.Server, listener: Listener, credentials: grpc.ServerCredentials | None) -> None:
    try:
        if credentials is None:
            bound = server.add_insecure_port(listener.address)
        else:
            bound = server.add_secure_port(listener.address, credentials)
    except RuntimeError:
        bound = 0
    if bound != listener.port:
        raise CannotListen(f"cannot listen on {listener}: the port is in use, or the host is not this machine")
