"""Checks that a node reaches itself at the addresses that it advertises, once it listens.

Clients and other brokers use only these addresses. With a wrong one the cluster would answer but accept no records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

from kraft.model.callbacks import AsyncCall
from kraft.rpc.identity import Identity, who_answers
from kraft.rpc.peers import Dial, Unreachable, dial_openly
from kraft.server.config.loading import ConfigError
from kraft.server.config.node_config import NodeConfig
from kraft.server.config.values import Listener
from kraft.server.identity.kafka_tls import KafkaTls
from kraft.server.process.kafka_dialling import certificate_at, cluster_at, versions_at
from kraft.tls.stores import ClientAuth

ATTEMPT_TIMEOUT_S: Final = 1.0
"""Longest time to resolve the name and get a response; on one machine it takes a few milliseconds."""

ATTEMPTS: Final = 3
"""Attempts, not seconds: if this process itself was delayed, one attempt fails whatever the address."""

ATTEMPT_PAUSE_S: Final = 0.5

_CHANNEL_OPTIONS: Final[list[tuple[str, Any]]] = [("grpc.use_local_subchannel_pool", 1)]

CHECK_KEY: Final = "advertised.listeners.check.enable"


class NotFoundThere(ConfigError):
    """This process does not answer at an advertised address; one line, with the remedy."""


Found = TypeVar("Found")


async def check_advertised(config: NodeConfig, own: Identity, dial_as_node: Dial) -> None:
    """Check the gRPC listener that `own` names, which must already listen. Raises NotFoundThere."""
    found = await _find(config, own.listener, lambda listener: _who_answers(listener.address, dial_as_node))
    if found is not None and found != own:
        raise _error(
            config, own.listener, f"where {_described(found, own)} answers instead of this node's {own.listener}"
        )


async def check_advertised_to_kafka(config: NodeConfig, name: str, cluster_id: str, tls: KafkaTls) -> None:
    """Check a listener of Kafka's protocol, which must already listen. Its response names only the cluster, and nothing
    where clients have to log in: nobody learns there before who answers.

    Raises NotFoundThere.
    """
    security, context = config.security_of(name), tls.asking(name)
    if security.tls is not None and security.tls.client_auth is ClientAuth.REQUIRED:
        # It may not accept this node as a client, but shows it its certificate.
        shown = await _find(config, name, lambda at: certificate_at(at.host, at.port, ATTEMPT_TIMEOUT_S, context))
        if shown is not None and shown != tls.shown_at(name).current().certificate:
            raise _error(config, name, "where somebody with another certificate answers")
        return
    if security.sasl is not None:
        await _find(config, name, lambda at: versions_at(at.host, at.port, ATTEMPT_TIMEOUT_S, context))
        return
    found = await _find(config, name, lambda at: cluster_at(at.host, at.port, ATTEMPT_TIMEOUT_S, context))
    if found is not None and found != cluster_id:
        raise _error(config, name, f"where cluster {found[:64]!r} answers instead of this one")


async def _find(config: NodeConfig, name: str, ask: Callable[[Listener], Awaitable[Found]]) -> Found | None:
    """Return what answers at the advertised address of the listener; None if the check is disabled."""
    listener = config.advertised(name)
    if listener is None or not config.network.advertised_check_enabled:
        return None
    try:
        return await _with_retries(lambda: ask(listener))
    except Unreachable as error:
        raise _error(config, name, f"which this node itself cannot reach ({error.reason})") from None


async def _with_retries(ask: AsyncCall[Found]) -> Found:
    """Ask several times: a name service or a proxy may need a moment. Raises Unreachable."""
    for _ in range(ATTEMPTS - 1):
        with suppress(Unreachable):
            return await ask()
        await asyncio.sleep(ATTEMPT_PAUSE_S)
    return await ask()


async def _who_answers(address: str, dial_as_node: Dial) -> Identity:
    """Ask as a node, which a CONTROLLER listener requires, and then as a client, which another cluster answers, too.

    Each attempt has its own channel: an old one waits before it connects again.
    """
    async with dial_as_node(address, _CHANNEL_OPTIONS) as channel:
        with suppress(Unreachable):
            return await who_answers(address, channel, ATTEMPT_TIMEOUT_S)
    async with dial_openly(address, _CHANNEL_OPTIONS) as channel:
        return await who_answers(address, channel, ATTEMPT_TIMEOUT_S)


def _described(found: Identity, own: Identity) -> str:
    if found.cluster_id != own.cluster_id:
        return f"node {found.node_id} of cluster {found.cluster_id[:64]!r}"
    if found.node_id != own.node_id:
        return f"node {found.node_id}"
    if found.process_id != own.process_id:
        return f"another process with node.id {found.node_id}"
    return f"its listener {found.listener}"


def _error(config: NodeConfig, name: str, what: str) -> NotFoundThere:
    key = "advertised.listeners" if "advertised.listeners" in config.settings else "listeners"
    return NotFoundThere(
        f"{config.file}: {key} names {config.advertised(name)}, {what}: set advertised.listeners={name}://host:port to"
        f" where clients reach this node, or {CHECK_KEY}=false if only this machine cannot connect to that address"
    )
