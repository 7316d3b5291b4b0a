from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.log.format.record_batch import Buffer
from kraft.rpc.frame_connection import (
    JOINED_BYTES_MAX,
    KEEPALIVE_COUNT_MAX,
    KEEPALIVE_IDLE_S,
    KEEPALIVE_INTERVAL_S,
    SCRATCH_BYTES,
    UNACKNOWLEDGED_MS_MAX,
    FrameConnection,
    set_keepalive,
)

FRAME_BYTES_MAX = 300_000


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.is_aborted = False
        self.is_closed = False

    def write(self, data: Buffer) -> None:
        self.written.append(bytes(data))

    def abort(self) -> None:
        self.is_aborted = True

    def close(self) -> None:
        self.is_closed = True


class End:
    """One end of a connection, and what came to it."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.reasons: list[str] = []
        self.transport = Transport()
        self.connection = FrameConnection(
            frame_bytes_max=FRAME_BYTES_MAX,
            received=lambda frame: self.frames.append(bytes(frame)),
            ended=self.reasons.append,
            may_write=lambda: None,
        )
        self.connection.connection_made(self.transport)

    def feed(self, data: bytes, sizes: Sequence[int] = ()) -> None:
        """Receive the data in pieces: of these sizes, as far as there is room, and then as large as possible."""
        wanted = iter(sizes)
        while data and not self.reasons:
            room = cast(Any, self.connection.get_buffer(-1))
            count = min(len(room), len(data), next(wanted, len(data)))
            room[:count] = data[:count]
            self.connection.buffer_updated(count)
            data = data[count:]


def sent(*frames: bytes) -> bytes:
    end = End()
    for frame in frames:
        end.connection.send([frame])
    return b"".join(end.transport.written)


@given(
    st.lists(st.integers(0, 200).map(lambda size: b"f" * size), max_size=8),
    st.lists(st.integers(1, 50), max_size=60),
)
def test_frames_arrive_whole_however_their_bytes_are_split(frames: list[bytes], sizes: list[int]) -> None:
    end = End()
    end.feed(sent(*frames), sizes)
    assert end.frames == frames


@pytest.mark.parametrize("size", [SCRATCH_BYTES - 5, SCRATCH_BYTES - 4, SCRATCH_BYTES, JOINED_BYTES_MAX, 250_000])
def test_large_frames_between_small_ones_arrive_whole(size: int) -> None:
    large = bytes(range(250)) * (size // 250 + 1)
    frames = [b"a", large[:size], b"", large[:size], b"b"]
    end = End()
    end.feed(sent(*frames))
    assert end.frames == frames


def test_small_pieces_are_sent_together_and_large_ones_alone() -> None:
    end = End()
    end.connection.send([b"head", b"small"])
    assert end.transport.written == [b"\0\0\0\x09headsmall"]
    end.transport.written.clear()
    large = bytes(JOINED_BYTES_MAX + 1)
    end.connection.send([b"head", large, b"between", large])
    assert [len(piece) for piece in end.transport.written] == [8, len(large), 7, len(large), 0]


def test_a_frame_above_the_limit_ends_the_connection_before_it_takes_memory() -> None:
    end = End()
    end.feed((FRAME_BYTES_MAX + 1).to_bytes(4, "big") + b"more")
    assert end.reasons == [f"a frame of {FRAME_BYTES_MAX + 1} bytes is larger than {FRAME_BYTES_MAX}"]
    assert end.transport.is_aborted
    end.connection.send([b"too late"])
    assert end.transport.written == []


def test_the_end_is_reported_once() -> None:
    end = End()
    end.connection.connection_lost(None)
    end.connection.abort("again")
    assert end.reasons == ["the other end closed the connection"]


def test_the_kernel_is_asked_to_notice_a_peer_that_is_gone() -> None:
    with socket.socket() as connection:
        set_keepalive(connection)
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT)
        assert [connection.getsockopt(socket.IPPROTO_TCP, option) for option in options] == [
            KEEPALIVE_IDLE_S,
            KEEPALIVE_INTERVAL_S,
            KEEPALIVE_COUNT_MAX,
            UNACKNOWLEDGED_MS_MAX,
        ]


def test_a_close_is_the_end_but_drops_nothing_that_was_sent() -> None:
    end = End()
    end.connection.send([b"last"])
    end.connection.close("done")
    end.connection.send([b"too late"])
    assert end.transport.written == [b"\0\0\0\x04last"]
    assert (end.transport.is_closed, end.transport.is_aborted) == (True, False)
    assert end.reasons == ["done"]
