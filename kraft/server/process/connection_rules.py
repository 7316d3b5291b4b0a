"""Decides which connections of a gRPC listener have to end: for what they hold unfinished, or in a crowd.

gRPC accepts connections and collects messages before any code of a node sees them, and it has no limit on the bytes of
messages that never end. So from time to time this looks at what each connection has received, and what of it came out
as messages.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec import Struct

from kraft.model.refused_for import RefusedFor
from kraft.server.kafka_listener.connection_counts import too_many_of_address

FLOODED: Final = "it began too many calls that brought no message"

PART_BYTES_MIN: Final = 64 * 1024
"""Less than this is not counted as the part of a message."""

ARRIVAL_S_MAX: Final = 60.0
"""A connection that holds parts of messages, and completes none for this long, ends."""

OVERFULL_S_MAX: Final = 2.0
"""A connection may hold more than its share for this long: messages that are complete may wait for the event loop."""

MESSAGES_MAX: Final = 4
"""All connections of a listener may hold as much unfinished as this many of its largest messages."""

CONNECTION_MESSAGES_MAX: Final = 2
"""The same for one connection."""

LOGINS_MAX: Final = 32
"""All strangers together may hold as much unfinished as this many of the largest messages of a login."""

STRANGER_S_MAX: Final = 1.0
"""In a crowd, a connection that has completed no message, or proved nothing where that is required, ends after this."""

STRANGER_S_MIN: Final = 0.2
"""While less than a quarter of the places is free, the oldest of these end after this already, until it is."""

AHEAD_BYTES_MAX: Final = 4 * 1024 * 1024
"""What gRPC collects of a stream that is not read. While one is read, it collects one message."""


class Sample(Struct, frozen=True, kw_only=True):
    """What is known of a connection at one moment."""

    peer: str
    host: str
    """Its address without the port."""

    received_bytes: int
    explained_bytes: int
    """Bytes of the messages that came out of it, and an allowance for what is around them."""

    messages: int
    is_stranger: bool
    settled_bytes: int = 0
    """Of what it has received, the first so many bytes at least are no part of what gRPC holds for its open calls."""

    old_calls: int = 0
    """Open calls for which gRPC may hold what arrived before the last look."""

    is_flooding: bool = False
    """Whether it has too many calls that have sent nothing of a message."""


class Ended(Struct, frozen=True):
    """A connection that has to end, and why."""

    peer: str
    reason: str
    refused_for: RefusedFor = RefusedFor.LIMIT


@dataclass(slots=True)
class _JudgedConnection:
    since_s: float
    progress_s: float
    """When it last completed a message, or held no part of one."""

    fitting_s: float
    """When it last held no more than its share."""

    received_bytes: int = 0
    explained_bytes: int = 0
    messages: int = 0
    unfinished_bytes: int = 0
    kept_bytes: int = 0
    """Bytes that were unfinished at the last two looks."""

    has_progress: bool = True
    is_stranger: bool = False

    def update(self, sample: Sample, share_bytes: int, message_bytes_max: int, now_s: float) -> None:
        received = sample.received_bytes - self.received_bytes
        explained = sample.explained_bytes - self.explained_bytes
        # An allowance that was not needed is not saved up.
        unfinished = max(0, self.unfinished_bytes + received - explained)
        # gRPC freed what it held of calls that have ended. It holds no more than its open calls can be responsible for.
        unfinished = min(
            unfinished,
            sample.received_bytes - sample.settled_bytes,
            sample.old_calls * max(message_bytes_max, AHEAD_BYTES_MAX) + received,
        )
        self.kept_bytes = min(self.unfinished_bytes, unfinished)
        self.has_progress = sample.messages != self.messages or unfinished < PART_BYTES_MIN
        if self.has_progress:
            self.progress_s = now_s
        if unfinished <= share_bytes:
            self.fitting_s = now_s
        self.received_bytes, self.explained_bytes = sample.received_bytes, sample.explained_bytes
        self.messages, self.unfinished_bytes = sample.messages, unfinished
        self.is_stranger = sample.is_stranger


class ConnectionRules:
    """State of one listener's connections, by peer."""

    def __init__(
        self,
        *,
        connections_max: int,
        message_bytes_max: int,
        login_bytes_max: int | None = None,
        host_max: Callable[[str], int] | None = None,
    ) -> None:
        """Where clients have to log in, a stranger's message has at most `login_bytes_max`.

        `host_max` returns how many connections an address may have; None: as many as there are.
        """
        self._host_max = host_max
        self._crowd = connections_max // 2
        self._nearly_all = connections_max - connections_max // 4
        self._message_bytes_max = message_bytes_max
        self._bytes_max = MESSAGES_MAX * message_bytes_max
        self._share_bytes = CONNECTION_MESSAGES_MAX * message_bytes_max
        self._stranger_share_bytes = CONNECTION_MESSAGES_MAX * (login_bytes_max or message_bytes_max)
        self._strangers_bytes_max = None if login_bytes_max is None else LOGINS_MAX * login_bytes_max
        self._connections: dict[str, _JudgedConnection] = {}
        self.looks_again_soon = False
        """True while there is something that the next look may have to end."""

    @property
    def unfinished_bytes(self) -> int:
        return sum(each.unfinished_bytes for each in self._connections.values())

    def look(self, samples: Sequence[Sample], now_s: float) -> list[Ended]:
        """Take the samples of all open connections; return those to end."""
        before, self._connections = self._connections, {}
        for sample in samples:
            connection = before.get(sample.peer) or _JudgedConnection(since_s=now_s, progress_s=now_s, fitting_s=now_s)
            share_bytes = self._stranger_share_bytes if sample.is_stranger else self._share_bytes
            connection.update(sample, share_bytes, self._message_bytes_max, now_s)
            self._connections[sample.peer] = connection
        is_crowd = len(samples) > self._crowd
        has_strangers = any(each.is_stranger for each in samples)
        self.looks_again_soon = (
            (is_crowd and has_strangers)
            or self.unfinished_bytes > self._share_bytes
            or any(
                each.is_stranger and each.unfinished_bytes > self._stranger_share_bytes
                for each in self._connections.values()
            )
        )
        ended = {each.peer: Ended(each.peer, FLOODED) for each in samples if each.is_flooding}
        ended.update((each.peer, each) for each in self._too_slow(now_s))
        if self._host_max is not None:
            ended.update((each.peer, each) for each in self._too_many_of_host(samples, self._host_max))
        if is_crowd:
            strangers = [each.peer for each in samples if each.is_stranger]
            ended.update((each.peer, each) for each in self._in_the_way(strangers, now_s))
        if self._strangers_bytes_max is not None:
            ended.update(
                (each.peer, each) for each in self._strangers_too_much(ended.keys(), self._strangers_bytes_max)
            )
        ended.update((each.peer, each) for each in self._too_much(ended.keys()))
        return list(ended.values())

    def _too_slow(self, now_s: float) -> Iterable[Ended]:
        for peer, each in self._connections.items():
            if now_s - each.progress_s >= ARRIVAL_S_MAX:
                reason = f"a request had not arrived completely after {ARRIVAL_S_MAX:g} s"
                yield Ended(peer, reason, RefusedFor.SLOW)
            elif now_s - each.fitting_s >= OVERFULL_S_MAX:
                share_bytes = self._stranger_share_bytes if each.is_stranger else self._share_bytes
                yield Ended(peer, f"its unfinished requests are larger than {share_bytes} bytes")

    def _too_many_of_host(self, samples: Iterable[Sample], host_max: Callable[[str], int]) -> Iterable[Ended]:
        """Yield what an address has beyond its limit: what came last, and of that strangers first."""
        by_host: defaultdict[str, list[Sample]] = defaultdict(list)
        for sample in samples:
            by_host[sample.host].append(sample)
        for host, of_host in by_host.items():
            if len(of_host) > (most := host_max(host)):
                of_host.sort(key=lambda each: (self._connections[each.peer].since_s, each.is_stranger))
                for each in of_host[most:]:
                    yield Ended(each.peer, too_many_of_address(host, most))

    def _in_the_way(self, strangers: Iterable[str], now_s: float) -> Iterable[Ended]:
        too_many = len(self._connections) - self._nearly_all
        # A node that is about to prove itself has sent a message, which most in a flood have not.
        for number, peer in enumerate(sorted(strangers, key=self._silence)):
            allowed_s = STRANGER_S_MIN if number < too_many else STRANGER_S_MAX
            if now_s - self._connections[peer].since_s >= allowed_s:
                yield Ended(peer, f"it sent nothing while there were more than {self._crowd} connections")

    def _silence(self, peer: str) -> tuple[bool, float]:
        connection = self._connections[peer]
        return connection.messages > 0, connection.since_s

    def _strangers_too_much(self, ended: Iterable[str], bytes_max: int) -> Iterable[Ended]:
        """Yield strangers until the rest of them keeps no more than allowed: those first that keep the most."""
        gone = set(ended)
        left = [(peer, each) for peer, each in self._connections.items() if peer not in gone and each.is_stranger]
        kept = sum(each.kept_bytes for _, each in left)
        for peer, each in sorted(left, key=lambda one: -one[1].kept_bytes):
            if kept <= bytes_max:
                return
            kept -= each.kept_bytes
            yield Ended(peer, "unfinished requests of clients that have not logged in fill their memory budget")

    def _too_much(self, ended: Iterable[str]) -> Iterable[Ended]:
        """Yield connections until the rest keeps no more than allowed: those first that completed no message.

        The others may just be busy, and end only when all together keep twice as much.
        """
        gone = set(ended)
        # A message that only began to arrive since the last look is not kept: its connection's end would free nothing.
        left = [(peer, each) for peer, each in self._connections.items() if peer not in gone and each.kept_bytes]
        kept = sum(each.kept_bytes for _, each in left)
        for peer, each in sorted(left, key=lambda one: (one[1].has_progress, -one[1].kept_bytes)):
            if kept <= self._bytes_max * (1 + each.has_progress):
                return
            kept -= each.kept_bytes
            yield Ended(peer, "unfinished requests of all clients fill their memory budget")
