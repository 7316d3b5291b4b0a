"""Facts about a request besides its message, as in Kafka. They are the same over both protocols."""

from __future__ import annotations

from msgspec import Struct

from kraft.model.principal import ANONYMOUS, Principal


class RequestContext(Struct, frozen=True, kw_only=True):
    version: int
    """Version of the request; over gRPC the newest."""

    client_id: str = ""
    """What the client calls itself; empty if it does not say. Shown to operators."""

    peer: str = ""
    """The client's address, formatted for messages."""

    principal: Principal = ANONYMOUS
    """Who the client logged in as."""

    listener: str = ""
    """Name of the listener at which the request arrived."""

    @property
    def host(self) -> str:
        return host_of(self.peer)

    @property
    def client_host(self) -> str:
        """The host in Kafka's notation: `/10.0.0.7`."""
        return "/" + self.host


def host_of(peer: str) -> str:
    """Return the host of an address such as `10.0.0.7:51000` or `[::1]:51000`."""
    host, _, _ = peer.rpartition(":")
    return (host or peer).strip("[]")
