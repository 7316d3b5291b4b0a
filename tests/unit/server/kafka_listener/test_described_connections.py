"""What a listener says of its connections. Real sockets, as in test_connection."""

from __future__ import annotations

from kraft.wire.frame import SIZE_BYTES
from tests.unit.server.kafka_listener.served import DEADLINE_S, Served, run


def test_a_connection_is_described_with_what_it_asked_and_got() -> None:
    async def test(served: Served) -> None:
        client, other = await served.client(), await served.client()
        client.send(b"now, the first", b"now, the second")
        answers = [await client.answer() for _ in range(2)]
        await served.until(lambda: served.listener.connection_count == 2)
        by_address = {each.address: each for each in await served.listener.clients()}
        (host, port), (other_host, other_port) = (each.writer.get_extra_info("sockname") for each in (client, other))
        assert by_address.keys() == {f"{host}:{port}", f"{other_host}:{other_port}"}
        described, idle = by_address[f"{host}:{port}"], by_address[f"{other_host}:{other_port}"]
        assert described.requests == 2
        assert described.received_bytes == len(b"now, the first") + len(b"now, the second") + 2 * SIZE_BYTES
        assert described.sent_bytes == sum(map(len, answers)) + 2 * SIZE_BYTES
        assert 0 <= described.age_ms < DEADLINE_S * 1_000
        assert (idle.requests, idle.received_bytes, idle.sent_bytes) == (0, 0, 0)
        client.writer.close()
        await served.until(lambda: served.listener.connection_count == 1)
        assert [each.address for each in await served.listener.clients()] == [idle.address]

    run(test)


def test_what_a_client_has_not_read_does_not_count_as_sent() -> None:
    answer = bytes(50_000_000)

    async def test(served: Served) -> None:
        client = await served.client()
        client.send(b"wait for a long answer")
        await served.until(lambda: bool(served.requests.waiting))
        served.requests.waiting[b"wait for a long answer"].set_result(answer)
        assert await client.reader.readexactly(SIZE_BYTES)
        (described,) = await served.listener.clients()
        assert 0 < described.sent_bytes < len(answer)
        assert await client.reader.readexactly(len(answer)) == answer
        (described,) = await served.listener.clients()
        assert described.sent_bytes == len(answer) + SIZE_BYTES

    run(test)
