"""Requests that took long are logged with where the time went. Some on real sockets, as in test_connection."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from kraft.model.clients import ClientConnection
from kraft.server.kafka_listener.request_times import ApiTimes, TimedRequest
from kraft.server.kafka_listener.slow_requests import LINES_MAX, PERIOD_S, SlowRequestLog
from kraft.wire.api_keys import ApiKey
from tests.unit.server.kafka_listener.served import PATIENT, Served, run

CLIENT = ClientConnection(
    listener="PLAINTEXT",
    address="10.0.0.7:51000",
    principal="User:alice",
    client_id="orders",
    software_name="",
    software_version="",
    age_ms=0,
    requests=1,
    received_bytes=0,
    sent_bytes=0,
)
LIMITS = replace(PATIENT, connection=replace(PATIENT.connection, slow_s_min=0.05))


def logged(key: int, local_s: float, remote_s: float, count: int = 1, at_s: float = 0.0) -> list[Any]:
    slow = SlowRequestLog(0.5)
    return noted(slow, key, local_s, remote_s, count, at_s)


def noted(slow: SlowRequestLog, key: int, local_s: float, remote_s: float, count: int, at_s: float) -> list[Any]:
    with capture_logs() as lines:
        for _ in range(count):
            request = TimedRequest(
                times=ApiTimes(key),
                size_bytes=300,
                queue_s=0.02,
                local_s=local_s,
                since_s=0.0,
                remote_s=remote_s,
                send_s=0.03,
                throttle_ms=40,
                response_bytes=90,
            )
            slow.note(CLIENT, request, at_s)
    return lines


def test_a_line_says_who_asked_what_and_where_the_time_went() -> None:
    assert logged(ApiKey.PRODUCE, 0.1, 0.4) == [
        {
            "event": "request answered slowly",
            "log_level": "warning",
            "api": "PRODUCE",
            "client_id": "orders",
            "principal": "User:alice",
            "peer": "10.0.0.7:51000",
            "listener": "PLAINTEXT",
            "request_bytes": 300,
            "response_bytes": 90,
            "queue_ms": 20.0,
            "local_ms": 100.0,
            "remote_ms": 400.0,
            "throttle_ms": 40,
            "send_ms": 30.0,
        }
    ]
    assert logged(ApiKey.PRODUCE, 0.1, 0.3) == []


@pytest.mark.parametrize("key", [ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP])
def test_a_request_that_is_to_wait_is_slow_only_before_it_waits(key: ApiKey) -> None:
    assert logged(key, 0.1, 30.0) == []
    assert [line["api"] for line in logged(key, 0.6, 30.0)] == [key.name]


def test_there_are_a_few_lines_a_minute_and_the_next_counts_the_others() -> None:
    slow = SlowRequestLog(0.5)
    assert len(noted(slow, ApiKey.METADATA, 1.0, 0.0, LINES_MAX + 7, 100.0)) == LINES_MAX
    assert noted(slow, ApiKey.METADATA, 1.0, 0.0, 1, 100.0 + PERIOD_S / 2) == []
    first, second = noted(slow, ApiKey.METADATA, 1.0, 0.0, 2, 100.0 + PERIOD_S)
    assert first["slow_requests_not_logged"] == 8
    assert "slow_requests_not_logged" not in second


def test_a_listener_notices_requests_that_are_slow_at_once_and_that_wait() -> None:
    async def test(served: Served) -> None:
        client = await served.client()
        begin = served.requests.begin

        def begin_slowly(frame: memoryview) -> Any:
            if bytes(frame) == b"now, slowly":
                # Work on the loop, which is what counts as slow here.
                time.sleep(0.06)
            return begin(frame)

        served.requests.begin = begin_slowly  # type: ignore[method-assign]  # For this listener only.
        client.send(b"now, quickly", b"now, slowly", b"wait a moment")
        for _ in range(2):
            await client.answer()
        await served.until(lambda: bool(served.requests.waiting))
        await asyncio.sleep(0.06)
        served.requests.waiting[b"wait a moment"].set_result(b"done")
        assert await client.answer() == b"done"

    at_once, waited = [line for line in run(test, LIMITS) if line["event"] == "request answered slowly"]
    assert (at_once["request_bytes"], at_once["remote_ms"]) == (len(b"now, slowly"), 0)
    assert at_once["local_ms"] >= 60
    assert (waited["request_bytes"], waited["response_bytes"]) == (len(b"wait a moment"), 4 + len(b"done"))
    assert waited["remote_ms"] >= 50 > waited["local_ms"]
    assert waited["peer"].startswith("127.0.0.1:")


def test_no_request_is_slow_unless_it_is_asked_for() -> None:
    async def test(served: Served) -> None:
        client = await served.client()
        client.send(b"wait a moment")
        await served.until(lambda: bool(served.requests.waiting))
        await asyncio.sleep(0.06)
        served.requests.waiting[b"wait a moment"].set_result(b"done")
        assert await client.answer() == b"done"

    assert run(test) == []


def test_a_login_that_takes_long_is_no_slow_request() -> None:
    async def test(served: Served) -> None:
        served.requests.is_trusted = False
        client = await served.client()
        client.send(b"wait for a login")
        await served.until(lambda: bool(served.requests.waiting))
        await asyncio.sleep(0.06)
        served.requests.waiting[b"wait for a login"].set_result(b"refused")
        assert await client.answer() == b"refused"

    assert run(test, replace(LIMITS, counts=replace(LIMITS.counts, strangers_max=10))) == []
