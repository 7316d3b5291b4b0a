"""A shard runs where its partition is led: it loads, decides, appends, answers what is committed, and resigns."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from kraft.model.errors import ErrorCode
from kraft.model.ids import Offset
from kraft.server.coordinator import shard_host
from kraft.server.coordinator.shard_host import HostSettings
from tests.support.counter_shard import FAILED, Add, Fail, Read, Sum, WaitFor
from tests.support.server.replicas import fetched, follow, lead, settle, values_in
from tests.unit.server.coordinator.coordinating import (
    LOADING,
    Coordinating,
    HeldExecutor,
    append_counts,
    append_foreign,
)

NOT_AVAILABLE, NOT_COORDINATOR = ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR


# --- loading -------------------------------------------------------------------------------------------------


async def test_a_coordinator_continues_from_the_log(tmp_path: Path) -> None:
    here = Coordinating(tmp_path)
    partition = await here.leading()
    append_counts(partition, 1, 2, 3)
    lead(partition, epoch=2, replicas=(1,))
    await settle()
    assert await here.do(Read()) == 6
    assert await here.do(Add(1)) == 7
    await here.close()


async def test_a_long_log_is_loaded_in_pieces(tmp_path: Path) -> None:
    here = Coordinating(tmp_path, settings=HostSettings(load_bytes_max=1))
    partition = await here.leading(segment_bytes=1_000)
    for _ in range(50):
        append_counts(partition, 1, 1)
        await settle()
    lead(partition, epoch=2, replicas=(1,))
    async with asyncio.timeout(60):
        while (count := await here.do(Read())) is LOADING:
            await settle()
    assert count == 100
    await here.close()


async def test_damaged_and_foreign_records_are_skipped_with_one_log_event(tmp_path: Path) -> None:
    here = Coordinating(tmp_path)
    partition = await here.leading()
    append_counts(partition, 1)
    append_foreign(partition, (b"count x", b"many"), (None, None), (b"another", b"5"), (b"count y", b"few"))
    append_counts(partition, 2)
    with capture_logs() as logs:
        lead(partition, epoch=2, replicas=(1,))
        await settle()
    assert await here.do(Read()) == 3
    (loaded,) = [event for event in logs if event["event"] == "coordinator loaded"]
    assert (loaded["records"], loaded["skipped"]) == (2, 4)
    assert "many" in loaded["reason_skipped"]
    assert loaded["log_level"] == "warning"
    assert loaded["partition"] == "__consumer_offsets-0"
    await here.close()


async def test_during_the_load_clients_are_sent_back(tmp_path: Path) -> None:
    executor = HeldExecutor()
    here = Coordinating(tmp_path, executor=executor)
    await here.loading(5)
    assert await here.do(Read()) is LOADING
    await executor.release()
    assert await here.do(Read()) == 5
    await here.close()


async def test_a_load_ends_with_the_leadership(tmp_path: Path) -> None:
    executor = HeldExecutor()
    here = Coordinating(tmp_path, executor=executor)
    partition = await here.loading(5)
    follow(partition, epoch=1)
    await executor.release()
    assert await here.do(Read()) is NOT_COORDINATOR
    lead(partition, epoch=2, replicas=(1,))
    await settle()
    await executor.release()
    assert await here.do(Read()) == 5
    await here.close()


async def test_a_coordinator_answers_once_the_log_it_began_with_is_committed(tmp_path: Path) -> None:
    here = Coordinating(tmp_path)
    partition = await here.leading()
    append_counts(partition, 5)
    lead(partition, epoch=2, replicas=(1, 2))
    append_counts(partition, 6)
    append_counts(partition, 7)
    lead(partition, epoch=3, replicas=(1, 2))
    await settle()
    assert partition.high_watermark == 1
    assert await here.do(Read()) is LOADING
    fetched(partition, 2)
    await settle()
    assert await here.do(Read()) is LOADING
    fetched(partition, 3)
    await settle()
    assert await here.do(Read()) == 18
    await here.close()


# --- deciding ------------------------------------------------------------------------------------------------


async def test_a_write_is_answered_when_its_records_are_committed(tmp_path: Path) -> None:
    here = Coordinating(tmp_path)
    partition = await here.leading(replicas=(1, 2))
    answer, read = here.send(Add(5)), here.send(Read())
    await settle()
    assert values_in(partition) == ["5"]
    assert not answer.done()
    assert not read.done()
    fetched(partition, 1)
    assert (await answer, await read) == (5, 5)
    await here.close()


async def test_ten_thousand_writes_in_flight_are_a_few_batches(tmp_path: Path) -> None:
    here = Coordinating(tmp_path)
    partition = await here.leading(replicas=(1, 2))
    answers = [here.send(Add(1)) for _ in range(10_000)]
    await settle()
    assert partition.log.log_end_offset == 10_000
    assert len(partition.log.read(Offset(0), 10 << 20, Offset(10_000))) < 200_000
    fetched(partition, 10_000)
    assert await asyncio.gather(*answers) == list(range(1, 10_001))
    await here.close()


async def test_a_request_that_waits_has_a_deadline(tmp_path: Path) -> None:
    here = Coordinating(tmp_path)
    await here.leading()
    assert await here.do(WaitFor(1, timeout_ms=10_000_000)) is NOT_AVAILABLE
    await here.close()


async def test_a_client_that_is_gone_leaves_nothing_behind(tmp_path: Path) -> None:
    here = Coordinating(tmp_path)
    await here.leading()
    gone = here.send(WaitFor(1))
    await settle()
    gone.cancel()
    await settle()
    assert await here.do(Add(1)) == 1
    await here.close()


async def test_the_requests_that_wait_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_host, "WAITING_REQUESTS_MAX", 2)
    here = Coordinating(tmp_path)
    await here.leading()
    waiters = [here.send(WaitFor(1)), here.send(WaitFor(1))]
    await settle()
    assert await here.do(Add(1)) is NOT_AVAILABLE
    waiters[0].cancel()
    await settle()
    assert await here.do(Add(1)) == 1
    assert await waiters[1] == 1
    await here.close()


async def test_a_commit_that_takes_too_long_is_answered(tmp_path: Path) -> None:
    here = Coordinating(tmp_path)
    partition = await here.leading(replicas=(1, 2))
    began = asyncio.get_running_loop().time()
    assert await here.do(Add(5)) is NOT_AVAILABLE
    assert asyncio.get_running_loop().time() - began == pytest.approx(5)
    fetched(partition, 1)
    await settle()
    assert await here.do(Read()) == 5
    await here.close()


async def test_an_internal_error_is_the_answer_to_one_request(tmp_path: Path) -> None:
    here = Coordinating(tmp_path)
    await here.leading()
    with capture_logs() as logs:
        assert await here.do(Fail()) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert [event["event"] for event in logs] == ["internal error"]
    assert await here.do(Add(1)) == 1
    await here.close()


async def test_a_group_of_another_broker_is_not_answered(tmp_path: Path) -> None:
    here = Coordinating(tmp_path, partitions=50)
    await here.leading()
    # Only partition 0 is led here.
    assert await here.do(Read()) is NOT_COORDINATOR
    assert await here.send(Read(), "") is ErrorCode.INVALID_GROUP_ID
    await here.close()


# --- leadership ----------------------------------------------------------------------------------------------


async def test_waiting_requests_are_refused_when_the_leadership_ends(tmp_path: Path) -> None:
    here = Coordinating(tmp_path)
    partition = await here.leading(replicas=(1, 2))
    uncommitted, waiter = here.send(Add(5)), here.send(WaitFor(100))
    await settle()
    follow(partition, epoch=2)
    assert (await uncommitted, await waiter) == (NOT_COORDINATOR, NOT_COORDINATOR)
    assert await here.do(Read()) is NOT_COORDINATOR
    await here.close()


async def test_a_new_epoch_begins_with_a_load(tmp_path: Path) -> None:
    here = Coordinating(tmp_path)
    partition = await here.leading(replicas=(1, 2))
    uncommitted = here.send(Add(5))
    await settle()
    lead(partition, epoch=2, replicas=(1,))
    assert await uncommitted is NOT_COORDINATOR
    await settle()
    # The record is in the log, and is committed in the new epoch.
    assert await here.do(Read()) == 5
    await here.close()


async def test_a_command_of_this_turn_is_not_appended_in_the_next_epoch(tmp_path: Path) -> None:
    here = Coordinating(tmp_path)
    partition = await here.leading()
    answer = here.send(Add(5))
    await asyncio.sleep(0)
    lead(partition, epoch=2, replicas=(1,))
    assert await answer is NOT_COORDINATOR
    await settle()
    assert values_in(partition) == []
    assert await here.do(Read()) == 0
    await here.close()


# --- appends that fail ---------------------------------------------------------------------------------------


async def test_a_full_disk_refuses_what_waits_and_the_coordinator_goes_on(tmp_path: Path) -> None:
    here = Coordinating(tmp_path)
    partition = await here.leading()
    assert await here.do(Add(1)) == 1
    here.broker.is_full = True
    waiter = here.send(WaitFor(100))
    await settle()
    with capture_logs() as logs:
        assert await here.do(Add(1)) is NOT_COORDINATOR
    assert [event["event"] for event in logs] == ["coordinator write failed"]
    assert await waiter is NOT_COORDINATOR
    assert await here.do(Read()) is NOT_AVAILABLE
    here.broker.is_full = False
    await asyncio.sleep(1)
    assert await here.do(Add(1)) == 2
    assert values_in(partition) == ["1", "1"]
    await here.close()


@pytest.mark.parametrize("fails", ["the write", "the sync"])
async def test_a_disk_that_fails_under_a_write_confirms_nothing_that_the_next_coordinator_lacks(
    tmp_path: Path, fails: str
) -> None:
    here = Coordinating(tmp_path, sync_before_ack=True)
    partition = await here.leading()
    confirmed, lost = here.send(Add(1)), here.send(WaitFor(100))
    await settle()
    here.broker.sync()
    assert await confirmed == 1
    in_flight = here.send(Add(2))
    await settle()
    here.broker.disk.fails_writes, here.broker.disk.fails_syncs = fails == "the write", fails == "the sync"
    later = [here.send(Add(10)) for _ in range(3)]
    await settle()
    here.broker.sync()
    assert here.broker.failures
    # As the broker does with every replica in a log directory that has failed.
    partition.retire()
    await settle()
    answers = await asyncio.gather(in_flight, lost, *later)
    assert set(answers) <= {NOT_COORDINATOR, ErrorCode.KAFKA_STORAGE_ERROR}, answers
    assert await here.do(Read()) in (NOT_COORDINATOR, NOT_AVAILABLE)
    await here.close()
    after_repair = Coordinating(tmp_path)
    await after_repair.leading(epoch=2)
    assert await after_repair.do(Read()) in (1, 3, 33), "what was written may be there, whole batches of it"
    await after_repair.close()


async def test_too_few_replicas_refuse_writes_alone(tmp_path: Path) -> None:
    here = Coordinating(tmp_path)
    await here.leading(replicas=(1, 2), min_insync_replicas=2)
    fetched(here.broker.partitions.by_name("__consumer_offsets", 0), 0)
    waiter = here.send(WaitFor(1))
    await settle()
    partition = here.broker.partitions.by_name("__consumer_offsets", 0)
    lead(partition, epoch=1, replicas=(1, 2), isr=(1,), partition_epoch=1)
    assert await here.do(Add(1)) is NOT_AVAILABLE
    assert await here.do(Read()) == 0
    lead(partition, epoch=1, replicas=(1, 2), isr=(1, 2), partition_epoch=2)
    answer = here.send(Add(1))
    await settle()
    fetched(partition, 1)
    assert (await answer, await waiter) == (1, 1)
    await here.close()


async def test_a_batch_waits_for_a_roll_of_the_log(tmp_path: Path) -> None:
    here = Coordinating(tmp_path)
    here.broker.thread.holds_steps = True
    partition = here.open(segment_bytes=200)
    lead(partition, epoch=1, replicas=(1,))
    await settle()
    answers = []
    for number in range(10):
        answers.append(here.send(Add(1)))
        answers.append(here.send(Add(number)))
        await settle()
    async with asyncio.timeout(60):
        while not all(answer.done() for answer in answers):
            here.broker.sync()
            await settle()
    counts = [await answer for answer in answers]
    assert counts == sorted(counts)
    assert counts[-1] == 10 + sum(range(10))
    await here.close()


async def test_the_leadership_ends_while_a_batch_waits_for_the_log(tmp_path: Path) -> None:
    here = Coordinating(tmp_path)
    here.broker.thread.holds_steps = True
    partition = here.open(segment_bytes=200)
    lead(partition, epoch=1, replicas=(1,))
    await settle()
    answer = here.send(Add(1))
    await settle()
    # The first batch of an epoch waits for a file.
    assert values_in(partition) == []
    follow(partition, epoch=2)
    assert await answer is NOT_COORDINATOR
    here.broker.sync()
    await settle()
    assert values_in(partition) == []
    await here.close()


# --- stopping ------------------------------------------------------------------------------------------------


async def test_a_broker_that_stops_waits_for_commits_and_refuses_the_rest(tmp_path: Path) -> None:
    here = Coordinating(tmp_path)
    partition = await here.leading(replicas=(1, 2))
    write, waiter = here.send(Add(1)), here.send(WaitFor(100))
    await settle()
    stopping = asyncio.create_task(here.coordinators.drain())
    await settle()
    assert await here.do(Read()) is NOT_AVAILABLE
    fetched(partition, 1)
    assert await write == 1
    await stopping
    assert await waiter is NOT_COORDINATOR
    await here.close()


async def test_a_broker_that_stops_does_not_wait_for_ever(tmp_path: Path) -> None:
    here = Coordinating(tmp_path)
    await here.leading(replicas=(1, 2))
    write = here.send(Add(1))
    await settle()
    await here.coordinators.drain()
    assert await write is NOT_COORDINATOR
    await here.close()


# --- work beside the shard -----------------------------------------------------------------------------------


async def test_work_is_done_in_a_thread_and_what_it_brings_is_decided(tmp_path: Path) -> None:
    executor = HeldExecutor()
    here = Coordinating(tmp_path, executor=executor)
    await here.leading()
    await executor.release()
    assert await here.do(Sum((Add(1), Add(2)))) == 0
    await settle()
    assert await here.do(Add(10)) == 10, "other requests do not wait for it"
    await executor.release()
    await settle()
    assert await here.do(Read()) == 13
    await here.close()


async def test_a_part_of_what_work_brings_is_decided_once_the_one_before_is_committed(tmp_path: Path) -> None:
    here = Coordinating(tmp_path)
    partition = await here.leading(replicas=(1, 2))
    working = here.send(Sum((Add(1), Add(2))))
    await settle()
    assert working.result() == 0
    assert values_in(partition) == ["1"]
    fetched(partition, 1)
    await settle()
    assert values_in(partition) == ["1", "2"]
    await here.close()


@pytest.mark.parametrize("work", [Sum((), fails=True), Sum((Add(1, padding=2**21), Add(2)))], ids=["bug", "refused"])
async def test_work_that_fails_is_logged_and_the_shard_learns_it(tmp_path: Path, work: Sum) -> None:
    here = Coordinating(tmp_path)
    await here.leading(max_message_bytes=1_000)
    with capture_logs() as logs:
        assert await here.do(work) == 0
        await settle()
    assert await here.do(Read()) == FAILED
    assert len([event for event in logs if event["log_level"] in ("warning", "error")]) == 1
    await here.close()


async def test_work_is_forgotten_with_the_leadership(tmp_path: Path) -> None:
    executor = HeldExecutor()
    here = Coordinating(tmp_path, executor=executor)
    partition = await here.leading()
    await executor.release()
    assert await here.do(Sum((Add(1),))) == 0
    await settle()
    follow(partition, epoch=2)
    lead(partition, epoch=3, replicas=(1,))
    await settle()
    await executor.release()
    assert await here.do(Read()) == 0
    await here.close()


# --- turns -----------------------------------------------------------------------------------------------------


async def test_replies_that_are_released_together_leave_in_several_turns(tmp_path: Path) -> None:
    here = Coordinating(tmp_path)
    await here.leading()
    waiting = [here.send(WaitFor(1)) for _ in range(10 * shard_host.REPLIES_AT_ONCE)]
    await settle()
    adding = here.send(Add(1))
    done, turns_with_some = 0, 0
    for _ in range(len(waiting)):
        await asyncio.sleep(0)
        answered = sum(task.done() for task in waiting)
        turns_with_some += answered > done
        assert answered - done <= 2 * shard_host.REPLIES_AT_ONCE, "too many at once"
        done = answered
    assert done == len(waiting)
    assert turns_with_some >= 5
    assert {task.result() for task in waiting} == {1}
    assert await adding == 1
    await here.close()


async def test_requests_that_wait_when_the_leadership_ends_are_all_refused(tmp_path: Path) -> None:
    here = Coordinating(tmp_path)
    partition = await here.leading()
    waiting = [here.send(WaitFor(1)) for _ in range(3 * shard_host.REPLIES_AT_ONCE)]
    await settle()
    follow(partition, epoch=2)
    async with asyncio.timeout(60):
        assert set(await asyncio.gather(*waiting)) == {NOT_COORDINATOR}
    await here.close()
