from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.server.kafka_listener.frame_buffer import SIZE_BYTES, BadFrame, FrameSizes
from kraft.server.kafka_listener.large_requests import OTHER_SHARE, LargeRequests
from kraft.server.kafka_listener.receive_buffer import JOINED_BYTES_MAX, ReceiveBuffer, ReceiveLimits
from kraft.server.kafka_listener.receive_memory import SMALL_BYTES_MAX, ReceiveMemory
from kraft.server.kafka_listener.receive_pace import (
    ARRIVED_BYTES_MIN,
    KEPT_BYTES_MIN,
    ROOM_BYTES_MIN,
    ROOM_PART,
    SLOW_CHECKS_MAX,
)
from kraft.wire.api_keys import ApiKey

FRAME_BYTES_MAX = 100_000


class Connections:
    """Buffers that share one scratch and one budget, as those of one listener do."""

    def __init__(self, scratch_bytes: int = 4_096, budget_bytes: int = FRAME_BYTES_MAX) -> None:
        self.scratch = memoryview(bytearray(scratch_bytes))
        # Nearly all requests here are small ones.
        self.memory = ReceiveMemory(8 * budget_bytes)
        self.large = LargeRequests(FRAME_BYTES_MAX)
        self.granted: list[int] = []

    def new(self, number: int = 0) -> ReceiveBuffer:
        limits = ReceiveLimits(FrameSizes(FRAME_BYTES_MAX), self.memory, self.large)
        return ReceiveBuffer(self.scratch, limits, lambda: self.granted.append(number))


def frame(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big", signed=True) + content


def taken(buffer: ReceiveBuffer) -> bytes | None:
    frame = buffer.next_frame()
    return None if frame is None else bytes(frame)


def feed(buffer: ReceiveBuffer, data: bytes, step: int | None = None) -> list[bytes]:
    """Receive the bytes in pieces, as large as the room and at most `step`; return the complete frames."""
    found = []
    while data and buffer.make_room():
        room = buffer.room()
        count = min(len(room), len(data), step or len(data))
        room[:count] = data[:count]
        data = data[count:]
        if not buffer.received(count):
            continue
        while (whole := taken(buffer)) is not None:
            found.append(whole)
        buffer.keep_rest()
    assert not data, "there was no room"
    return found


@given(st.lists(st.binary(min_size=8, max_size=20_000), max_size=8), st.integers(1, 9_000))
def test_frames_come_out_as_they_went_in_however_they_are_cut(contents: list[bytes], step: int) -> None:
    connections = Connections()
    buffer = connections.new()
    assert feed(buffer, b"".join(map(frame, contents)), step) == contents
    assert not buffer.frames.is_partial
    assert connections.memory.held_bytes == 0


def test_a_large_frame_is_looked_at_when_it_is_whole_and_not_before() -> None:
    buffer = Connections().new()
    data = frame(bytes(50_000)) + frame(b"behind it")
    looked_at, arrived = [], 0
    while arrived < len(data):
        assert buffer.make_room()
        room = buffer.room()
        count = min(1_000, len(room), len(data) - arrived)
        room[:count] = data[arrived : arrived + count]
        arrived += count
        if buffer.received(count):
            looked_at.append(arrived)
            while taken(buffer) is not None:
                pass
            buffer.keep_rest()
    # At its beginning, when it got the memory for all of it, and when it was complete; then the next one.
    assert looked_at == [1_000, 4_000, SIZE_BYTES + 50_000, len(data)]


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(SMALL_BYTES_MAX, FRAME_BYTES_MAX - 2)), max_size=6))
def test_memory_that_is_used_again_mixes_nothing_up(sizes: list[tuple[int, int]]) -> None:
    """Frames of two connections arrive in turns: the second half of one while the other receives its own."""
    connections = Connections(budget_bytes=10 * FRAME_BYTES_MAX)
    buffers = [connections.new(), connections.new()]
    sent: list[list[bytes]] = [[], []]
    found: list[list[bytes]] = [[], []]
    rests = [b"", b""]
    for number, (which, size) in enumerate(sizes):
        # These are Produce requests, which do not wait for a turn.
        sent[which].append(bytes(2) + bytes([number]) * size)
        data = rests[which] + frame(sent[which][-1])
        half = len(data) - size // 2
        found[which] += feed(buffers[which], data[:half])
        rests[which] = data[half:]
    for which in (0, 1):
        found[which] += feed(buffers[which], rests[which])
    assert found == sent


def test_frames_that_arrive_together_and_whole_are_not_copied() -> None:
    connections = Connections()
    buffer = connections.new()
    data = frame(b"first one") + frame(b"second one")
    buffer.room()[: len(data)] = data
    buffer.received(len(data))
    first = buffer.next_frame()
    assert first is not None
    assert first.obj is connections.scratch.obj
    assert taken(buffer) == b"second one"
    assert buffer.next_frame() is None


def test_a_rest_that_waits_in_the_socket_is_received_with_the_frames_after_it() -> None:
    connections = Connections(scratch_bytes=ROOM_BYTES_MIN)
    one, other = connections.new(1), connections.new(2)
    sent = [bytes([number]) * 60_000 for number in range(12)]
    data = b"".join(map(frame, sent))
    found = feed(one, data[:ROOM_BYTES_MIN])
    assert len(found) == 4
    assert feed(other, frame(b"a whole frame of the other")) == [b"a whole frame of the other"]
    assert one.make_room()
    rest_bytes = ROOM_BYTES_MIN - 4 * (SIZE_BYTES + 60_000)
    assert len(one.room()) == ROOM_BYTES_MIN - rest_bytes
    assert connections.memory.held_bytes == rest_bytes, "not the room for a whole frame"
    assert found + feed(one, data[ROOM_BYTES_MIN:]) == sent
    assert connections.memory.held_bytes == 0


@pytest.mark.parametrize("frame_bytes", [60_000, 70_000])
def test_a_rest_gets_memory_of_its_own_if_its_frame_is_large_or_no_more_waits(frame_bytes: int) -> None:
    connections = Connections(scratch_bytes=ROOM_BYTES_MIN)
    buffer = connections.new()
    data = b"".join(frame(bytes(frame_bytes)) for _ in range(4))
    first = ROOM_BYTES_MIN if frame_bytes > JOINED_BYTES_MAX else ROOM_BYTES_MIN - 30_000
    feed(buffer, data[:first])
    assert buffer.make_room()
    assert len(buffer.room()) < frame_bytes
    feed(buffer, data[first:])
    assert buffer.frames.is_empty


def test_a_rest_gets_memory_of_its_own_while_memory_is_used_up() -> None:
    connections = Connections(scratch_bytes=ROOM_BYTES_MIN, budget_bytes=100_000)
    buffer, other = connections.new(1), connections.new(2)
    data = b"".join(frame(bytes([number]) * 60_000) for number in range(5))
    found = feed(buffer, data[:ROOM_BYTES_MIN])
    connections.memory.small.hold(other, 200_000)
    assert buffer.make_room()
    assert len(buffer.room()) == SIZE_BYTES + 60_000 - (ROOM_BYTES_MIN - 4 * (SIZE_BYTES + 60_000))
    assert len(found + feed(buffer, data[ROOM_BYTES_MIN:])) == 5


def test_a_rest_is_not_received_ahead_of_those_that_wait_for_memory() -> None:
    connections = Connections(scratch_bytes=ROOM_BYTES_MIN, budget_bytes=100_000)
    buffer, small, given = connections.new(), connections.memory.small, list[str]()
    assert len(feed(buffer, (frame(bytes(60_000)) * 5)[:ROOM_BYTES_MIN])) == 4
    for name, size_bytes in (("gone", 60_000), ("beyond", 50_000)):
        assert small.claim(name, size_bytes, lambda: given.append("too late"))
    assert not small.claim("waiting", 80_000, lambda: given.append("waiting"))
    small.release("gone")
    assert not connections.memory.is_used_up
    assert not buffer.make_room()
    small.release("beyond")
    assert given == ["waiting"]


def test_what_was_taken_is_released_before_a_rest_is_received_with_the_frames_after_it() -> None:
    connections = Connections(scratch_bytes=ROOM_BYTES_MIN, budget_bytes=8 * FRAME_BYTES_MAX)
    buffer = connections.new()
    whole, begun = frame(bytes(1_020)), frame(b"b" * 60_000)
    count = ROOM_BYTES_MIN // len(whole) - 1
    buffer.room()[:] = whole * count + begun[: len(whole)]
    buffer.received(ROOM_BYTES_MIN)
    assert buffer.next_frame() is not None
    buffer.keep_rest()
    for _ in range(count - 1):
        assert buffer.next_frame() is not None
    buffer.keep_rest()
    assert buffer.make_room()
    assert connections.memory.held_bytes <= 60_000 + SIZE_BYTES
    assert feed(buffer, begun[len(whole) :] + whole) == [b"b" * 60_000, bytes(1_020)]


def test_a_rest_is_received_in_little_room_if_memory_was_used_up_meanwhile() -> None:
    connections = Connections(scratch_bytes=ROOM_BYTES_MIN, budget_bytes=8 * FRAME_BYTES_MAX)
    buffer, other = connections.new(1), connections.new(2)
    data = b"".join(frame(bytes([number]) * 60_000) for number in range(5))
    found = feed(buffer, data[:ROOM_BYTES_MIN])
    assert buffer.make_room()
    connections.memory.small.hold(other, connections.memory.small.size_max)
    assert len(buffer.room()) == KEPT_BYTES_MIN
    assert len(found + feed(buffer, data[ROOM_BYTES_MIN:])) == 5


def test_no_more_is_received_at_once_without_a_full_read() -> None:
    connections = Connections(scratch_bytes=8 * ROOM_BYTES_MIN, budget_bytes=64 * FRAME_BYTES_MAX)
    buffer = connections.new()
    whole = frame(bytes(1_020))
    feed(buffer, whole * (ROOM_BYTES_MIN // len(whole)))
    for _ in range(3):
        feed(buffer, whole)
        buffer.keep_rest()
    assert len(buffer.room()) == 2 * ROOM_BYTES_MIN


def test_no_more_is_received_at_once_than_a_part_of_the_memory_that_is_left() -> None:
    connections = Connections(scratch_bytes=8 * ROOM_BYTES_MIN, budget_bytes=64 * FRAME_BYTES_MAX)
    buffer, other, large = connections.new(1), connections.new(2), connections.memory.large
    whole = frame(bytes(1_020))
    for _ in range(4):
        feed(buffer, whole * (len(buffer.room()) // len(whole)))
    assert len(buffer.room()) == 8 * ROOM_BYTES_MIN
    large.hold(other, large.size_max - ROOM_PART * (ROOM_BYTES_MIN + 1_024))
    assert len(buffer.room()) == ROOM_BYTES_MIN + 1_024
    large.hold(other, large.size_max - 1)
    assert len(buffer.room()) == ROOM_BYTES_MIN


def test_more_is_received_at_once_while_every_frame_is_taken() -> None:
    connections = Connections(scratch_bytes=4 * ROOM_BYTES_MIN, budget_bytes=64 * FRAME_BYTES_MAX)
    buffer = connections.new()
    whole = frame(bytes(1_020))
    rooms = []
    for _ in range(4):
        rooms.append(len(buffer.room()))
        feed(buffer, whole * (rooms[-1] // len(whole)))
    assert rooms == [ROOM_BYTES_MIN, 2 * ROOM_BYTES_MIN, 4 * ROOM_BYTES_MIN, 4 * ROOM_BYTES_MIN]
    feed(buffer, whole)
    assert len(buffer.room()) == 4 * ROOM_BYTES_MIN, "a read that is not full changes nothing"
    data = whole * (len(buffer.room()) // len(whole))
    buffer.room()[:] = data
    buffer.received(len(data))
    for _ in range(len(data) // len(whole) - 1):
        assert buffer.next_frame() is not None
    buffer.keep_rest()
    assert not buffer.make_room(), "a complete frame stays behind"
    assert buffer.next_frame() is not None
    buffer.keep_rest()
    assert len(buffer.room()) == ROOM_BYTES_MIN


def test_what_is_left_over_survives_other_connections() -> None:
    connections = Connections()
    one, other = connections.new(1), connections.new(2)
    assert feed(one, frame(b"begun by one")[:9]) == []
    assert feed(other, frame(b"a whole frame of the other")) == [b"a whole frame of the other"]
    assert feed(one, frame(b"begun by one")[9:]) == [b"begun by one"]


def test_whole_frames_wait_for_their_turn() -> None:
    buffer = Connections().new()
    data = frame(b"first one") + frame(b"second one")
    buffer.room()[: len(data)] = data
    buffer.received(len(data))
    assert taken(buffer) == b"first one"
    buffer.keep_rest()
    assert not buffer.frames.is_partial
    assert not buffer.make_room(), "nothing more is read as long as one waits"
    assert taken(buffer) == b"second one"
    buffer.keep_rest()
    assert not buffer.frames.is_partial


@pytest.mark.parametrize("size", [-1, 0, 7, FRAME_BYTES_MAX + 1])
def test_a_size_that_no_request_has_is_refused(size: int) -> None:
    buffer = Connections().new()
    with pytest.raises(BadFrame, match=rf"request of {size} bytes"):
        feed(buffer, size.to_bytes(4, "big", signed=True))


def test_a_claimed_size_costs_no_more_than_what_came_is_worth() -> None:
    connections = Connections()
    buffer = connections.new()
    feed(buffer, FRAME_BYTES_MAX.to_bytes(4, "big") + bytes(16))
    assert buffer.make_room()
    assert connections.memory.held_bytes == KEPT_BYTES_MIN


def test_a_frame_that_grows_is_there_twice_in_a_quarter_of_its_room_at_most() -> None:
    connections = Connections(scratch_bytes=512, budget_bytes=FRAME_BYTES_MAX)
    buffer, lent = connections.new(), [0]
    data = frame(bytes(65_536))
    while data and buffer.make_room():
        if connections.memory.held_bytes != lent[-1]:
            lent.append(connections.memory.held_bytes)
        feed(buffer, data[:512])
        data = data[512:]
    assert lent[-1] == SIZE_BYTES + 65_536
    assert lent[-2] <= lent[-1] / 4


def test_a_connection_without_memory_waits_until_it_has_enough() -> None:
    connections = Connections(budget_bytes=5_000)
    first, second, third = connections.new(1), connections.new(2), connections.new(3)
    large = frame(bytes(50_000))
    # The first that was not granted memory has priority, so that at least one finishes.
    feed(first, large[:4_000])
    assert first.make_room()
    feed(second, large[:1_000])
    feed(third, large[:1_000])
    assert not second.make_room()
    assert not third.make_room()
    assert feed(first, large[4_000:]) == [bytes(50_000)]
    assert connections.granted == [2, 3]
    assert second.make_room()
    assert third.make_room(), "now it has the right of way"
    assert feed(third, large[1_000:]) == [bytes(50_000)]


def test_while_the_budget_is_used_up_little_is_read_at_a_time() -> None:
    connections = Connections(budget_bytes=2_000)
    feed(connections.new(1), frame(bytes(5_000))[:3_000])
    buffer = connections.new(2)
    assert len(buffer.room()) == KEPT_BYTES_MIN
    assert feed(buffer, frame(b"small, and whole")) == [b"small, and whole"]


def test_a_connection_that_goes_on_and_on_keeps_no_right_of_way() -> None:
    connections = Connections(budget_bytes=3_000)
    busy, other = connections.new(1), connections.new(2)
    large = frame(bytes(9_000))
    feed(busy, large + large[:3_500])
    feed(other, large[:1_000])
    assert busy.make_room()
    assert not other.make_room()
    assert feed(busy, large[3_500:] + large[:10]) == [bytes(9_000)]
    assert connections.granted == [2]
    assert other.make_room()


def test_a_large_frame_is_kept_until_it_is_its_turn_and_what_follows_it_too() -> None:
    connections = Connections(scratch_bytes=16_000)
    one, other = connections.new(1), connections.new(2)
    large = b"\0\3" + bytes(FRAME_BYTES_MAX // OTHER_SHARE)
    assert feed(one, frame(large)) == [large]
    assert one.has_turn
    assert feed(other, frame(large) + frame(b"it follows")) == []
    assert not other.frames.is_partial, "it is all there, and nobody keeps us waiting"
    assert not other.make_room(), "nothing more is read meanwhile"
    assert connections.memory.held_bytes > len(large)
    one.finished()
    assert connections.granted == [2]
    assert taken(other) == large
    assert taken(other) == b"it follows"
    other.keep_rest()
    other.finished()
    assert (connections.large.others.held, connections.memory.held_bytes) == (0, 0)


@pytest.mark.parametrize("key", [ApiKey.PRODUCE, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP])
def test_records_and_members_that_others_wait_for_are_never_kept_back(key: ApiKey) -> None:
    connections = Connections(scratch_bytes=16_000)
    large = key.to_bytes(2, "big") + bytes(10_000)
    assert [feed(connections.new(number), frame(large)) for number in range(3)] == [[large]] * 3
    assert connections.large.others.held == 0


def test_taking_a_frame_without_a_turn_ends_the_turn_of_the_one_before() -> None:
    connections = Connections(scratch_bytes=16_000)
    one = connections.new(1)
    large, join = b"\0\3" + bytes(1_000), b"\0\x0b" + bytes(1_000)
    assert feed(one, frame(large) + frame(join)) == [large, join]
    assert connections.large.others.held == 0


def test_taking_the_next_large_frame_ends_the_turn_of_the_one_before() -> None:
    connections = Connections(scratch_bytes=16_000)
    one, other = connections.new(1), connections.new(2)
    large = b"\0\3" + bytes(FRAME_BYTES_MAX // OTHER_SHARE)
    assert feed(one, frame(large)) == [large]
    assert feed(other, frame(large)) == []
    assert feed(one, frame(large)) == [], "the other one is first"
    assert taken(other) == large
    other.finished()
    assert taken(one) == large


def test_small_requests_do_not_wait_for_the_memory_of_large_ones() -> None:
    connections = Connections(budget_bytes=20_000)
    large = frame(bytes(SMALL_BYTES_MAX + 1))
    holders = [connections.new(number) for number in range(20)]
    for holder in holders:
        feed(holder, large[:900])
    assert [holder.make_room() for holder in holders].count(False) > 0
    small = frame(bytes(16_000))
    assert feed(connections.new(), small, 1_000) == [bytes(16_000)]


def test_a_large_request_whose_size_arrives_in_two_pieces_takes_no_memory_of_small_ones() -> None:
    connections = Connections()
    buffer = connections.new()
    large = frame(bytes(SMALL_BYTES_MAX + 1))
    feed(buffer, large[:2])
    feed(buffer, large[2:2_000])
    assert buffer.make_room()
    assert connections.memory.small.held == 0
    assert connections.memory.large.held >= 2_000
    assert feed(buffer, large[2_000:]) == [bytes(SMALL_BYTES_MAX + 1)]


def test_a_request_that_hardly_goes_on_is_slow_when_others_wait_for_its_memory() -> None:
    connections = Connections(budget_bytes=5_000)
    lazy, busy = connections.new(1), connections.new(2)
    large = frame(bytes(50_000))
    feed(lazy, large[:4_000])
    assert lazy.make_room(), "with the right of way"
    assert [lazy.is_slow() for _ in range(5)] == [False] * 5, "nobody else wants the memory"
    feed(busy, large[:1_000])
    assert not busy.make_room()
    assert [lazy.is_slow() for _ in range(SLOW_CHECKS_MAX)] == [False] * (SLOW_CHECKS_MAX - 1) + [True]
    assert [busy.is_slow() for _ in range(5)] == [False] * 5, "who waits for memory cannot go on"
    begun = connections.new(3)
    feed(begun, large[:KEPT_BYTES_MIN])
    assert [begun.is_slow() for _ in range(5)] == [False] * 5, "the first bytes of a request are always allowed"


def test_a_connection_that_does_not_use_granted_memory_is_slow() -> None:
    """Its connection reads nothing more, for instance because its client leaves responses unread."""
    connections = Connections(budget_bytes=5_000)
    first, second, third = connections.new(1), connections.new(2), connections.new(3)
    large = frame(bytes(50_000))
    for buffer in (first, second, third):
        feed(buffer, large[:1_100])
    assert first.make_room()
    assert not second.make_room()
    assert not third.make_room()
    first.clear()
    assert (connections.granted, second.is_waiting, third.is_waiting) == ([2], False, True)
    assert [second.is_slow() for _ in range(SLOW_CHECKS_MAX)][-1]
    assert not any(third.is_slow() for _ in range(SLOW_CHECKS_MAX)), "who waits for memory cannot go on"
    second.clear()
    assert connections.granted == [2, 3]


def test_a_request_that_goes_on_arriving_is_not_slow_though_others_wait() -> None:
    connections = Connections(scratch_bytes=FRAME_BYTES_MAX, budget_bytes=5_000)
    first, other = connections.new(1), connections.new(2)
    large = frame(bytes(64_000))
    feed(first, large[:4_000])
    assert first.make_room()
    feed(other, large[:1_000])
    assert not other.make_room()
    for begin in range(4_000, 56_000, ARRIVED_BYTES_MIN):
        feed(first, large[begin : begin + ARRIVED_BYTES_MIN])
        assert not first.is_slow()


@pytest.mark.parametrize(
    ("start", "named"),
    [
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "the client speaks gRPC: it needs the address of a GRPC listener"),
        (b"GET /metrics HTTP/1.1\r\n", "the client speaks HTTP"),
        (b"POST / HTTP/1.1\r\n", "the client speaks HTTP"),
        (b"\x16\x03\x01\x02\x00\x01", "the client speaks TLS"),
        (b"\x16\x04\x01\x02\x00\x01", "request of 369361154 bytes: must have 8 to 100000"),
    ],
)
def test_a_client_of_another_protocol_is_named(start: bytes, named: str) -> None:
    with pytest.raises(BadFrame, match=named):
        feed(Connections().new(), start)
