"""A produce that waits for a thread has its own timeout; the producer's timeout limits the wait for replicas."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kraft.model.errors import ErrorCode
from kraft.server.handlers.produce import TURN_S_MIN
from tests.support.server.replicas import fetched, lead, settle
from tests.unit.server.handlers.held_appends import COUNT, Waiting, code_of, large


@pytest.mark.parametrize("acks", [0, 1, -1])
async def test_the_producers_timeout_is_no_bound_for_the_turn(tmp_path: Path, acks: int) -> None:
    """The producer's timeout limits only the wait for the replicas, as in Kafka."""
    waiting = Waiting(tmp_path)
    answer = waiting.produce(large("a"), acks=acks, timeout_ms=0)
    await settle()
    await asyncio.sleep(TURN_S_MIN / 2)
    assert not answer.done()
    await waiting.thread.run_next()
    if acks == 0:
        assert await answer is None
    else:
        # There was no time left for the sync, but the records are in the log.
        assert await code_of(answer) is (ErrorCode.NONE if acks == 1 else ErrorCode.REQUEST_TIMED_OUT)
    assert waiting.values() == ["a"]


@pytest.mark.parametrize("acks", [1, -1])
async def test_nothing_is_appended_after_the_answer_that_it_was_not_its_turn(tmp_path: Path, acks: int) -> None:
    waiting = Waiting(tmp_path)
    answer = waiting.produce(large("a"), acks=acks, timeout_ms=0)
    await settle()
    await asyncio.sleep(TURN_S_MIN)
    assert await code_of(answer) is ErrorCode.REQUEST_TIMED_OUT
    await waiting.thread.run_next()
    assert waiting.values() == []


async def test_replicas_have_the_producers_time_from_the_turn_on(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path)
    lead(waiting.partition, epoch=2)
    answers = [waiting.produce(large(value), acks=-1, timeout_ms=1_000) for value in ("a", "b")]
    await settle()
    await asyncio.sleep(2)
    await waiting.thread.run_next()
    waiting.broker.sync()
    await asyncio.sleep(0.9)
    fetched(waiting.partition, COUNT)
    assert await code_of(answers[0]) is ErrorCode.NONE
    await waiting.thread.run_next()
    await asyncio.sleep(0.9)
    assert not answers[1].done()
    await asyncio.sleep(0.2)
    assert await code_of(answers[1]) is ErrorCode.REQUEST_TIMED_OUT
    assert waiting.values() == ["a", "b"]


async def test_the_answer_comes_within_the_producers_time_when_that_is_longer_than_a_turn(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path)
    lead(waiting.partition, epoch=2)
    began_s = asyncio.get_running_loop().time()
    answer = waiting.produce(large("a"), acks=-1, timeout_ms=30_000)
    await settle()
    await asyncio.sleep(20)
    await waiting.thread.run_next()
    assert await code_of(answer) is ErrorCode.REQUEST_TIMED_OUT
    assert asyncio.get_running_loop().time() - began_s == pytest.approx(30, abs=0.1)
