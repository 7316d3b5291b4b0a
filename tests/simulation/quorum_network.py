"""The network between simulated voters: packets that are slow, lost or duplicated, and partitions.

A link replaces the gRPC stream that one voter opens to another. Its messages are encoded and decoded as on the wire. It
is harsher than a stream: packets overtake each other, and arrive after the death of the processes that sent them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import copy_context
from dataclasses import dataclass
from random import Random
from typing import Protocol

from kraft.quorum.frames import from_frame, to_frames
from kraft.quorum.handshake import Greeting, Greetings
from kraft.quorum.messages import Message, size_bytes
from kraft.quorum.pb import raft_pb2
from tests.simulation.quorum_loop import Life, VirtualLoop

CONNECT_DELAY_S_MAX = 0.05
RETRY_DELAY_S = 0.1
CHECK_PERIOD_S = 0.25
SILENT_CHECKS_MAX = 4


@dataclass(slots=True)
class Weather:
    """The faults of packets: delays in seconds, the rest as probabilities."""

    delay_s_min: float = 0.001
    delay_s_max: float = 0.005
    loss: float = 0.0
    repetition: float = 0.0
    straggling: float = 0.0
    straggler_delay_s_max: float = 1.5


class Receiver(Protocol):
    """A running voter."""

    life: Life

    def receive(self, sender: int, messages: list[Message]) -> None: ...

    def greeting(self) -> Greeting: ...

    def greet(self, sender: int, greeting: Greeting) -> None: ...


class Network:
    def __init__(self, loop: VirtualLoop, random: Random) -> None:
        self.weather = Weather()
        self.cuts: set[tuple[int, int]] = set()
        """Pairs of sender and receiver that are partitioned."""
        self.receivers: dict[int, Receiver] = {}
        """The running voters, by node id."""
        self.link_bytes_per_s = 0
        """Bandwidth of a link; 0 for unlimited."""
        self.link_window_bytes = 1 << 60
        self.packets_sent = 0
        self.packets_lost = 0
        self.on_send: Callable[[int, int, Message], None] | None = None
        self.loop = loop
        self.random = random
        self._context = copy_context()

    def isolate(self, node_id: int, among: Iterable[int]) -> None:
        self.deafen(node_id, among)
        self.silence(node_id, among)

    def deafen(self, node_id: int, among: Iterable[int]) -> None:
        self.cuts |= {(other, node_id) for other in among if other != node_id}

    def silence(self, node_id: int, among: Iterable[int]) -> None:
        self.cuts |= {(node_id, other) for other in among if other != node_id}

    def heal(self) -> None:
        self.cuts.clear()
        self.weather = Weather()

    def reaches(self, sender: int, receiver: int) -> bool:
        return (sender, receiver) not in self.cuts

    def send(self, sender: int, receiver: int, messages: list[Message]) -> None:
        if self.on_send is not None:
            for message in messages:
                self.on_send(sender, receiver, message)
        for frame in to_frames(messages):
            self._send_packet(sender, receiver, frame.SerializeToString())

    def _send_packet(self, sender: int, receiver: int, packet: bytes) -> None:
        weather, random = self.weather, self.random
        self.packets_sent += 1
        if not self.reaches(sender, receiver) or random.random() < weather.loss:
            self.packets_lost += 1
            return
        for _ in range(2 if random.random() < weather.repetition else 1):
            delay_s = random.uniform(weather.delay_s_min, weather.delay_s_max)
            if random.random() < weather.straggling:
                delay_s = random.uniform(delay_s, weather.straggler_delay_s_max)
            self.loop.call_later(delay_s, self._arrive, sender, receiver, packet, context=self._context)

    def _arrive(self, sender: int, receiver: int, packet: bytes) -> None:
        voter = self.receivers.get(receiver)
        if voter is None or not self.reaches(sender, receiver):
            self.packets_lost += 1
            return
        voter.receive(sender, from_frame(raft_pb2.RaftFrame.FromString(packet)))


class SimLink:
    """Replaces `kraft.quorum.peer_link.PeerLink`; belongs to the context of the voter that dials."""

    refusal = ""
    """All voters of a simulation have the same settings."""

    def __init__(
        self,
        network: Network,
        life: Life,
        peer_id: int,
        on_up: Callable[[int], None],
        on_down: Callable[[int], None],
        on_room: Callable[[int], None],
        greetings: Greetings,
    ) -> None:
        self.peer_id = peer_id
        self._greetings = greetings
        self._network = network
        self._life = life
        self._on_up = on_up
        self._on_down = on_down
        self._on_room = on_room
        self._unsent_bytes = 0
        self._is_full = False
        self._busy_until_s = 0.0
        self._connection = 0
        self.is_up = False
        self.unsent_bytes_max = 0
        self._has_written = False
        self._silent_checks = 0

    def start(self) -> None:
        self._network.loop.call_later(self._network.random.uniform(0, CONNECT_DELAY_S_MAX), self._connect)
        self._network.loop.call_later(CHECK_PERIOD_S, self._check)

    async def stop(self) -> None:
        """Do nothing: a simulated voter is only killed."""

    def send(self, messages: list[Message]) -> None:
        if not self.is_up:
            return
        self._has_written = True
        rate = self._network.link_bytes_per_s
        if not rate:
            self._network.send(self._life.node_id, self.peer_id, messages)
            return
        loop = self._network.loop
        for message in messages:
            size = size_bytes(message)
            self._unsent_bytes += size
            self.unsent_bytes_max = max(self.unsent_bytes_max, self._unsent_bytes)
            self._busy_until_s = max(self._busy_until_s, loop.now_s) + size / rate
            loop.call_at(self._busy_until_s, self._written, self._connection, message, size)
        self._is_full |= self.room_bytes <= 0

    def _written(self, connection: int, message: Message, size: int) -> None:
        if connection != self._connection:
            return
        self._network.send(self._life.node_id, self.peer_id, [message])
        self._unsent_bytes -= size
        if self._is_full and self._unsent_bytes <= self._network.link_window_bytes // 2:
            self._is_full = False
            self._on_room(self.peer_id)

    @property
    def room_bytes(self) -> int:
        return self._network.link_window_bytes - self._unsent_bytes

    def heard(self) -> None:
        self._silent_checks = 0

    def hello_received(self) -> None:
        self.heard()
        if not self.is_up:
            self._connect()

    def reset(self) -> None:
        """Reset the connection: no process listens on the other machine."""
        self._down()

    def _connect(self) -> None:
        if self.is_up:
            return
        there, back = (self._life.node_id, self.peer_id), (self.peer_id, self._life.node_id)
        peer = self._network.receivers.get(self.peer_id)
        if peer is None or peer.life.frozen_until_s > self._network.loop.now_s or not self._is_open(there, back):
            self._network.loop.call_later(RETRY_DELAY_S, self._connect)
            return
        self.is_up = True
        self._silent_checks = 0
        # As in a handshake: each side hears the other's greeting before any message of this connection.
        greeting = self._greetings.ours()
        self._greetings.received(self.peer_id, peer.greeting())
        self._on_up(self.peer_id)
        peer.greet(self._life.node_id, greeting)

    def _is_open(self, *directions: tuple[int, int]) -> bool:
        return all(self._network.reaches(*direction) for direction in directions)

    def _check(self) -> None:
        self._network.loop.call_later(CHECK_PERIOD_S, self._check)
        if not self.is_up:
            return
        self._silent_checks += 1
        if self._silent_checks >= SILENT_CHECKS_MAX:
            self._down()
        elif not self._has_written:
            self._network.send(self._life.node_id, self.peer_id, [])
        self._has_written = False

    def _down(self) -> None:
        if self.is_up:
            self.is_up = False
            self._connection += 1
            self._unsent_bytes, self._is_full, self._busy_until_s = 0, False, 0.0
            self._on_down(self.peer_id)
            self._network.loop.call_later(RETRY_DELAY_S, self._connect)
