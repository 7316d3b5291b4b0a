"""How a voter reaches the others and checks who calls it. Given by the owner of the CONTROLLER listener."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
import structlog

log = structlog.get_logger(__name__)

ChannelOptions = Sequence[tuple[str, Any]]


def _dial_openly(address: str, options: ChannelOptions) -> grpc.aio.Channel:
    return grpc.aio.insecure_channel(address, options=options)


def _object_to_nobody(_context: grpc.aio.ServicerContext[Any, Any], _voter: int) -> None:
    return None


def _know_no_handshake(_details: str) -> None:
    return None


def _log_refusal(peer: str, reason: str) -> None:
    log.warning("raft stream refused", peer=peer, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSecurity:
    """Without arguments, everybody on the network is trusted."""

    dial: Callable[[str, ChannelOptions], grpc.aio.Channel] = _dial_openly
    """A channel to the CONTROLLER listener at this address."""

    objection: Callable[[grpc.aio.ServicerContext[Any, Any], int], str | None] = _object_to_nobody
    """Why whoever made this call cannot be the voter that it says it is; None when it may be."""

    handshake_failure: Callable[[str], str | None] = _know_no_handshake
    """Why a voter that is there cannot be spoken with, from what gRPC says of it; None where time may still help."""

    refused: Callable[[str, str], None] = _log_refusal
    """Tells of a stream that was refused: gRPC's name of its peer, and why. May be called very often."""
