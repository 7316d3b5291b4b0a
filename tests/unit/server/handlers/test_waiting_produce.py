"""Produce requests whose records a thread must check before they are appended."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable
from pathlib import Path

import pytest
from msgspec.structs import replace

from kraft.log.record_checks import RECORD_ERRORS_MAX
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.produce import ProducePartition, ProduceRequest, ProduceResponse
from kraft.server.replica.waiting_appends import WaitingClient
from tests.support.server.replicas import DEFAULTS, ORDERS_0, InlineExecutor, fetched, follow, lead, lead_begun, settle
from tests.unit.server.handlers.held_appends import COMPACT, COUNT, Waiting, code_of, large, small


@pytest.fixture
def waiting(tmp_path: Path) -> Waiting:
    return Waiting(tmp_path)


async def test_few_records_are_looked_into_at_once(waiting: Waiting) -> None:
    assert waiting.produce_at_once(small("a")).error_code is ErrorCode.NONE
    assert waiting.produce_at_once(small("b", key=None)).error_code is ErrorCode.INVALID_RECORD
    assert waiting.values() == ["a"]
    assert waiting.thread.submitted == []


async def test_many_records_are_looked_into_by_a_thread_and_then_appended(waiting: Waiting) -> None:
    buffer = bytearray(large("a"))
    answer = waiting.produce(memoryview(buffer))  # type: ignore[arg-type]  # As the Kafka listener hands it on.
    buffer[:] = bytes(len(buffer))
    await settle()
    assert waiting.values() == []
    assert waiting.appends.waiting_bytes > len(buffer)
    await waiting.thread.run_next()
    assert await code_of(answer) is ErrorCode.NONE
    assert waiting.values() == ["a"]
    assert waiting.appends.waiting_bytes == 0


async def test_nothing_holds_on_to_the_receive_buffer(waiting: Waiting) -> None:
    """Outcomes of a request with one partition that is refused at once and one that waits."""
    buffer = bytearray(large("a"))
    frame = memoryview(buffer)
    partitions = [
        ProducePartition(topic="orders", partition=9, records=frame),
        ProducePartition(topic="orders", partition=0, records=frame),
    ]
    begun = waiting.handler.begin(
        ProduceRequest(request_id=7, acks=1, timeout_ms=9_000, partitions=partitions), WaitingClient()
    )
    assert isinstance(begun, Awaitable)
    answer = asyncio.ensure_future(begun)
    del partitions, frame
    # A memoryview that still exists would not let it change its size.
    buffer.clear()
    await waiting.thread.run_next()
    response = await answer
    assert response is not None
    codes = [each.error_code for each in response.partitions]
    assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE]


async def test_the_result_of_an_abandoned_append_is_used_for_no_other(waiting: Waiting) -> None:
    given_up = waiting.produce(large("a", key=None))
    await settle()
    lead(waiting.partition, epoch=2, isr=(1,))
    other = waiting.produce(large("b"))
    await waiting.thread.run_next()
    await waiting.thread.run_next()
    assert await code_of(given_up) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert await code_of(other) is ErrorCode.NONE


async def test_what_arrives_behind_one_that_waits_is_appended_behind_it(waiting: Waiting) -> None:
    answers = [waiting.produce(each) for each in (large("a"), small("b"), large("c"), small("d"))]
    await waiting.thread.run_next()
    assert waiting.values() == ["a", "b"]
    await waiting.thread.run_next()
    assert waiting.values() == ["a", "b", "c", "d"]
    assert [await code_of(each) for each in answers] == [ErrorCode.NONE] * 4
    waiting.produce_at_once(small("e"))
    assert waiting.values()[-1] == "e"


async def test_another_partition_does_not_wait_behind_it(waiting: Waiting) -> None:
    plain = waiting.broker.open(replace(ORDERS_0, partition=1))
    lead_begun(plain, isr=(1,))
    waits = waiting.produce(large("a"))
    partitions = [ProducePartition(topic="orders", partition=1, records=small("b", key=None))]
    answer = waiting.handler.begin(ProduceRequest(request_id=7, acks=1, timeout_ms=9, partitions=partitions))
    assert isinstance(answer, ProduceResponse)
    assert (waiting.values(plain), waiting.values()) == (["b"], [])
    await waiting.thread.run_next()
    await waits


async def test_records_without_a_key_are_refused_after_the_look_and_named(waiting: Waiting) -> None:
    answer = waiting.produce(large("a", key=None))
    await waiting.thread.run_next()
    response = await answer
    assert response is not None
    assert response.partitions[0].error_code is ErrorCode.INVALID_RECORD
    assert [each.batch_index for each in response.partitions[0].record_errors] == list(range(RECORD_ERRORS_MAX))
    assert waiting.partition.log.log_end_offset == 0


async def test_acks_0_has_no_answer_and_a_refusal_of_it_ends_the_stream(waiting: Waiting) -> None:
    answer = waiting.produce(large("a"), acks=0)
    refused = waiting.produce(large("b", key=None), acks=0)
    await waiting.thread.run_next()
    await waiting.thread.run_next()
    assert await answer is None
    with pytest.raises(Refusal, match="INVALID_RECORD"):
        await refused


async def test_acks_all_then_waits_for_the_replicas(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path)
    lead(waiting.partition, epoch=2)
    answer = waiting.produce(large("a"), acks=-1)
    await waiting.thread.run_next()
    waiting.broker.sync()
    await settle()
    assert not answer.done()
    fetched(waiting.partition, COUNT)
    assert await code_of(answer) is ErrorCode.NONE


async def test_a_retry_of_what_still_waits_is_a_duplicate_of_it(waiting: Waiting) -> None:
    first, retry = waiting.produce(large("a", sequence=0)), waiting.produce(large("a", sequence=0))
    await waiting.thread.run_next()
    await waiting.thread.run_next()
    assert [await code_of(each) for each in (first, retry)] == [ErrorCode.NONE] * 2
    assert waiting.values() == ["a"]


@pytest.mark.parametrize("end", ["follow", "retire", "close", "lead again"])
async def test_when_the_role_ends_what_waits_is_refused_and_never_appended(waiting: Waiting, end: str) -> None:
    answers = [waiting.produce(each) for each in (large("a"), small("b"))]
    await settle()
    log = waiting.partition.log
    match end:
        case "follow":
            follow(waiting.partition, epoch=2)
        case "retire":
            waiting.partition.retire()
        case "close":
            waiting.partition.close()
        case _:
            lead(waiting.partition, epoch=2, isr=(1,))
    await waiting.thread.run_next()
    assert [await code_of(each) for each in answers] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    assert log.log_end_offset == 0
    assert waiting.appends.waiting_bytes == 0


async def test_what_is_sent_behind_a_batch_that_was_refused_in_the_queue_waits_for_it(waiting: Waiting) -> None:
    first = waiting.produce(large("a", sequence=0))
    await settle()
    lead(waiting.partition, epoch=2, isr=(1,))
    behind = waiting.produce_at_once(small("b", sequence=COUNT))
    assert behind.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert await code_of(first) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    await waiting.thread.run_next()
    answers = [waiting.produce(each) for each in (large("a", sequence=0), small("b", sequence=COUNT))]
    await waiting.thread.run_next()
    assert [await code_of(each) for each in answers] == [ErrorCode.NONE] * 2
    assert waiting.values() == ["a", "b"]


async def test_a_batch_that_the_role_refuses_in_its_turn_refuses_what_waits_behind_it(tmp_path: Path) -> None:
    """The ISR shrinks below min.insync.replicas while the first batch is checked, and expands again."""
    waiting = Waiting(tmp_path, min_insync_replicas=2)
    lead(waiting.partition, epoch=2)
    first = WaitingClient()
    # The second is refused as soon as the first one is.
    first.go_on = lambda: lead(waiting.partition, epoch=2, partition_epoch=2)
    batches = (large("a", sequence=0), large("b", sequence=COUNT), large("c", sequence=2 * COUNT))
    answers = [
        waiting.produce(each, acks=-1, client=client) for each, client in zip(batches, (first, None, None), strict=True)
    ]
    await settle()
    lead(waiting.partition, epoch=2, isr=(1,), partition_epoch=1)
    await waiting.thread.run_next()
    assert [await code_of(each) for each in answers] == [ErrorCode.NOT_ENOUGH_REPLICAS] * 3
    assert waiting.values() == []


async def test_a_disk_that_ran_full_meanwhile_refuses_it(waiting: Waiting) -> None:
    answer = waiting.produce(large("a"))
    await settle()
    waiting.broker.is_full = True
    await waiting.thread.run_next()
    assert await code_of(answer) is ErrorCode.KAFKA_STORAGE_ERROR


async def test_what_was_looked_into_for_other_configs_is_looked_into_again(waiting: Waiting) -> None:
    answer = waiting.produce(large("a", key=None))
    await settle()
    waiting.partition.reconfigure(DEFAULTS)
    assert waiting.partition.log.config.compacts is False
    second = waiting.produce(small("b", key=None))
    await waiting.thread.run_next()
    assert await code_of(answer) is ErrorCode.INVALID_RECORD, "the topic was compacted when it was sent"
    assert await code_of(second) is ErrorCode.NONE

    compacting = dataclasses.replace(DEFAULTS, cleanup_policy=COMPACT)
    waiting.partition.reconfigure(compacting)
    keyed = waiting.produce(large("c"))
    await settle()
    waiting.partition.reconfigure(dataclasses.replace(compacting))
    await waiting.thread.run_next()
    assert not keyed.done()
    await waiting.thread.run_next()
    assert await code_of(keyed) is ErrorCode.NONE
    assert waiting.values() == ["b", "c"]


async def test_one_whose_time_is_over_is_answered_so_and_never_appended(waiting: Waiting) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    late, behind = waiting.produce(large("a"), timeout_ms=6_000), waiting.produce(small("b"))
    assert await code_of(late) is ErrorCode.REQUEST_TIMED_OUT
    assert loop.time() - began == pytest.approx(6)
    await waiting.thread.run_next()
    assert await code_of(behind) is ErrorCode.NONE
    assert waiting.values() == ["b"]


async def test_the_records_of_a_client_that_went_are_appended_all_the_same(waiting: Waiting) -> None:
    lead(waiting.partition, epoch=2)
    answer = waiting.produce(large("a"), acks=-1)
    await settle()
    answer.cancel()
    await waiting.thread.run_next()
    assert waiting.values() == ["a"]
    assert len(waiting.partition._produces) == 0


async def test_more_than_may_wait_is_refused_and_can_be_sent_again(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path, bytes_max=2 * len(large("a")))
    first = waiting.produce(large("a", sequence=0))
    refused = waiting.produce_at_once(large("b", sequence=COUNT))
    assert refused.error_code is ErrorCode.REQUEST_TIMED_OUT
    behind = waiting.produce(small("c", sequence=2 * COUNT))
    await waiting.thread.run_next()
    assert await code_of(first) is ErrorCode.NONE
    assert await code_of(behind) is ErrorCode.REQUEST_TIMED_OUT, "it was sent behind a refused batch"
    again = waiting.produce(large("b", sequence=COUNT))
    await waiting.thread.run_next()
    assert await code_of(again) is ErrorCode.NONE
    assert waiting.values() == ["a", "b"]


async def test_a_client_begins_nothing_more_until_its_appends_are_done(waiting: Waiting) -> None:
    went_on: list[bool] = []
    client = WaitingClient()
    client.go_on = lambda: went_on.append(client.has_to_wait)
    answers = [waiting.produce(each, client=client) for each in (large("a"), small("b"))]
    assert client.has_to_wait
    await waiting.thread.run_next()
    await settle()
    assert went_on == [False]
    await asyncio.gather(*answers)


async def test_an_error_of_our_own_ends_one_append_and_no_other(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path)
    first, second = waiting.produce(large("a")), waiting.produce(large("b"))
    await settle()
    done, _ = waiting.thread.submitted.pop(0)
    done.set_exception(ZeroDivisionError("a bug"))
    await settle()
    await waiting.thread.run_next()
    assert [await code_of(each) for each in (first, second)] == [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE]
    assert waiting.values() == ["b"]


async def test_a_directory_that_fails_under_one_append_refuses_those_behind_it(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path)
    answers = [waiting.produce(each) for each in (large("a"), small("b"))]
    await settle()
    waiting.broker.disk.fails_writes = True
    await waiting.thread.run_next()
    waiting.partition.retire()
    assert [await code_of(each) for each in answers] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2


async def test_a_queue_goes_on_after_it_was_empty(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path)
    waiting.appends._executor = InlineExecutor()
    for value in "abc":
        assert await code_of(waiting.produce(large(value))) is ErrorCode.NONE
    assert waiting.values() == ["a", "b", "c"]
