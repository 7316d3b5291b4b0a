"""What each Kafka listener of a node allows, and what answers the requests of its connections."""

from __future__ import annotations

import asyncio
from socket import SOCK_STREAM

from kraft.model.config_types import INT32_MAX
from kraft.sasl.login import LoginRules
from kraft.server.broker.apis import BrokerApis
from kraft.server.config.loading import ConfigError
from kraft.server.config.node_config import NodeConfig
from kraft.server.kafka_listener.acceptor import address_of
from kraft.server.kafka_listener.connection import ConnectionLimits, MakeRequests
from kraft.server.kafka_listener.connection_counts import count_limits
from kraft.server.kafka_listener.listener import ListenerLimits
from kraft.server.kafka_listener.login_requests import LoginRequests
from kraft.server.kafka_listener.memory import STRANGERS_FRAME_BYTES_MAX
from kraft.server.kafka_listener.requests import ELEMENT_BYTES, KafkaRequests, NodeConnections
from kraft.server.loop.unread_responses import UnreadResponses


async def kafka_limits(config: NodeConfig, files: int) -> ListenerLimits:
    """Return the limits of a node's Kafka listeners, which may have so many connections.

    Raises ConfigError for a host in `max.connections.per.ip.overrides` that has no address.
    """
    network, connections = config.network, config.connections
    logins = [each for each in (config.security_of(listener.name).sasl for listener in config.kafka_listeners) if each]
    overrides = {
        address: count for host, count in connections.per_host_overrides for address in await _addresses(config, host)
    }
    return ListenerLimits(
        frame_bytes_max=network.request_bytes_max,
        counts=count_limits(
            files, network.connections_max, connections.per_host_max, overrides, asks_for_login=bool(logins)
        ),
        connection=ConnectionLimits(idle_s_max=network.connection_idle_ms_max / 1_000),
        stranger_frame_bytes_max=max((each.receive_bytes_max for each in logins), default=STRANGERS_FRAME_BYTES_MAX),
        creation_rate_max=None if connections.creation_rate_max == INT32_MAX else connections.creation_rate_max,
    )


async def _addresses(config: NodeConfig, host: str) -> set[str]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=SOCK_STREAM)
    except OSError as error:
        raise ConfigError(
            f"{config.file}: max.connections.per.ip.overrides: {host} has no address ({error.strerror}): correct it"
        ) from None
    return {address_of(name) for *_, name in found}


class KafkaAnswering:
    def __init__(self, config: NodeConfig, apis: BrokerApis, unread: UnreadResponses, nodes: NodeConnections) -> None:
        self._config = config
        self._apis = apis
        self._unread = unread
        self._nodes = nodes

    def at(self, listener: str) -> MakeRequests:
        """Return what makes the answering end of a connection at that listener, from the other end's address."""
        apis = self._apis.kafka_apis(listener)
        elements_max = self._config.network.request_bytes_max // ELEMENT_BYTES

        def answering(peer: str) -> KafkaRequests:
            return KafkaRequests(
                apis, peer, self._unread, elements_max=elements_max, nodes=self._nodes, listener=listener
            )

        sasl = self._config.security_of(listener).sasl
        if sasl is None:
            return answering
        rules = LoginRules(mechanisms=sasl.mechanisms, reauthentication_ms_max=sasl.reauthentication_ms_max)
        authenticator = self._apis.authenticator

        def after_login(peer: str) -> LoginRequests:
            return LoginRequests(authenticator, rules, answering(peer), apis, peer.rpartition(":")[0])

        return after_login
