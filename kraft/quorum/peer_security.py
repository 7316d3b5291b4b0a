"""Security of the connections between voters, supplied by the owner of the CONTROLLER listener."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import grpc
import structlog
from msgspec import Struct

log = structlog.get_logger(__name__)

ChannelOptions = Sequence[tuple[str, Any]]


def _dial_insecurely(address: str, options: ChannelOptions) -> grpc.aio.Channel:
    return grpc.aio.insecure_channel(address, options=options)


def _no_objection(_context: grpc.aio.ServicerContext[Any, Any], _voter: int) -> None:
    return None


def _no_handshake_failure(_details: str) -> None:
    return None


def _log_refusal(peer: str, reason: str) -> None:
    log.warning("raft stream refused", peer=peer, reason=reason)


class PeerSecurity(Struct, frozen=True, kw_only=True):
    """Security of the streams between voters. The defaults trust every caller on the network."""

    dial: Callable[[str, ChannelOptions], grpc.aio.Channel] = _dial_insecurely
    """Opens a channel to the CONTROLLER listener at this address."""

    objection: Callable[[grpc.aio.ServicerContext[Any, Any], int], str | None] = _no_objection
    """Returns why the caller cannot be the voter that it claims to be; None if it may be."""

    handshake_failure: Callable[[str], str | None] = _no_handshake_failure
    """Returns, from gRPC's error text, why the TLS handshake with a voter failed; None if a retry may help."""

    refused: Callable[[str, str], None] = _log_refusal
    """Reports a refused stream: gRPC's name of the peer, and the reason. May be called very often."""
