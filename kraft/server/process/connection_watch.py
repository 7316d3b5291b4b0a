"""Looks at the connections of the gRPC listeners, and ends those that `connection_rules` says.

The system knows what each connection has received. gRPC owns the sockets and names them to nobody, so they are found
among the open files of the process, by their port.
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import struct
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import structlog
from msgspec import Struct

from kraft.model.addresses import address_of_peer
from kraft.model.callbacks import NowS
from kraft.rpc.received_messages import Received, ReceivedMessages
from kraft.rpc.refusal_log import RefusalLog, readable_peer
from kraft.runtime.allocator import release_freed_memory
from kraft.server.loop.periods import loop_time_s, period_left_s
from kraft.server.process.connection_rules import ConnectionRules, Sample

log = structlog.get_logger()

PERIOD_S: Final = 0.25
SOON_S: Final = 0.05
"""Delay to the next look if there is something that it may have to end."""

LOOK_S_MIN: Final = 0.02
LOOK_S_MAX: Final = 5.0
"""Shortest and longest time between two looks. Otherwise they come when the process has grown, or has opened files."""

GROWTH_BYTES: Final = 16 * 1024 * 1024
GROWTH_FILES: Final = 32

_FILES: Final = "/proc/self/fd"
_MEMORY: Final = "/proc/self/statm"
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_LINE_BYTES_MAX: Final = 256

_INFO_BYTES: Final = 256
_BYTES_ACKED_AND_RECEIVED: Final = struct.Struct("=QQ")
_AT: Final = 120
"""Position of the two counters in Linux's `struct tcp_info`, since Linux 4.1."""

_ACKED_SHARE: Final = 256
"""For one of so many bytes that a client reads, it sends one that makes room for more."""


class Watched(Struct, frozen=True, kw_only=True):
    """A listener."""

    port: int
    received: ReceivedMessages
    rules: ConnectionRules
    requires_proof: bool
    """Whether a connection is a stranger's until a node or a client proved who it is; otherwise, until any message."""


class ConnectionSample(Struct, frozen=True, kw_only=True):
    """What the system says of a connection."""

    port: int
    peer: str
    descriptor: int
    received_bytes: int
    acked_bytes: int


async def watch_connections(
    listeners: Sequence[Watched], refusals: RefusalLog, look_now: asyncio.Event, ended_peers: set[str]
) -> None:
    """Watch until cancelled; does nothing on systems other than Linux. A look comes at once when `look_now` is set.

    The peers of connections that it ended are added to `ended_peers`.
    """
    if not sys.platform.startswith("linux"):
        return
    loop = asyncio.get_running_loop()
    with _Process() as process:
        await _watch(listeners, refusals, process, look_now, ended_peers, loop.time)


async def _watch(
    listeners: Sequence[Watched],
    refusals: RefusalLog,
    process: _Process,
    look_now: asyncio.Event,
    ended_peers: set[str],
    monotonic_s: NowS,
) -> None:
    looked_s, before = monotonic_s(), process.use()
    while True:
        if any(each.rules.looks_again_soon for each in listeners):
            await asyncio.sleep(SOON_S)
        elif (
            not await _comes(look_now, period_left_s(PERIOD_S))
            and monotonic_s() - looked_s < LOOK_S_MAX
            and not process.use().has_grown_since(before)
        ):
            continue
        # Many connections may ask for a look, one after the other.
        await asyncio.sleep(looked_s + LOOK_S_MIN - monotonic_s())
        look_now.clear()
        began_s, at_its_begin = monotonic_s(), process.use()
        if ended := await _look(listeners, refusals, began_s - looked_s):
            ended_peers.update(ended)
            release_freed_memory()
        # What was opened during a look was not seen by it.
        looked_s, before = began_s, process.use().or_less(at_its_begin)


async def _comes(event: asyncio.Event, within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s):
            await event.wait()
    except TimeoutError:
        return False
    return True


async def _look(listeners: Sequence[Watched], refusals: RefusalLog, since_s: float) -> list[str]:
    """Look at all connections, so long after the last look; return the peers of those that had to end."""
    by_port = {each.port: each for each in listeners}
    # Before the system is asked: what is handed over meanwhile was received, too, and must not be explained too early.
    explained = {each.port: each.received.counts() for each in listeners}
    for each in listeners:
        each.received.look_began()
    try:
        seen = await asyncio.to_thread(connections_of, by_port.keys())
    except (OSError, RuntimeError) as error:
        # Without a free file they cannot be listed, nor without a thread; the next look may find one.
        log.warning("connection check skipped", reason=str(error))
        return []
    ended_peers = []
    for port, watched in by_port.items():
        here = {each.peer: each for each in seen if each.port == port}
        # One that began meanwhile may not be among those that were seen.
        watched.received.forget(explained[port].keys() - here.keys())
        watched.received.look_ended({each.peer: each.received_bytes for each in here.values()}, since_s)
        samples = [_sample(each, explained[port].get(each.peer), watched) for each in here.values()]
        for ended in watched.rules.look(samples, loop_time_s()):
            ended_peers.append(ended.peer)
            refusals.log(ended.peer, ended.reason, ended.refused_for)
            _end(here[ended.peer])
    return ended_peers


def _sample(seen: ConnectionSample, counts: Received | None, watched: Watched) -> Sample:
    is_known = watched.received.is_known(seen.peer)
    acked_bytes = seen.acked_bytes // _ACKED_SHARE
    if counts is None:
        # gRPC collects no message before there is a call.
        counts = Received(explained_bytes=seen.received_bytes, settled_bytes=seen.received_bytes)
    return Sample(
        peer=seen.peer,
        host=address_of_peer(readable_peer(seen.peer)),
        received_bytes=seen.received_bytes,
        explained_bytes=counts.explained_bytes + acked_bytes,
        messages=counts.messages,
        is_stranger=not is_known and (watched.requires_proof or not counts.messages),
        settled_bytes=counts.settled_bytes,
        old_calls=counts.old_calls,
        is_flooding=counts.is_flooding(seen.received_bytes - acked_bytes),
    )


def connections_of(ports: Collection[int]) -> list[ConnectionSample]:
    """Return the open connections of these ports. Raises OSError if the open files cannot be listed."""
    return [seen for seen in _looked_at(map(int, os.listdir(_FILES)), ports) if seen is not None]


def _looked_at(descriptors: Iterable[int], ports: Collection[int]) -> Iterable[ConnectionSample | None]:
    for descriptor in descriptors:
        try:
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                continue
            borrowed = socket.socket(fileno=descriptor)
        except OSError:
            # It was closed meanwhile.
            continue
        try:
            yield _look_at(borrowed, ports)
        except OSError:
            # A socket that listens has no peer, nor has one that was reset.
            continue
        finally:
            # It is gRPC's, which closes it.
            borrowed.detach()


def _look_at(borrowed: socket.socket, ports: Collection[int]) -> ConnectionSample | None:
    if borrowed.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    port: int = borrowed.getsockname()[1]
    if port not in ports:
        return None
    peer = _name(borrowed)
    info = borrowed.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
    if len(info) < _AT + _BYTES_ACKED_AND_RECEIVED.size:
        return None
    acked_bytes, received_bytes = _BYTES_ACKED_AND_RECEIVED.unpack_from(info, _AT)
    return ConnectionSample(
        port=port, peer=peer, descriptor=borrowed.fileno(), received_bytes=received_bytes, acked_bytes=acked_bytes
    )


def _name(connected: socket.socket) -> str:
    """Return the peer as gRPC names it."""
    host, port = connected.getpeername()[:2]
    host = host.replace("%", "%25")
    if connected.family == socket.AF_INET6 and not host.startswith("::ffff:"):
        return f"ipv6:%5B{host}%5D:{port}"
    return f"ipv4:{host.removeprefix('::ffff:')}:{port}"


def _end(seen: ConnectionSample) -> None:
    """Shut the connection down, unless it has ended already; gRPC then closes it."""
    try:
        # A descriptor of its own: the other one may be closed, and used for something else, at any time.
        duplicate = os.dup(seen.descriptor)
        try:
            own = socket.socket(fileno=duplicate)
        except OSError:
            os.close(duplicate)
            raise
        with own:
            if own.getsockname()[1] == seen.port and _name(own) == seen.peer:
                own.shutdown(socket.SHUT_RDWR)
    except OSError as error:
        log.debug("connection ended already", peer=seen.peer, reason=str(error))


class _Use(Struct, frozen=True, kw_only=True):
    resident_bytes: int
    files: int
    """Open files; 0 where the system does not say, as Linux before 6.2."""

    def has_grown_since(self, before: _Use) -> bool:
        more_bytes, more_files = self.resident_bytes - before.resident_bytes, self.files - before.files
        return more_bytes >= GROWTH_BYTES or more_files >= GROWTH_FILES

    def or_less(self, other: _Use) -> _Use:
        return _Use(resident_bytes=min(self.resident_bytes, other.resident_bytes), files=min(self.files, other.files))


class _Process:
    """What this process uses. Its file stays open: there may be no other when it is needed."""

    def __enter__(self) -> _Process:
        self._descriptor = os.open(_MEMORY, os.O_RDONLY | os.O_CLOEXEC)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def use(self) -> _Use:
        pages = int(os.pread(self._descriptor, _LINE_BYTES_MAX, 0).split()[1])
        return _Use(resident_bytes=pages * _PAGE_BYTES, files=os.stat(_FILES).st_size)
