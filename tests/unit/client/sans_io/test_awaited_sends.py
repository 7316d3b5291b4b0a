from __future__ import annotations

from kraft.client.sans_io.send_buffer import Failed, SendBuffer
from kraft.client.sans_io.send_queue import REASON_AGE_MS_MAX, Awaited
from kraft.model.errors import ErrorCode
from tests.unit.client.sans_io.sends import ORDERS, buffer_with, drain, put, result

SILENCE = "no response from b1 yet"
TOLD = f"{SILENCE}: it waits for broker 3"


def reason_at(buffer: SendBuffer, now_ms: int) -> str:
    delay = buffer.longest_delay(now_ms)
    return "" if delay is None else delay.reason


def waits(asked_ms: int, leader: str = "b1") -> Awaited:
    return Awaited(leader, "waits for broker 3", asked_ms)


def test_what_the_leader_waits_for_is_told_for_a_short_time() -> None:
    buffer = buffer_with()
    put(buffer, b"a")
    drain(buffer)
    assert reason_at(buffer, 1_000) == SILENCE
    buffer.explained(ORDERS, waits(1_000))
    assert reason_at(buffer, 1_000 + REASON_AGE_MS_MAX) == TOLD
    assert reason_at(buffer, 1_001 + REASON_AGE_MS_MAX) == SILENCE


def test_it_is_replaced_by_what_the_leader_says_later() -> None:
    buffer = buffer_with()
    put(buffer, b"a")
    drain(buffer)
    buffer.explained(ORDERS, waits(1_000))
    buffer.explained(ORDERS, Awaited("b1", "", 2_000))
    assert reason_at(buffer, 2_000) == SILENCE


def test_an_answer_to_a_question_about_earlier_batches_is_ignored() -> None:
    buffer = buffer_with()
    put(buffer, b"a")
    (first,) = drain(buffer)
    buffer.answered(first, result(base_offset=1), 1_001)
    buffer.explained(ORDERS, waits(1_000))
    put(buffer, b"b", now_ms=1_002)
    drain(buffer, now_ms=1_002)
    buffer.explained(ORDERS, waits(1_000))
    assert reason_at(buffer, 1_100) == SILENCE


def test_it_is_over_with_an_acknowledgement() -> None:
    buffer = buffer_with()
    put(buffer, b"a")
    (first,) = drain(buffer)
    buffer.explained(ORDERS, waits(1_000))
    buffer.answered(first, result(base_offset=1), 1_001)
    put(buffer, b"b", now_ms=1_002)
    drain(buffer, now_ms=1_002)
    assert reason_at(buffer, 1_100) == SILENCE


def test_what_another_leader_waited_for_is_not_told() -> None:
    buffer = buffer_with()
    put(buffer, b"a")
    drain(buffer)
    buffer.explained(ORDERS, waits(1_000, leader="b2"))
    assert reason_at(buffer, 1_100) == SILENCE


def test_an_error_from_the_leader_is_later_than_what_it_said_before() -> None:
    buffer = buffer_with()
    put(buffer, b"a")
    (attempt,) = drain(buffer)
    buffer.explained(ORDERS, waits(1_000))
    buffer.answered(attempt, result(ErrorCode.NOT_LEADER_OR_FOLLOWER), 1_100)
    assert reason_at(buffer, 1_100) == "NOT_LEADER_OR_FOLLOWER"
    (again,) = drain(buffer, now_ms=3_000)
    assert reason_at(buffer, 3_100) == "NOT_LEADER_OR_FOLLOWER"
    buffer.explained(ORDERS, waits(3_200))
    assert reason_at(buffer, 3_300) == TOLD
    buffer.lost(again, "the connection broke", 3_400)
    assert reason_at(buffer, 3_400) == "the connection broke; it last said that it waits for broker 3"


def test_a_batch_that_was_never_answered_has_the_reason_of_those_before_it_for_a_short_time() -> None:
    buffer = buffer_with(max_in_flight_requests_per_connection=1)
    put(buffer, b"a")
    (attempt,) = drain(buffer)
    put(buffer, b"b", now_ms=119_000)
    buffer.lost(attempt, "the connection broke", 119_500)
    (outcome,) = buffer.expire(120_000)
    assert isinstance(outcome, Failed)
    assert str(outcome.error).endswith("last reason: the connection broke")
    assert reason_at(buffer, 120_100) == f"{SILENCE}; to the records before: the connection broke"
    assert reason_at(buffer, 130_000) == ""
