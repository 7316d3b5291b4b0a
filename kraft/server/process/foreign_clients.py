"""Notices clients that speak another protocol at a gRPC listener, such as Kafka's.

gRPC ends such a connection at its first bytes, and tells nobody. But the system remembers a connection for a minute on
the side that ended it, and clients of gRPC end theirs themselves. Linux only.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import Final

import structlog

from kraft.model.refused_for import RefusedFor
from kraft.rpc.refusal_log import RefusalLog
from kraft.server.loop.periods import period_end

log = structlog.get_logger()

PERIOD_S: Final = 5.0

AT_LEAST: Final = 2
"""Connections of one host that ended here in one period. Kafka's clients try again several times a second; one may have
another reason, such as a client that is gone.
"""

_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_TIME_WAIT: Final = "06"
_LISTEN: Final = "0A"
_WORD_DIGITS: Final = 8


def remembered_peers(port: int, tables: Iterable[Path] = _TABLES) -> set[str]:
    """Return the peers of all connections of this port that the system knows, also of processes that are gone.

    Empty where the system has no such tables.
    """
    try:
        return {peer for _, peer, _ in _connections({port}, tables)}
    except OSError as error:
        log.debug("search for earlier connections skipped", reason=str(error))
        return set()


async def watch_foreign_clients(
    remedies: Mapping[int, str], refusals: RefusalLog, ended_by_rules: set[str], tables: Iterable[Path] = _TABLES
) -> None:
    """Log hosts whose connections spoke no gRPC, with the remedy of the port, until cancelled.

    `ended_by_rules` has the peers that this process cut off itself, and those of the process before, which had the same
    ports; those that the system has forgotten are removed.
    """
    if not sys.platform.startswith("linux"):
        return
    known: set[tuple[int, str]] = set()
    while True:
        await period_end(PERIOD_S)
        try:
            # Strangers may leave tens of thousands of connections in the tables.
            known, peers, repeated = await asyncio.to_thread(
                _search, remedies.keys(), tuple(tables), known, frozenset(ended_by_rules)
            )
        except (OSError, RuntimeError) as error:
            log.debug("search for foreign clients skipped", reason=str(error))
            continue
        for port, peer in repeated:
            refusals.log(peer, remedies[port], RefusedFor.REQUEST)
        ended_by_rules &= peers


def _search(
    ports: Collection[int], tables: Iterable[Path], known: Set[tuple[int, str]], ended_by_rules: Set[str]
) -> tuple[set[tuple[int, str]], set[str], list[tuple[int, str]]]:
    """Return port and peer of all connections that ended here, all peers, and one peer for each host to be logged."""
    connections = list(_connections(ports, tables))
    ended = {(port, peer) for port, peer, state in connections if state == _TIME_WAIT}
    news = (each for each in ended - known if each[1] not in ended_by_rules)
    return ended, {peer for _, peer, _ in connections}, list(_repeated(news))


def _repeated(ended: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield one connection of each host that has several at one port."""
    by_host: dict[tuple[int, str], list[str]] = {}
    for port, peer in ended:
        by_host.setdefault((port, peer.rpartition(":")[0]), []).append(peer)
    for (port, _), peers in by_host.items():
        if len(peers) >= AT_LEAST:
            yield port, peers[0]


def _connections(ports: Collection[int], tables: Iterable[Path]) -> Iterator[tuple[int, str, str]]:
    """Yield port, peer as gRPC names it, and state of each connection that the system knows.

    It remembers the end of a connection for a minute, on the side that ended it.
    """
    for table in tables:
        if not table.exists():
            # A system without IPv6, or without these tables.
            continue
        with table.open() as lines:
            next(lines)
            for line in lines:
                _, local, remote, state, *_ = line.split()
                if state != _LISTEN and (port := int(local.rpartition(":")[2], 16)) in ports:
                    yield port, _peer(remote), state


def _peer(text: str) -> str:
    """Return gRPC's name of an address in the system's table: words of 4 bytes in the machine's order, and a port."""
    digits, _, port = text.partition(":")
    words = (digits[at : at + _WORD_DIGITS] for at in range(0, len(digits), _WORD_DIGITS))
    packed = b"".join(int(word, 16).to_bytes(4, sys.byteorder) for word in words)
    host = socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)
    if ":" in host and not host.startswith("::ffff:"):
        return f"ipv6:%5B{host}%5D:{int(port, 16)}"
    return f"ipv4:{host.removeprefix('::ffff:')}:{int(port, 16)}"
