"""The attempts of one call: how long they go on, and the one warning that says why."""

from __future__ import annotations

import pytest

from kraft.client.cluster.any_broker import NoBrokerReachable
from kraft.client.cluster.attempts import WARNED_AFTER_MS, Attempts
from kraft.client.sans_io.backoff import Backoff
from kraft.model.errors import ErrorCode, Refusal
from tests.support.virtual_time import LoopClock

NO_LEADER = Refusal(ErrorCode.LEADER_NOT_AVAILABLE, "orders-0 has no leader")
BACKOFF = Backoff(first_ms=100, max_ms=400, chance=lambda: 0.5)


async def until_the_end(attempts: Attempts, error: Exception, until_ms: int | None = None) -> int:
    """Fail until no attempt may follow; return the number of attempts."""
    made = 1
    while attempts.may_follow(error, until_ms):
        await attempts.pause()
        made += 1
    return made


async def test_attempts_go_on_at_growing_intervals_until_the_next_would_be_too_late() -> None:
    clock = LoopClock()
    began_ms = clock.monotonic_ms()
    assert await until_the_end(Attempts(BACKOFF, clock, began_ms + 1_500), NO_LEADER) == 5
    assert clock.monotonic_ms() - began_ms == 100 + 200 + 400 + 400


async def test_an_error_may_have_an_earlier_end_of_its_own() -> None:
    clock = LoopClock()
    attempts = Attempts(BACKOFF, clock, clock.monotonic_ms() + 60_000)
    assert await until_the_end(attempts, NO_LEADER, until_ms=clock.monotonic_ms() + 350) == 3


async def test_what_goes_on_for_long_says_why_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = LoopClock()
    await until_the_end(Attempts(BACKOFF, clock, clock.monotonic_ms() + WARNED_AFTER_MS), NO_LEADER)
    assert caplog.messages == []
    await until_the_end(Attempts(BACKOFF, clock, clock.monotonic_ms() + 5_000), NO_LEADER)
    assert caplog.messages == [f"{NO_LEADER}; trying again for up to 4 s"]


async def test_a_silence_of_all_brokers_is_left_to_who_finds_no_broker(caplog: pytest.LogCaptureFixture) -> None:
    clock = LoopClock()
    await until_the_end(Attempts(BACKOFF, clock, clock.monotonic_ms() + 5_000), NoBrokerReachable({}, 5_000))
    assert caplog.messages == []
