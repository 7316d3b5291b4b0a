"""Connections on real sockets. Requests are plain bytes; the beginning of a frame says how it is answered."""

from __future__ import annotations

import asyncio
import gc
import socket
import weakref

import pytest
from msgspec.structs import replace

from kraft.server.kafka_listener.connection import PIPELINED_MAX, TAKEN_AT_ONCE_MAX, KafkaConnection
from kraft.server.kafka_listener.listener import ListenerLimits
from kraft.server.kafka_listener.response_writer import (
    WRITTEN_ALONE_BYTES_MIN,
    ResponseBytes,
    ResponseWriter,
)
from tests.unit.server.kafka_listener.served import DEADLINE_S, PATIENT, Served, framed, run


def impatient(**limits: float) -> ListenerLimits:
    return replace(PATIENT, connection=replace(PATIENT.connection, **limits))


def test_requests_that_are_answered_at_once_leave_others_their_turn() -> None:
    async def test(served: Served) -> None:
        client = await served.client()
        begun = served.requests.begun
        at_once, before = 0, 0
        requests = [b"now, number %d" % number for number in range(1_000)]
        client.send(*requests)
        while len(begun) < 1_000:
            # One turn of the loop.
            await asyncio.sleep(0)
            at_once, before = max(at_once, len(begun) - before), len(begun)
        assert at_once == TAKEN_AT_ONCE_MAX
        assert [await client.answer() for _ in requests] == [b"answer to " + request for request in requests]

    run(test)


def test_requests_count_with_the_time_that_they_took_and_waited() -> None:
    async def test(served: Served) -> None:
        client = await served.client()
        at_once, waits = served.listener.times.by_key[b"now"[1]], served.listener.times.by_key[b"wait"[1]]
        client.send(b"now, the first", b"now, the second")
        for _ in range(2):
            await client.answer()
        assert (at_once.count, at_once.remote_s) == (2, 0)
        assert 0 < at_once.local_s < DEADLINE_S
        client.send(b"wait a moment")
        await served.until(lambda: bool(served.requests.waiting))
        assert (waits.count, waits.remote_s) == (1, 0)
        await asyncio.sleep(0.05)
        served.requests.waiting[b"wait a moment"].set_result(b"done")
        assert await client.answer() == b"done"
        assert 0.05 <= waits.remote_s < DEADLINE_S
        assert waits.local_s < waits.remote_s

    run(test)


def test_a_request_may_take_its_time_while_it_waits_for_memory_that_others_have() -> None:
    size, part = 900_000, 100_000
    request = b"now, ".ljust(size, b".")

    async def test(served: Served) -> None:
        never_ends, waits = await served.client(), await served.client()
        never_ends.writer.write(size.to_bytes(4, "big") + request[:part])
        await served.until(lambda: served.listener.receiving_bytes >= size)
        waits.writer.write(size.to_bytes(4, "big") + request[:part])
        assert await never_ends.is_closed()
        waits.writer.write(request[part:])
        assert await waits.answer() == b"answer to " + request

    (line,) = run(test, impatient(request_s_max=1.5))
    # Which limit is passed first depends on how old the request is at the first check.
    assert line["reason"].startswith(("request had not arrived completely", "request arrived too slowly"))


def test_large_answers_and_small_ones_arrive_in_their_order() -> None:
    large = [bytes([number]) * WRITTEN_ALONE_BYTES_MIN for number in range(3)]

    async def test(served: Served) -> None:
        client = await served.client()
        client.send(*[b"pipeline %d" % number for number in range(4)])
        await served.until(lambda: len(served.requests.waiting) == 4)
        answers = [b"small", large[0] + large[1], b"", large[2] + b"behind"]
        for number in (3, 2, 1, 0):
            served.requests.waiting[b"pipeline %d" % number].set_result(answers[number])
        assert [await client.answer() for _ in answers] == answers

    run(test)


def test_nothing_is_begun_behind_a_request_that_holds_its_connection_until_it_may_go_on() -> None:
    async def test(served: Served) -> None:
        client = await served.client()
        requests = served.requests
        client.send(b"pipeline 1", b"holds up 2", b"pipeline 3", b"pipeline 4")
        await served.until(lambda: len(requests.begun) == 2)
        requests.waiting[b"pipeline 1"].set_result(b"one")
        assert await client.answer() == b"one"
        assert requests.begun == [b"pipeline 1", b"holds up 2"]
        requests.holds = False
        requests.go_on()
        await served.until(lambda: len(requests.begun) == 4)
        for request, answer in ((b"pipeline 4", b"four"), (b"pipeline 3", b"three"), (b"holds up 2", b"two")):
            requests.waiting[request].set_result(answer)
        assert [await client.answer() for _ in range(3)] == [b"two", b"three", b"four"]

    run(test)


@pytest.mark.parametrize("request_bytes", [100, 100_000])
def test_a_request_that_has_to_wait_keeps_its_bytes_and_those_behind_it_wait_too(request_bytes: int) -> None:
    async def test(served: Served) -> None:
        client, other = await served.client(), await served.client()
        requests, late = served.requests, b"late".ljust(request_bytes, b".")
        client.send(b"now, one", late, b"now, three")
        assert await client.answer() == b"answer to now, one"
        await served.until(lambda: requests.waits > 0)
        # Others use the receive buffer meanwhile.
        other.send(b"now, ".ljust(request_bytes, b"x"))
        await other.answer()
        client.send(b"now, four")
        requests.may_go_on = True
        for connection in list(served.listener._connections):
            connection._take_frames_soon()
        await served.until(lambda: late in requests.waiting)
        requests.waiting[late].set_result(b"two")
        assert [await client.answer() for _ in range(3)] == [b"two", b"answer to now, three", b"answer to now, four"]
        assert requests.waits <= 3, "it is not asked again and again"

    run(test)


def test_requests_are_answered_in_their_order() -> None:
    async def test(served: Served) -> None:
        client = await served.client()
        client.send(b"pipe one", b"pipe two", b"now, three")
        await served.until(lambda: len(served.requests.waiting) == 2)
        served.requests.waiting[b"pipe two"].set_result(b"second")
        served.requests.waiting[b"pipe one"].set_result(b"first")
        assert [await client.answer() for _ in range(3)] == [b"first", b"second", b"answer to now, three"]

    assert run(test) == []


def test_a_request_that_is_not_pipelined_is_begun_when_all_before_it_are_answered() -> None:
    async def test(served: Served) -> None:
        client = await served.client()
        client.send(b"wait one", b"now, two", b"wait three", b"pipe four")
        await served.until(lambda: bool(served.requests.waiting))
        assert served.requests.begun == [b"wait one"]
        served.requests.waiting[b"wait one"].set_result(b"first")
        assert [await client.answer() for _ in range(2)] == [b"first", b"answer to now, two"]
        assert served.requests.begun == [b"wait one", b"now, two", b"wait three"]

    run(test)


@pytest.mark.parametrize("count", [1, PIPELINED_MAX, 3 * TAKEN_AT_ONCE_MAX])
def test_what_came_together_with_requests_that_are_answered_at_once_is_begun(count: int) -> None:
    """No later event would begin it: all that the client sent has arrived."""

    async def test(served: Served) -> None:
        client = await served.client()
        requests = [b"soon %05d" % number for number in range(count)] + [b"now, last"]
        client.send(*requests)
        for request in requests:
            assert await client.answer() == b"answer to " + request

    run(test)


def test_a_request_without_an_answer_holds_nothing_up() -> None:
    async def test(served: Served) -> None:
        client = await served.client()
        client.send(b"none, thanks", b"now, two")
        assert await client.answer() == b"answer to now, two"

    run(test)


def test_a_large_request_and_many_small_ones_behind_it_arrive() -> None:
    async def test(served: Served) -> None:
        client = await served.client()
        large = b"now," + bytes(900_000)
        client.send(large, *(b"now, %06d" % number for number in range(20_000)))
        assert await client.answer() == b"answer to " + large
        assert [await client.answer() for _ in range(20_000)] == [b"answer to now, %06d" % n for n in range(20_000)]
        assert served.requests.begun[1:3] == [b"now, 000000", b"now, 000001"]

    run(test)


def test_only_so_many_pipelined_requests_are_under_way() -> None:
    async def test(served: Served) -> None:
        client = await served.client()
        client.send(*(b"pipe %06d" % number for number in range(200)))
        await served.until(lambda: len(served.requests.begun) == 64)
        for number in range(200):
            await served.until(lambda wanted=b"pipe %06d" % number: wanted in served.requests.waiting)  # type: ignore[misc]  # Bound by its default.
            served.requests.waiting[b"pipe %06d" % number].set_result(b"done")
            assert await client.answer() == b"done"

    run(test)


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "the client speaks HTTP, which this listener does not serve"),
        (b"".join(framed(b"shut, please")), "asked to shut"),
        (b"".join(framed(b"bug in here")), "internal error"),
    ],
)
def test_a_connection_that_goes_wrong_is_closed_with_a_line_and_no_other_notices(sent: bytes, reason: str) -> None:
    async def test(served: Served) -> None:
        other, client = await served.client(), await served.client()
        client.writer.write(sent)
        assert await client.is_closed()
        other.send(b"now, still")
        assert await other.answer() == b"answer to now, still"

    (line,) = [line for line in run(test) if line["event"] == "peer refused"]
    assert reason in line["reason"]
    assert line["peer"].startswith("127.0.0.1:")


@pytest.mark.parametrize(
    "bad", [b"\x7f\xff\xff\xff", b"\0\0\0\x08shut now", b"\0\0\0\x08bug here"], ids=["no frame", "closes", "fails"]
)
def test_responses_that_are_ready_are_sent_before_a_bad_request_ends_the_connection(bad: bytes) -> None:
    async def test(served: Served) -> None:
        client = await served.client()
        client.writer.write(b"".join(b"".join(framed(b"soon %d.." % number)) for number in range(3)) + bad)
        for number in range(3):
            assert await client.answer() == b"answer to soon %d.." % number
        assert await client.is_closed()

    assert [line["event"] for line in run(test)][-1] == "peer refused"


def test_a_request_that_does_not_come_to_its_end_costs_the_connection() -> None:
    async def test(served: Served) -> None:
        client = await served.client()
        client.writer.write(b"\x00\x00\x00\x40only the beginning")
        assert await client.is_closed()

    (line,) = run(test, impatient(request_s_max=0.2))
    assert line["reason"] == "request had not arrived completely after 0.2 s"


def test_a_client_that_reads_no_answers_is_cut_off_and_given_nothing_more_to_read() -> None:
    async def test(served: Served) -> None:
        client = await served.client()
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # A TCP transport can.
        for number in range(200):
            client.send(b"now, %06d" % number + bytes(400_000))
        await served.until(lambda: served.listener.connection_count == 0)
        assert len(served.requests.begun) < 150

    (line,) = run(test, impatient(unread_s_max=0.2))
    assert line["reason"] == "client did not read its responses for 0.2 s"


def test_a_client_that_reads_again_or_is_gone_has_no_unread_responses() -> None:
    async def test(served: Served) -> None:
        reads, goes = [await served.client() for _ in range(2)]
        requests = [b"now, %06d" % number + bytes(400_000) for number in range(20)]
        for client in (reads, goes):
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # A TCP transport can.
            client.send(*requests)
        unread = served.listener._memory.unread.budget
        await served.until(lambda: len(unread._held) == 2)
        reads.writer.transport.resume_reading()  # type: ignore[attr-defined]  # A TCP transport can.
        assert [await reads.answer() for _ in requests] == [b"answer to " + request for request in requests]
        await served.until(lambda: len(unread._held) == 1)
        goes.writer.transport.abort()
        await served.until(lambda: unread.held == 0)

    assert run(test, impatient(unread_s_max_when_crowded=60)) == []


def test_clients_that_read_nothing_are_closed_when_unread_responses_take_too_much() -> None:
    async def test(served: Served) -> None:
        reading = await served.client()
        for client in [await served.client() for _ in range(4)]:
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # A TCP transport can.
            for number in range(20):
                client.send(b"now, %06d" % number + bytes(400_000))
        # The unread bytes of one client are within the limit for all.
        await served.until(lambda: served.listener.connection_count <= 2)
        reading.send(b"now, still")
        assert await reading.answer() == b"answer to now, still"

    crowded = replace(PATIENT, frame_bytes_max=500_000)
    (line,) = run(test, replace(crowded, connection=replace(crowded.connection, unread_s_max_when_crowded=0.2)))
    assert line["reason"].startswith("client reads nothing while unread responses")


def test_an_idle_connection_is_closed_without_a_line_and_one_that_waits_is_not() -> None:
    async def test(served: Served) -> None:
        idle, waiting = await served.client(), await served.client()
        waiting.send(b"wait one")
        assert await idle.is_closed()
        served.requests.waiting[b"wait one"].set_result(b"first")
        assert await waiting.answer() == b"first"

    assert run(test, impatient(idle_s_max=0.2)) == []


def test_there_are_never_more_connections_than_allowed() -> None:
    async def test(served: Served) -> None:
        first, second, third = [await served.client() for _ in range(3)]
        assert await third.is_closed()
        for client in (first, second):
            client.send(b"now, still")
            assert await client.answer() == b"answer to now, still"

    (line,) = run(test, replace(PATIENT, counts=replace(PATIENT.counts, clients_max=2)))
    assert line["reason"] == "too many connections: raise max.connections or the limit of open files"


def test_a_closed_connection_is_freed_without_the_garbage_collector() -> None:
    async def test(served: Served) -> None:
        gc.collect()
        gc.disable()
        try:
            client = await served.client()
            client.send(b"now, one")
            await client.answer()
            (connection,) = (weakref.ref(each) for each in gc.get_objects() if type(each) is KafkaConnection)
            (transport,) = (
                weakref.ref(each) for each in gc.get_referents(connection()) if isinstance(each, asyncio.Transport)
            )
            client.writer.close()
            await served.until(lambda: connection() is None and transport() is None)
        finally:
            gc.enable()

    assert run(test) == []


def test_waiting_requests_of_a_client_that_disconnects_are_cancelled() -> None:
    async def test(served: Served) -> None:
        client = await served.client()
        client.send(b"wait one")
        await served.until(lambda: bool(served.requests.waiting))
        client.writer.close()
        await served.until(lambda: served.requests.cancelled == [b"wait one"])

    assert run(test) == []


def test_a_response_is_written_in_the_turn_in_which_it_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(served: Served) -> None:
        client = await served.client()
        client.send(b"wait one")
        await served.until(lambda: bool(served.requests.waiting))
        written: list[ResponseBytes] = []
        monkeypatch.setattr(ResponseWriter, "write", lambda writer, pieces: written.append(pieces))
        served.requests.waiting[b"wait one"].set_result(b"first")
        await asyncio.sleep(0)
        assert written == [framed(b"first")]

    assert run(test) == []


def test_a_request_that_is_cancelled_on_our_side_closes_the_connection() -> None:
    async def test(served: Served) -> None:
        client = await served.client()
        client.send(b"wait one", b"now, two")
        await served.until(lambda: bool(served.requests.waiting))
        served.requests.waiting[b"wait one"].cancel()
        assert await client.is_closed()

    (line,) = run(test)
    assert line["reason"] == "request cancelled before it was answered"


def test_a_listener_that_stops_answers_what_was_begun_and_begins_nothing_more() -> None:
    async def test(served: Served) -> None:
        busy, idle = await served.client(), await served.client()
        busy.send(b"wait one", b"now, two")
        await served.until(lambda: bool(served.requests.waiting))
        stopping = asyncio.create_task(served.listener.stop(DEADLINE_S))
        assert await idle.is_closed()
        idle.writer.close()
        served.requests.waiting[b"wait one"].set_result(b"first")
        assert await busy.answer() == b"first"
        assert await busy.is_closed()
        busy.writer.close()
        await stopping
        assert served.requests.begun == [b"wait one"]
        with pytest.raises(ConnectionError):
            await served.client()

    run(test)


def test_answers_arrive_whole_though_their_client_sent_more_that_a_stopping_listener_does_not_begin() -> None:
    size_bytes = 8 << 20

    async def test(served: Served) -> None:
        client = await served.client()
        client.send(b"pipe one")
        await served.until(lambda: bool(served.requests.waiting))
        stopping = asyncio.create_task(served.listener.stop(DEADLINE_S))
        await asyncio.sleep(0)
        # More bytes than are read before the rest is discarded.
        client.send(*[b"pipe " + bytes(50_000)] * 20)
        served.requests.waiting[b"pipe one"].set_result(bytes(size_bytes))
        await served.until(lambda: client.writer.transport.get_write_buffer_size() == 0)
        # The response is not read until the other side has had time to write and to close.
        await asyncio.sleep(0.2)
        assert await client.answer() == bytes(size_bytes)
        assert await client.is_closed()
        client.writer.close()
        await stopping
        assert served.requests.begun == [b"pipe one"]

    run(test)


@pytest.mark.parametrize("turns", [2, 3, 4])
def test_a_connection_that_is_accepted_as_the_listener_stops_is_not_served(turns: int) -> None:
    """asyncio accepts the connection in one of these turns of the loop, before the listener has it."""

    async def test(served: Served) -> None:
        with socket.create_connection(("127.0.0.1", served.port)) as late:
            for _ in range(turns):
                await asyncio.sleep(0)
            stopping = asyncio.create_task(served.listener.stop(DEADLINE_S))
            late.settimeout(DEADLINE_S / 2)
            late.sendall(b"".join(framed(b"now, one")))
            assert await asyncio.to_thread(late.recv, 1) == b""
        await stopping
        assert served.requests.begun == []

    run(test)


def test_a_listener_that_stops_waits_no_longer_than_its_grace_period() -> None:
    async def test(served: Served) -> None:
        client = await served.client()
        client.send(b"wait one")
        await served.until(lambda: bool(served.requests.waiting))
        await served.listener.stop(0.05)
        assert await client.is_closed()

    assert run(test) == []


def test_a_listener_that_stops_does_not_wait_for_a_client_that_reads_nothing_or_does_not_hang_up() -> None:
    async def test(served: Served) -> None:
        unread, quiet = await served.client(), await served.client()
        unread.send(b"pipe one")
        await served.until(lambda: bool(served.requests.waiting))
        served.requests.waiting[b"pipe one"].set_result(bytes(16 << 20))
        await served.listener.stop(0.05)
        await served.until(lambda: served.listener.connection_count == 0)
        assert await quiet.is_closed()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await unread.answer()

    assert run(test) == []


def test_a_muted_client_is_not_read_and_not_counted_as_slow_and_goes_on_afterwards() -> None:
    async def test(served: Served) -> None:
        client = await served.client()
        served.requests.is_muted = True
        # What has arrived already is begun if it may be pipelined; nothing of the rest is even read.
        client.send(b"soon, first")
        assert await client.answer() == b"answer to soon, first"
        client.send(b"soon, second", b"now, third")
        client.writer.write((100).to_bytes(4, "big") + b"a part")
        # Longer than a request may take to arrive.
        await asyncio.sleep(4.2)
        assert served.requests.begun == [b"soon, first"]
        served.requests.is_muted = False
        served.requests.go_on()
        assert await client.answer() == b"answer to soon, second"
        assert await client.answer() == b"answer to now, third"

    assert run(test, impatient(request_s_max=3.0)) == []
