"""Limits of what a connection receives, which change when its client logs in."""

from __future__ import annotations

import pytest

from kraft.server.kafka_listener.frame_buffer import BadFrame, FrameSizes
from kraft.server.kafka_listener.large_requests import OTHER_SHARE, LargeRequests
from kraft.server.kafka_listener.receive_buffer import ReceiveBuffer, ReceiveLimits
from kraft.server.kafka_listener.receive_memory import ReceiveMemory

FRAME_BYTES_MAX = 100_000


class Limits:
    """Those of clients and of strangers, and buffers that share them."""

    def __init__(self) -> None:
        self.memory, self.strangers = ReceiveMemory(8 * FRAME_BYTES_MAX), ReceiveMemory(FRAME_BYTES_MAX)
        self.of_clients = ReceiveLimits(FrameSizes(FRAME_BYTES_MAX), self.memory, LargeRequests(FRAME_BYTES_MAX))
        sizes = FrameSizes(1_000, "sasl.server.max.receive.size", bytes_min=0)
        self.of_strangers = ReceiveLimits(sizes, self.strangers, None)
        self._scratch = memoryview(bytearray(4_096))

    def buffer(self, limits: ReceiveLimits) -> ReceiveBuffer:
        buffer = ReceiveBuffer(self._scratch, self.of_clients, lambda: None)
        buffer.change_limits(limits)
        return buffer


def frame(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def feed(buffer: ReceiveBuffer, data: bytes) -> list[bytes]:
    """Receive the bytes; return the complete frames."""
    found = []
    while data and buffer.make_room():
        room = buffer.room()
        count = min(len(room), len(data))
        room[:count] = data[:count]
        data = data[count:]
        if buffer.received(count):
            while (whole := buffer.next_frame()) is not None:
                found.append(bytes(whole))
            buffer.keep_rest()
    return found


def test_what_a_stranger_sent_counts_among_what_clients_send_once_it_has_logged_in() -> None:
    limits = Limits()
    buffer = limits.buffer(limits.of_strangers)
    assert feed(buffer, frame(b"") + frame(b"x" * 900)) == [b"", b"x" * 900], "raw tokens may be short, or empty"
    assert feed(buffer, frame(b"y" * 300)[:200]) == []
    assert (limits.strangers.held_bytes, limits.memory.held_bytes) == (200, 0)
    buffer.change_limits(limits.of_clients)
    assert (limits.strangers.held_bytes, limits.memory.held_bytes) == (0, 200)
    assert feed(buffer, frame(b"y" * 300)[200:] + frame(b"z" * 2_000)) == [b"y" * 300, b"z" * 2_000]
    assert limits.memory.held_bytes == 0


def test_a_stranger_sends_no_more_than_it_may() -> None:
    limits = Limits()
    with pytest.raises(BadFrame, match=r"1001 bytes: must have 0 to 1000 \(sasl.server.max.receive.size\)"):
        feed(limits.buffer(limits.of_strangers), frame(b"x" * 1_001)[:10])


def test_what_strangers_send_waits_for_no_turn_of_others() -> None:
    limits = Limits()
    large = frame(b"\0\x24" + bytes(FRAME_BYTES_MAX // OTHER_SHARE))
    assert len(feed(limits.buffer(limits.of_clients), large)) == 1, "it has the turn"
    stranger = limits.buffer(limits.of_strangers)
    assert len(feed(stranger, large)) == 1
    assert not stranger.has_turn
