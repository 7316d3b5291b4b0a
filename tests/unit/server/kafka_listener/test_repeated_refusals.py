from __future__ import annotations

from kraft.server.kafka_listener.repeated_refusals import (
    GAP_MS_MAX,
    REPEATED_MIN,
    REPEATED_MS_MIN,
    RepeatedRefusals,
)


def refused(repeated: RepeatedRefusals, count: int, every_ms: int, what: str = "orders", since_ms: int = 0) -> bool:
    """Repeat a request that often; return whether that is too often at the end."""
    return [repeated.are_endless(what, since_ms + number * every_ms) for number in range(count)][-1]


def test_a_refused_request_that_is_repeated_often_and_for_long_is_endless() -> None:
    period_ms = REPEATED_MS_MIN // REPEATED_MIN
    assert not refused(RepeatedRefusals(), REPEATED_MIN, period_ms)
    assert refused(RepeatedRefusals(), REPEATED_MIN + 1, period_ms)


def test_one_that_is_repeated_quickly_or_seldom_is_not() -> None:
    assert not refused(RepeatedRefusals(), REPEATED_MIN * 5, 10)
    assert not refused(RepeatedRefusals(), REPEATED_MIN * 5, GAP_MS_MAX + 1)


def test_another_request_and_an_answer_begin_the_count_again() -> None:
    repeated = RepeatedRefusals()
    refused(repeated, REPEATED_MIN, 1_000)
    assert not refused(repeated, REPEATED_MIN, 1_000, "payments", since_ms=REPEATED_MIN * 1_000)
    repeated.answered()
    assert not refused(repeated, REPEATED_MIN, 1_000, "payments", since_ms=2 * REPEATED_MIN * 1_000)
    assert repeated.are_endless("payments", 3 * REPEATED_MIN * 1_000)
