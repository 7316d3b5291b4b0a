"""Where the time of requests goes: on real sockets, as in test_connection."""

from __future__ import annotations

import asyncio

import pytest

from kraft.server.kafka_listener.request_times import DURATIONS_S_MAX, ApiTimes
from tests.unit.server.kafka_listener.served import Served, run


def test_a_request_behind_another_one_waits_in_the_queue_and_the_first_one_remotely() -> None:
    async def test(served: Served) -> None:
        client = await served.client()
        first, second = served.listener.times.by_key[b"wait"[1]], served.listener.times.by_key[b"now,"[1]]
        client.send(b"wait a moment", b"now, the second")
        await served.until(lambda: bool(served.requests.waiting))
        # The time that is to be measured.
        await asyncio.sleep(0.05)
        served.requests.waiting[b"wait a moment"].set_result(b"done")
        assert [await client.answer() for _ in range(2)] == [b"done", b"answer to now, the second"]
        assert first.queue_s < 0.05 <= first.remote_s
        assert second.remote_s == 0 < 0.05 <= second.queue_s
        # An answer is from arrival to response.
        assert sum(first.durations) == sum(second.durations) == 1
        assert first.durations[:7] == second.durations[:7] == [0] * 7

    run(test)


def test_a_response_is_sent_when_its_client_has_read_it_and_not_before() -> None:
    # More than the system keeps, and the client's reader, of which nobody reads.
    large = bytes(32 << 20)

    async def test(served: Served) -> None:
        times = served.listener.times.by_key[b"wait"[1]]
        client = await served.client()
        client.send(b"wait a moment")
        await served.until(lambda: bool(served.requests.waiting))
        served.requests.waiting[b"wait a moment"].set_result(large)
        await served.until(lambda: sum(times.durations) == 1)
        # Time in which the response would be noted as sent, too early.
        await asyncio.sleep(0.05)
        assert times.send_s == 0
        assert await client.answer() == large
        await served.until(lambda: times.send_s >= 0.05)
        assert times.remote_s < times.send_s

    run(test)


def test_a_response_behind_another_one_waits_to_be_sent() -> None:
    async def test(served: Served) -> None:
        client = await served.client()
        waits, ready = served.listener.times.by_key[b"pipe"[1]], served.listener.times.by_key[b"soon"[1]]
        client.send(b"pipeline 1", b"soon, the second")
        await served.until(lambda: len(served.requests.begun) == 2)
        # The time that is to be measured.
        await asyncio.sleep(0.05)
        served.requests.waiting[b"pipeline 1"].set_result(b"one")
        assert [await client.answer() for _ in range(2)] == [b"one", b"answer to soon, the second"]
        assert waits.send_s < 0.05 <= ready.send_s

    run(test)


@pytest.mark.parametrize(
    ("duration_s", "place"),
    [(0.0, 0), (0.000_4, 0), (0.000_6, 1), (0.001_5, 2), (1.0, 11), (30.0, 16), (33.0, 17), (1e9, 41)],
)
def test_a_duration_is_counted_within_the_first_bound_that_it_does_not_pass(duration_s: float, place: int) -> None:
    times = ApiTimes()
    times.answered(duration_s)
    assert times.durations.index(1) == place
    assert sum(times.durations) == 1
    assert place >= len(DURATIONS_S_MAX) or duration_s <= DURATIONS_S_MAX[place]
    assert place == 0 or duration_s >= DURATIONS_S_MAX[min(place, len(DURATIONS_S_MAX)) - 1]
