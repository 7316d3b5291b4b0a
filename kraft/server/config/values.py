"""The values that settings are read to, beyond numbers and text."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_address
from typing import Final

from kraft.model.ids import BrokerId

GRPC = "GRPC"
"""Our own listener: clients, and brokers among themselves."""

CONTROLLER = "CONTROLLER"
"""The quorum and what brokers ask the active controller."""

PLAINTEXT = "PLAINTEXT"
"""The Kafka wire protocol, as every other listener that is mapped to the security protocol of this name."""

SSL = "SSL"
"""The security protocol of a listener that speaks TLS; that of one which does not is PLAINTEXT."""

UNLIMITED_BYTES_PER_SECOND: Final = 0x7FFFFFFFFFFFFFFF
"""Where nothing is said about how fast background work may read and write."""


class Role(StrEnum):
    BROKER = "broker"
    CONTROLLER = "controller"


class Durability(StrEnum):
    """What a replica waits for before it counts a record as its own."""

    FSYNC = "fsync"
    PAGE_CACHE = "page-cache"


def host_and_port(host: str, port: int) -> str:
    """As people and gRPC write it: an IPv6 address stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine is meant. A name other than localhost is not looked up: it may change."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Listener:
    """`name://host:port`. An empty host listens on every interface; an advertised listener always has one."""

    name: str
    host: str
    port: int

    @property
    def address(self) -> str:
        """`host:port` to bind to or to dial; every interface is `[::]`."""
        return host_and_port(self.host or "::", self.port)

    @property
    def is_wildcard(self) -> bool:
        """True when it names every interface, which no client can dial."""
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
    """A setting that was read and does not do what its writer expects."""

    key: str
    message: str
