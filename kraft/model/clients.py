"""DescribeClients: the connections of a broker's clients, who they are, and how much they have asked and got."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from kraft.model.principal import Principal

TEXT_CHARACTERS_MAX: Final = 249
"""Characters that are kept and shown of what a client says about itself: each connection may have its own."""


class DescribeClientsRequest(Struct, frozen=True, kw_only=True):
    """Asks for all connections of the broker's listeners of Kafka's protocol."""


class ClientWords(Struct, frozen=True, kw_only=True):
    """Who the client of a connection is, and what it calls itself."""

    principal: Principal
    client_id: str
    software_name: str
    software_version: str


class ClientConnection(Struct, frozen=True, kw_only=True):
    """One connection, with its counts since it began."""

    listener: str
    address: str
    """The client's, with its port."""

    principal: str
    client_id: str
    """That of the last request; empty if it had none."""

    software_name: str
    """Empty if the client did not say: it does from version 3 of ApiVersions on (KIP-511)."""

    software_version: str
    age_ms: int
    requests: int
    received_bytes: int
    sent_bytes: int


class DescribeClientsResponse(Struct, frozen=True, kw_only=True):
    connections: list[ClientConnection]
    """In no order."""
