"""Addresses of the brokers' listeners of Kafka's protocol, found by those of their GRPC listeners."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from kraft.client.cluster.any_broker import ATTEMPT_MAX_MS
from kraft.client.cluster.connections import Connections
from kraft.model.brokers import BrokerDescription, DescribeBrokersRequest
from kraft.model.endpoint import Endpoint
from kraft.model.errors import Refusal
from kraft.rpc.calls import DESCRIBE_BROKERS
from kraft.rpc.peers import Unreachable
from kraft.runtime.clock import Clock

RETRY_MS: Final = 30_000
"""A broker without such a listener is asked again after this."""

_GRPC: Final = "GRPC"
_OTHER_LISTENERS: Final = (_GRPC, "CONTROLLER")

log = logging.getLogger("kraft.client")


class KafkaAddresses:
    def __init__(self, connections: Connections, clock: Clock, security_protocol: str) -> None:
        """Of several listeners, one that is named after the client's security protocol fits best."""
        self._connections = connections
        self._clock = clock
        self._security_protocol = security_protocol
        self._found: dict[str, str | None] = {}
        self._asked_at_ms: dict[str, int] = {}

    async def find(self, address: str) -> str | None:
        """Return the address for the broker with that GRPC address; None if it is not known or does not exist."""
        found = self._found.get(address)
        if found is None and self._is_due(address):
            self._asked_at_ms[address] = self._clock.monotonic_ms()
            found = self._found[address] = await self._ask(address)
        return found

    def forget(self, address: str) -> None:
        """Look the address up again: the broker may have another one after a restart."""
        self._found.pop(address, None)
        self._asked_at_ms.pop(address, None)

    def _is_due(self, address: str) -> bool:
        asked_at_ms = self._asked_at_ms.get(address)
        return asked_at_ms is None or self._clock.monotonic_ms() - asked_at_ms >= RETRY_MS

    async def _ask(self, address: str) -> str | None:
        peer = self._connections.peer(address)
        try:
            response = await peer.call(DESCRIBE_BROKERS, DescribeBrokersRequest(broker_ids=[]), ATTEMPT_MAX_MS / 1000)
        except (Unreachable, Refusal) as error:
            log.debug("listeners not found: broker=%s reason=%s", address, error)
            return None
        return _kafka_address(address, response.brokers, self._security_protocol)


def _kafka_address(address: str, brokers: Sequence[BrokerDescription], security_protocol: str) -> str | None:
    for broker in brokers:
        if any(each.listener == _GRPC and _text(each) == address for each in broker.addresses):
            host = address.rpartition(":")[0]
            others = [each for each in broker.addresses if each.listener not in _OTHER_LISTENERS]
            # Of several listeners, the one in the client's network is the one that has the same host name.
            others.sort(key=lambda each: (each.listener != security_protocol, each.host != host))
            return _text(others[0]) if others else None
    return None


def _text(endpoint: Endpoint) -> str:
    return f"{endpoint.host}:{endpoint.port}"
