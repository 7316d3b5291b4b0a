"""Values of settings that are not numbers or text."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kraft.model.ids import BrokerId

GRPC = "GRPC"
"""The listener for gRPC clients, and for calls between brokers."""

CONTROLLER = "CONTROLLER"
"""The listener for the quorum, and for brokers' requests to the active controller."""

METRICS = "METRICS"
"""The address for scrapes and probes, which has this name in messages and in allow.unauthenticated.listeners."""

PLAINTEXT = "PLAINTEXT"
"""The usual name of the listener of Kafka's protocol."""

UNLIMITED_BYTES_PER_SECOND: Final = 0x7FFFFFFFFFFFFFFF
"""No limit on reads and writes of background work."""


class SecurityProtocol(StrEnum):
    """What a listener does before it reads requests: nothing, TLS, SASL, or SASL inside TLS."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class Role(StrEnum):
    BROKER = "broker"
    CONTROLLER = "controller"


class Durability(StrEnum):
    """The point at which a replica counts a record as stored."""

    FSYNC = "fsync"
    PAGE_CACHE = "page-cache"


def host_and_port(host: str, port: int) -> str:
    """Return `host:port`, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@dataclass(frozen=True, slots=True)
class Listener:
    """A listener, `name://host:port`. An empty host means every interface; an advertised one always has a host."""

    name: str
    host: str
    port: int

    @property
    def address(self) -> str:
        """Return `host:port` to bind or connect to; every interface is `[::]`."""
        return host_and_port(self.host or "::", self.port)

    @property
    def is_wildcard(self) -> bool:
        """True if it means every interface, to which no client can connect."""
        return self.host in ("", "0.0.0.0", "::")

    def __str__(self) -> str:
        return f"{self.name}://{host_and_port(self.host, self.port)}"


@dataclass(frozen=True, slots=True)
class Voter:
    """One controller of the metadata quorum: `node_id@host:port` of its CONTROLLER listener."""

    node_id: BrokerId
    host: str
    port: int

    @property
    def address(self) -> str:
        return host_and_port(self.host, self.port)

    def __str__(self) -> str:
        return f"{self.node_id}@{self.address}"


@dataclass(frozen=True, slots=True)
class ConfigWarning:
    """A setting that does not do what its author expects."""

    key: str
    message: str
