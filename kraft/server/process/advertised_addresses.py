"""Whether a node is found at the addresses that it advertises, asked by itself once it listens.

Clients and other brokers use nothing else, so an address that leads nowhere, or to another node, would show as a
cluster that answers and takes no records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

from kraft.rpc.identity import Identity, who_answers
from kraft.rpc.peers import Dial, Unreachable, dial_openly
from kraft.server.config.loading import ConfigError
from kraft.server.config.node_config import NodeConfig
from kraft.server.config.values import Listener
from kraft.server.process.kafka_dialling import cluster_at

ATTEMPT_TIMEOUT_S: Final = 1.0
"""The name looked up and the question answered; on one machine it takes a few milliseconds."""

ATTEMPTS: Final = 3
"""Attempts rather than seconds: when this process itself was held up, everything seems not to answer, once."""

ATTEMPT_PAUSE_S: Final = 0.5

_CHANNEL_OPTIONS: Final[list[tuple[str, Any]]] = [("grpc.use_local_subchannel_pool", 1)]

CHECK_KEY: Final = "advertised.listeners.check.enable"


class NotFoundThere(ConfigError):
    """An advertised address at which this process does not answer: one line, with the remedy."""


Found = TypeVar("Found")


async def check_advertised(config: NodeConfig, own: Identity, dial_as_node: Dial) -> None:
    """For the listener that `own` names, which must listen by now. Raises NotFoundThere."""
    found = await _asked(config, own.listener, lambda listener: _who_answers(listener.address, dial_as_node))
    if found is not None and found != own:
        raise _error(config, own.listener, f"where {_described(found, own)} answers, not this node's {own.listener}")


async def check_advertised_to_kafka(config: NodeConfig, name: str, cluster_id: str) -> None:
    """For a listener of Kafka's protocol, which must listen by now, and which tells the cluster only.

    Raises NotFoundThere.
    """
    found = await _asked(config, name, lambda listener: cluster_at(listener.host, listener.port, ATTEMPT_TIMEOUT_S))
    if found is not None and found != cluster_id:
        raise _error(config, name, f"where cluster {found[:64]!r} answers, not this one")


async def _asked(config: NodeConfig, name: str, ask: Callable[[Listener], Awaitable[Found]]) -> Found | None:
    """What is found at the advertised address of that listener; None when nobody wants to know."""
    listener = config.advertised(name)
    if listener is None or not config.network.advertised_check_enabled:
        return None
    try:
        return await _persistently(lambda: ask(listener))
    except Unreachable as error:
        raise _error(config, name, f"which this node itself cannot reach ({error.reason})") from None


async def _persistently(ask: Callable[[], Awaitable[Found]]) -> Found:
    """Asked more than once: a name service or a proxy may need a moment. Raises Unreachable."""
    for _ in range(ATTEMPTS - 1):
        with suppress(Unreachable):
            return await ask()
        await asyncio.sleep(ATTEMPT_PAUSE_S)
    return await ask()


async def _who_answers(address: str, dial_as_node: Dial) -> Identity:
    """Asked as a node, whom a CONTROLLER listener answers too, and then as anybody, whom another cluster answers.

    A channel of its own for each attempt: an old one keeps a delay of its own before it dials again.
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
        f" where clients reach this node; if they do there, and only this machine is not let through, {CHECK_KEY}=false"
        " says so"
    )
