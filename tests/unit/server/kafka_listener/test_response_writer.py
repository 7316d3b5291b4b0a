"""Very large responses of connections on real sockets."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable

import pytest
from msgspec.structs import replace

from kraft.server.kafka_listener.connection import TAKEN_AT_ONCE_MAX
from kraft.server.kafka_listener.response_writer import PART_BYTES_MAX, ResponseBytes
from tests.unit.server.kafka_listener.served import PATIENT, Served, framed, run

VERY_LARGE = bytes(range(256)) * (9 * PART_BYTES_MAX // 512)
"""A response of five parts, the last of them half as long."""

NOT_CROWDED = replace(PATIENT, connection=replace(PATIENT.connection, unread_s_max_when_crowded=60))
IMPATIENT = replace(NOT_CROWDED, connection=replace(NOT_CROWDED.connection, request_s_max=0.2))


def test_of_a_very_large_answer_the_transport_has_one_part_until_the_client_reads_it() -> None:
    async def test(served: Served) -> None:
        client = await served.client()
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # A TCP transport can.
        client.send(b"wait one", b"now, two")
        await served.until(lambda: bool(served.requests.waiting))
        (connection,) = served.listener._connections
        served.requests.waiting[b"wait one"].set_result(VERY_LARGE)
        await served.until(lambda: connection._transport.get_write_buffer_size() > 0)
        held = served.listener._memory.unread.budget.held
        assert connection._transport.get_write_buffer_size() < 2 * PART_BYTES_MAX < held
        assert served.requests.begun == [b"wait one"]
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]  # A TCP transport can.
        assert await client.answer() == VERY_LARGE
        assert await client.answer() == b"answer to now, two"
        assert served.listener._memory.unread.budget.held == 0

    assert run(test, NOT_CROWDED) == []


def test_a_client_that_leaves_its_answers_behind_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """asyncio logs a line for each piece of data written to a connection that is lost, from the fifth on."""

    async def test(served: Served) -> None:
        begin = served.requests.begin
        with socket.create_connection(("127.0.0.1", served.port)) as client:

            def begin_without_client(frame: memoryview) -> Awaitable[ResponseBytes] | ResponseBytes:
                client.close()
                return begin(frame)

            served.requests.begin = begin_without_client  # type: ignore[method-assign]
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            requests = [b"now, request %d" % number for number in range(TAKEN_AT_ONCE_MAX)]
            client.sendall(b"".join(piece for request in requests for piece in framed(request)))
            await served.until(lambda: len(served.requests.begun) == TAKEN_AT_ONCE_MAX)

    run(test)
    assert "socket.send() raised exception" not in caplog.text


def test_answers_behind_a_very_large_one_arrive_in_their_order() -> None:
    async def test(served: Served) -> None:
        client = await served.client()
        client.send(*[b"pipeline %d" % number for number in range(3)])
        await served.until(lambda: len(served.requests.waiting) == 3)
        answers = [VERY_LARGE, VERY_LARGE[1:], b"small"]
        for number, answer in enumerate(answers):
            served.requests.waiting[b"pipeline %d" % number].set_result(answer)
            await asyncio.sleep(0)
        assert [await client.answer() for _ in answers] == answers

    run(test)


def test_a_very_large_answer_arrives_whole_though_the_client_sends_nothing_more() -> None:
    async def test(served: Served) -> None:
        client = await served.client()
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # A TCP transport can.
        client.send(b"wait one")
        await served.until(lambda: bool(served.requests.waiting))
        (connection,) = served.listener._connections
        served.requests.waiting[b"wait one"].set_result(VERY_LARGE)
        await served.until(lambda: connection._transport.get_write_buffer_size() > 0)
        client.writer.write_eof()
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]  # A TCP transport can.
        assert await client.answer() == VERY_LARGE
        assert await client.is_closed()

    run(test)


def test_a_very_large_answer_arrives_whole_though_the_connection_is_to_close() -> None:
    async def test(served: Served) -> None:
        client = await served.client()
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # A TCP transport can.
        incomplete = b"".join(framed(b"now, two"))[:-1]
        client.writer.write(b"".join(framed(b"wait one")) + incomplete)
        await served.until(lambda: bool(served.requests.waiting))
        (connection,) = served.listener._connections
        served.requests.waiting[b"wait one"].set_result(VERY_LARGE)
        await served.until(lambda: connection._is_over)
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]  # A TCP transport can.
        assert await client.answer() == VERY_LARGE
        assert await client.is_closed()

    (line,) = run(test, IMPATIENT)
    assert line["reason"] == "request had not arrived completely after 0.2 s"
