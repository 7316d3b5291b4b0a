"""What each Kafka listener of a node allows, and what answers the requests of its connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from math import inf
from socket import SOCK_STREAM

from kraft.model.addresses import address_of, address_of_peer
from kraft.model.config_types import INT32_MAX
from kraft.model.principal import ANONYMOUS, Principal
from kraft.sasl.login import LoginRules
from kraft.server.broker.apis import BrokerApis
from kraft.server.config.loading import ConfigError
from kraft.server.config.node_config import NodeConfig
from kraft.server.identity.certificate_principals import kafka_principal
from kraft.server.identity.kafka_tls import KafkaTls
from kraft.server.kafka_listener.answering import MakeRequests
from kraft.server.kafka_listener.connection import ConnectionLimits
from kraft.server.kafka_listener.connection_counts import count_limits
from kraft.server.kafka_listener.listener import ListenerLimits, TlsAnswering
from kraft.server.kafka_listener.login_requests import LoginRequests
from kraft.server.kafka_listener.memory import STRANGERS_FRAME_BYTES_MAX
from kraft.server.kafka_listener.metered_requests import MeteredRequests
from kraft.server.kafka_listener.request_times import RequestTimes
from kraft.server.kafka_listener.requests import ELEMENT_BYTES, KafkaRequests, NodeConnections
from kraft.server.loop.budget import Budget
from kraft.server.loop.unread_responses import UnreadResponses
from kraft.tls.handshakes import TlsPeer


async def kafka_limits(config: NodeConfig, files: int) -> ListenerLimits:
    """Return the limits of a node's Kafka listeners, which may have so many connections.

    Raises ConfigError for a host in `max.connections.per.ip.overrides` that has no address.
    """
    network, connections = config.network, config.connections
    securities = [config.security_of(listener.name) for listener in config.kafka_listeners]
    logins = [each.sasl for each in securities if each.sasl is not None]
    have_strangers = bool(logins) or any(each.tls is not None for each in securities)
    overrides = await connections_by_address(config)
    return ListenerLimits(
        frame_bytes_max=network.request_bytes_max,
        counts=count_limits(
            files, network.connections_max, connections.per_host_max, overrides, asks_for_login=have_strangers
        ),
        connection=ConnectionLimits(
            idle_s_max=network.connection_idle_ms_max / 1_000, slow_s_min=network.slow_request_ms_min / 1_000 or inf
        ),
        stranger_frame_bytes_max=max((each.receive_bytes_max for each in logins), default=STRANGERS_FRAME_BYTES_MAX),
        creation_rate_max=None if connections.creation_rate_max == INT32_MAX else connections.creation_rate_max,
    )


async def connections_by_address(config: NodeConfig) -> Mapping[str, int]:
    """Return `max.connections.per.ip.overrides` by address. Raises ConfigError for a host that has none."""
    found = config.connections.per_host_overrides
    return {address: count for host, count in found for address in await _addresses(config, host)}


async def _addresses(config: NodeConfig, host: str) -> set[str]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=SOCK_STREAM)
    except OSError as error:
        raise ConfigError(
            f"{config.file}: max.connections.per.ip.overrides: {host} has no address ({error.strerror}): correct it"
        ) from None
    return {address_of(name) for *_, name in found}


class KafkaAnswering:
    def __init__(
        self,
        config: NodeConfig,
        tls: KafkaTls,
        apis: BrokerApis,
        unread: UnreadResponses,
        nodes: NodeConnections,
        times: RequestTimes,
        largest: Budget | None = None,
    ) -> None:
        self._config = config
        self._tls = tls
        self._apis = apis
        self._unread = unread
        self._nodes = nodes
        self._times = times
        self._largest = largest

    def at(self, listener: str) -> MakeRequests | TlsAnswering:
        """Return what makes the answering end of a connection at that listener."""
        security = self._config.security_of(listener)
        answering = self._answering(listener)
        if security.tls is None:
            return answering(ANONYMOUS, None)
        rules = None if security.sasl is not None else self._tls.rules_of(listener)

        def after_handshake(shown: TlsPeer) -> MakeRequests:
            return answering(kafka_principal(rules, shown.certificate), shown.own_certificate)

        return TlsAnswering(self._tls.shown_at(listener).current, after_handshake)

    def _answering(self, listener: str) -> Callable[[Principal, bytes | None], MakeRequests]:
        """Return what takes the principal of a certificate, and the one that this node has shown, with TLS.

        All connections of the listener share what is made here: the APIs alone take 25 KiB.
        """
        apis, throttling = self._apis.kafka_apis(listener), self._apis.throttling
        elements_max = self._config.network.request_bytes_max // ELEMENT_BYTES

        def requests(peer: str, principal: Principal, certificate: bytes | None) -> KafkaRequests:
            return KafkaRequests(
                apis,
                peer,
                self._unread,
                elements_max=elements_max,
                nodes=self._nodes,
                listener=listener,
                principal=principal,
                certificate=certificate,
                meter=MeteredRequests(throttling, self._times),
                largest=self._largest,
            )

        sasl = self._config.security_of(listener).sasl
        if sasl is None:
            return lambda principal, certificate: lambda peer: requests(peer, principal, certificate)
        rules = LoginRules(mechanisms=sasl.mechanisms, reauthentication_ms_max=sasl.reauthentication_ms_max)
        authenticator = self._apis.logins.at(listener)

        def with_login(peer: str, principal: Principal, certificate: bytes | None) -> LoginRequests:
            asked = requests(peer, principal, certificate)
            return LoginRequests(authenticator, rules, asked, apis, address_of_peer(peer))

        return lambda principal, certificate: lambda peer: with_login(peer, principal, certificate)
