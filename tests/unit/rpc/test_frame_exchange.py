"""The asking end of an exchange on a connection of its own, without a socket."""

from __future__ import annotations

from kraft.rpc.cluster_calls import REPLICA_FETCH
from kraft.rpc.frame_connection import SIZE_BYTES
from kraft.rpc.frame_exchange import FRAMES_WAITING_MAX, FrameStream
from tests.unit.rpc.paused_transport import PausedTransport


async def test_a_connection_is_read_again_only_when_fewer_frames_wait() -> None:
    stream, transport, beyond = FrameStream("broker:9092", REPLICA_FETCH), PausedTransport(), 3
    stream.connection.connection_made(transport)
    frames = [b"frame %d" % number for number in range(FRAMES_WAITING_MAX + beyond)]
    data = b"".join(len(each).to_bytes(SIZE_BYTES, "big") + each for each in frames)
    # All of them are in one read, so the connection gets more than it wants.
    stream.connection.get_buffer(-1)[: len(data)] = data
    stream.connection.buffer_updated(len(data))
    for each in frames[: beyond + 1]:
        assert transport.is_paused
        assert await stream.frame() == each
    assert not transport.is_paused
    await stream.close()
