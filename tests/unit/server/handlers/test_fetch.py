from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path

import pytest
from msgspec.structs import replace

from kraft.log.change import run_now
from kraft.log.segment import batches, segment
from kraft.model.errors import ErrorCode
from kraft.model.fetch import FetchPartition, FetchRequest, FetchResponse
from kraft.model.ids import Offset
from kraft.model.replica_fetch import ReplicaFetchResult
from kraft.replication.effects import TruncateTo
from kraft.server.handlers import fetch as fetch_module
from kraft.server.handlers import fetch_results
from kraft.server.replica.partition import Partition
from tests.support.server.fetch_handlers import fetch_handler
from tests.support.server.replicas import (
    Broker,
    append_to,
    batch,
    fetched,
    follow,
    lead,
    leaders_batch,
    made,
    settle,
    values_of,
)
from tests.unit.server.handlers.fetches import asking, codes, committed, request, values


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


async def test_what_is_committed_is_answered_at_once_and_nothing_above_it(broker: Broker) -> None:
    partition = broker.open()
    lead(partition, epoch=4)
    for value in ("a", "b"):
        append_to(partition, batch(value), 1)
    broker.sync()
    fetched(partition, 1)
    response = await fetch_handler(broker.partitions).handle(request(asking(), max_wait_ms=60_000))
    assert values(response) == [["a"]]
    (result,) = response.partitions
    assert (response.request_id, result.high_watermark, result.log_start_offset) == (7, 1, 0)
    assert (result.leader_id, result.leader_epoch) == (1, 4)


async def test_a_fetch_of_a_consumer_costs_the_same_with_any_number_of_replicas(tmp_path: Path) -> None:
    reads = []
    for replicas in ((1,), (1, 2, 3)):
        broker = Broker(tmp_path / str(len(replicas)))
        partition = broker.open()
        lead(partition, replicas=replicas)
        for value in ("a", "b", "c"):
            append_to(partition, batch(value), 1)
        broker.sync()
        for follower in replicas[1:]:
            fetched(partition, 3, broker_id=follower, broker_epoch=follower)
        broker.disk.read.clear()
        began = asyncio.get_running_loop().time()
        # The followers are not there to be asked: whoever waited for them would wait for ever.
        response = await fetch_handler(broker.partitions).handle(request(asking(), max_wait_ms=60_000))
        assert values(response) == [["a", "b", "c"]]
        assert asyncio.get_running_loop().time() == began
        reads.append([Path(each).name for each in broker.disk.read])
    assert reads[0] == reads[1] != []


async def test_a_consumer_at_the_end_waits_and_is_woken_by_the_high_watermark_not_by_the_append(broker: Broker) -> None:
    partition = broker.open()
    lead(partition)
    began = asyncio.get_running_loop().time()
    waiting = asyncio.ensure_future(fetch_handler(broker.partitions).handle(request(asking(), max_wait_ms=60_000)))
    await settle()
    append_to(partition, batch("a"), 1)
    broker.sync()
    await settle()
    assert not waiting.done()
    fetched(partition, 1)
    assert values(await waiting) == [["a"]]
    assert asyncio.get_running_loop().time() == began


async def test_a_wait_ends_with_an_empty_answer_that_still_tells_the_high_watermark(broker: Broker) -> None:
    committed(broker, "a")
    began = asyncio.get_running_loop().time()
    response = await fetch_handler(broker.partitions).handle(request(asking(1), max_wait_ms=500))
    assert asyncio.get_running_loop().time() - began == pytest.approx(0.5)
    assert values(response) == [[]]
    assert response.partitions[0].high_watermark == 1


async def test_fewer_than_the_wanted_bytes_are_waited_with(broker: Broker) -> None:
    partition = committed(broker, "a")
    wanted = request(asking(), max_wait_ms=60_000, min_bytes=len(batch("a")) + 1)
    waiting = asyncio.ensure_future(fetch_handler(broker.partitions).handle(wanted))
    await settle()
    assert not waiting.done()
    append_to(partition, batch("b"), 1)
    broker.sync()
    assert values(await waiting) == [["a", "b"]]


async def test_no_more_bytes_are_waited_for_than_the_answer_may_have(broker: Broker) -> None:
    committed(broker, "a", "b", "c")
    began = asyncio.get_running_loop().time()
    size = len(batch("a"))
    wanted = request(asking(), max_bytes=2 * size, min_bytes=3 * size, max_wait_ms=60_000)
    assert values(await fetch_handler(broker.partitions).handle(wanted)) == [["a", "b"]]
    assert asyncio.get_running_loop().time() == began


async def test_records_of_the_next_segment_are_not_waited_for(broker: Broker) -> None:
    partition = committed(broker, "a", "b")
    run_now(partition.log.rolling())
    append_to(partition, batch("c"), 1)
    broker.sync()
    began = asyncio.get_running_loop().time()
    handler = fetch_handler(broker.partitions)
    size = len(batch("a"))
    wanted = request(asking(), min_bytes=3 * size, max_wait_ms=60_000)
    assert values(await handler.handle(wanted)) == [["a", "b"]]
    assert asyncio.get_running_loop().time() == began
    assert values(await handler.handle(request(asking(2), min_bytes=size + 1, max_wait_ms=500))) == [["c"]]
    assert asyncio.get_running_loop().time() == pytest.approx(began + 0.5), "the last segment has no more"


async def test_records_that_do_not_fit_into_the_response_count_as_there(broker: Broker) -> None:
    committed(broker, "a" * 100, "b" * 100)
    committed(broker, "c" * 100, "d" * 100, number=1)
    began = asyncio.get_running_loop().time()
    handler = fetch_handler(broker.partitions)
    one = len(batch("a" * 100))
    wanted = request(asking(bytes_max=2 * one - 1), max_bytes=2 * one - 1, min_bytes=2 * one - 1, max_wait_ms=60_000)
    assert values(await handler.handle(wanted)) == [["a" * 100]]
    small = asking(1, bytes_max=one), asking(number=1, bytes_max=one // 2)
    wanted = request(*small, max_bytes=1 << 20, min_bytes=one + one // 2, max_wait_ms=60_000)
    assert values(await handler.handle(wanted)) == [["b" * 100], []]
    assert asyncio.get_running_loop().time() == began
    wanted = request(*small, max_bytes=1 << 20, min_bytes=one + one // 2 + 1, max_wait_ms=500)
    await handler.handle(wanted)
    assert asyncio.get_running_loop().time() > began, "a partition counts up to its own limit"


async def test_offsets_without_records_count_as_none(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compaction may have removed the last records below the high watermark."""
    committed(broker, "a")
    emptied = committed(broker, "b", number=1)
    monkeypatch.setattr(type(emptied.log), "is_sparse", True)
    monkeypatch.setattr(emptied.replica_log, "read", lambda *_, **__: b"")
    began = asyncio.get_running_loop().time()
    wanted = request(asking(), asking(number=1), min_bytes=1_000, max_wait_ms=500)
    assert values(await fetch_handler(broker.partitions).handle(wanted)) == [["a"], []]
    assert asyncio.get_running_loop().time() == pytest.approx(began + 0.5)


async def test_a_request_for_no_bytes_or_for_no_partition_is_answered_at_once(broker: Broker) -> None:
    committed(broker)
    began = asyncio.get_running_loop().time()
    handler = fetch_handler(broker.partitions)
    assert values(await handler.handle(request(asking(), max_wait_ms=60_000, min_bytes=0))) == [[]]
    assert values(await handler.handle(request(max_wait_ms=60_000))) == []
    assert asyncio.get_running_loop().time() == began


async def test_the_first_batch_is_given_whatever_its_size_and_no_other(broker: Broker) -> None:
    committed(broker, number=0)
    for number in (1, 2):
        committed(broker, "x" * 1_000, "y" * 1_000, number=number)
    handler = fetch_handler(broker.partitions)
    for bytes_max in (-1, 0, 1, 500):
        partitions = [asking(number=number, bytes_max=bytes_max) for number in (0, 1, 2)]
        response = await handler.handle(request(*partitions, max_bytes=bytes_max))
        assert values(response) == [[], ["x" * 1_000], []]


async def test_the_bound_of_a_partition_and_that_of_the_request_hold_both(broker: Broker) -> None:
    size = len(batch("a"))
    for number in (0, 1, 2):
        committed(broker, "a", "b", "c", number=number)
    partitions = [asking(number=number, bytes_max=2 * size) for number in (0, 1, 2)]
    response = await fetch_handler(broker.partitions).handle(request(*partitions, max_bytes=3 * size))
    assert values(response) == [["a", "b"], ["a"], []]


async def test_an_answer_never_outgrows_what_one_message_may_hold(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_module, "RESPONSE_BYTES_MAX", 3 * len(batch("a")))
    committed(broker, "a", "b", "c", "d", "e")
    greedy = request(asking(bytes_max=2**31 - 1), max_bytes=2**31 - 1)
    assert values(await fetch_handler(broker.partitions).handle(greedy)) == [["a", "b", "c"]]
    greedy = request(asking(bytes_max=2**31 - 1), max_bytes=2**31 - 1, min_bytes=2**31 - 1, max_wait_ms=60_000)
    began = asyncio.get_running_loop().time()
    await fetch_handler(broker.partitions).handle(greedy)
    assert asyncio.get_running_loop().time() == began, "more than fits is not waited for"


@pytest.mark.parametrize(("offset", "code"), [(-1, ErrorCode.OFFSET_OUT_OF_RANGE), (2, ErrorCode.OFFSET_OUT_OF_RANGE)])
async def test_an_offset_outside_the_log_is_refused_at_once(broker: Broker, offset: int, code: ErrorCode) -> None:
    committed(broker, "a")
    response = await fetch_handler(broker.partitions).handle(request(asking(offset), max_wait_ms=60_000))
    assert codes(response) == [code]
    assert response.partitions[0].log_start_offset == 0


def corrupt_last_byte(partition: Partition) -> None:
    path = Path(partition.log.segments()[-1].path)
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")


async def test_corrupt_bytes_are_not_returned_and_their_replica_is_reported(broker: Broker) -> None:
    partition = committed(broker, "a", "b")
    corrupt_last_byte(partition)
    handler = fetch_handler(broker.partitions)
    (first,) = (await handler.handle(request(asking(bytes_max=1)))).partitions
    assert (first.error_code, values_of(first.records)) == (ErrorCode.NONE, ["a"])
    response = await handler.handle(request(asking(1), max_wait_ms=60_000))
    assert (codes(response), values(response)) == ([ErrorCode.KAFKA_STORAGE_ERROR], [[]])
    assert len(broker.corrupt) == 1


async def test_a_log_that_cannot_be_read_fails_its_directory(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = committed(broker, "a")

    def fail(position: int, size: int) -> bytes:
        raise OSError("input/output error")

    monkeypatch.setattr(partition.log._files.active.file, "read_at", fail, raising=False)
    response = await fetch_handler(broker.partitions).handle(request(asking(), max_wait_ms=60_000))
    assert (codes(response), values(response)) == ([ErrorCode.KAFKA_STORAGE_ERROR], [[]])
    assert len(broker.failures) == 1


async def test_an_offset_that_is_written_but_not_committed_is_waited_at_and_no_error(broker: Broker) -> None:
    partition = broker.open()
    lead(partition)
    append_to(partition, batch("a", "b"), 1)
    response = await fetch_handler(broker.partitions).handle(request(asking(2), max_wait_ms=10))
    assert (codes(response), values(response)) == ([ErrorCode.NONE], [[]])


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (2, ErrorCode.FENCED_LEADER_EPOCH),
        (3, ErrorCode.NONE),
        (4, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (-1, ErrorCode.NONE),
    ],
)
async def test_a_consumer_is_fenced_by_the_leader_epoch_it_knows(broker: Broker, epoch: int, code: ErrorCode) -> None:
    lead(broker.open(), epoch=3)
    assert codes(await fetch_handler(broker.partitions).handle(request(asking(epoch=epoch)))) == [code]


async def test_a_consumer_that_waits_at_a_leader_that_is_demoted_is_sent_to_the_next_one(broker: Broker) -> None:
    partition = broker.open()
    lead(partition)
    waiting = asyncio.ensure_future(fetch_handler(broker.partitions).handle(request(asking(), max_wait_ms=60_000)))
    await settle()
    follow(partition, leader=2, epoch=1)
    response = await waiting
    assert codes(response) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert (response.partitions[0].leader_id, response.partitions[0].leader_epoch) == (2, 1)


async def test_a_consumer_that_waits_at_a_topic_that_is_deleted_hears_of_it(broker: Broker) -> None:
    partition = committed(broker)
    waiting = asyncio.ensure_future(fetch_handler(broker.partitions).handle(request(asking(), max_wait_ms=60_000)))
    await settle()
    broker.partitions.remove(partition)
    partition.retire()
    assert codes(await waiting) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


async def test_a_consumer_that_waits_at_a_leader_that_closes_its_log_is_refused_at_once(broker: Broker) -> None:
    partition = committed(broker)
    began = asyncio.get_running_loop().time()
    waiting = asyncio.ensure_future(fetch_handler(broker.partitions).handle(request(asking(), max_wait_ms=60_000)))
    await settle()
    partition.close()
    assert codes(await waiting) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert asyncio.get_running_loop().time() == began


async def test_a_consumer_that_waits_at_a_leader_that_is_elected_again_is_fenced_at_once(broker: Broker) -> None:
    partition = committed(broker)
    began = asyncio.get_running_loop().time()
    wanted = request(asking(epoch=partition.leader_epoch), max_wait_ms=60_000)
    waiting = asyncio.ensure_future(fetch_handler(broker.partitions).handle(wanted))
    await settle()
    lead(partition, replicas=(1,), epoch=partition.leader_epoch + 1)
    assert codes(await waiting) == [ErrorCode.FENCED_LEADER_EPOCH]
    assert asyncio.get_running_loop().time() == began


async def test_an_error_of_one_partition_keeps_the_records_of_the_others_from_waiting(broker: Broker) -> None:
    committed(broker, "a")
    response = await fetch_handler(broker.partitions).handle(
        request(asking(), asking(number=9), max_wait_ms=60_000, min_bytes=1 << 20)
    )
    assert codes(response) == [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert values(response) == [["a"], []]


async def test_a_consumer_that_goes_leaves_nothing_behind(broker: Broker) -> None:
    partition = committed(broker)
    waiting = asyncio.ensure_future(fetch_handler(broker.partitions).handle(request(asking(), max_wait_ms=60_000)))
    await settle()
    waiting.cancel()
    await settle()
    assert not partition.committed._watchers


async def test_others_have_their_turn_while_very_many_partitions_are_read(broker: Broker) -> None:
    committed(broker, "a")
    reading = asyncio.ensure_future(fetch_handler(broker.partitions).handle(request(*[asking()] * 2_000)))
    turns = 0
    while not reading.done():
        await asyncio.sleep(0)
        turns += 1
    # The first ones are read before the request is awaited.
    assert turns >= 2_000 // fetch_module.PARTITIONS_AT_ONCE - 1


async def test_others_have_their_turn_while_much_is_read(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        committed(broker, "a", number=number)
    monkeypatch.setattr(fetch_module, "TURN_S_MAX", 0.0)
    begun = fetch_handler(broker.partitions).begin(request(*[asking(number=number) for number in range(5)]))
    assert isinstance(begun, Awaitable)
    reading = asyncio.ensure_future(begun)
    turns = 0
    while not reading.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 4
    assert values(reading.result()) == [["a"]] * 5


async def test_what_came_while_much_was_read_is_not_waited_for(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    first = committed(broker, number=0)
    for number in (1, 2):
        committed(broker, number=number)
    monkeypatch.setattr(fetch_module, "TURN_S_MAX", 0.0)
    wanted = request(*[asking(number=number) for number in range(3)], max_wait_ms=60_000)
    begun = fetch_handler(broker.partitions).begin(wanted)
    assert isinstance(begun, Awaitable)
    reading = asyncio.ensure_future(begun)
    await asyncio.sleep(0)
    append_to(first, batch("late"), 1)
    broker.sync()
    began = asyncio.get_running_loop().time()
    assert values(await reading) == [["late"], [], []]
    assert asyncio.get_running_loop().time() == began


async def test_a_fetch_waits_for_no_more_than_one_read_can_return(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "READ_BATCHES_MAX", 3)
    monkeypatch.setattr(fetch_results, "READ_BATCHES_MAX", 3)
    committed(broker, "a", "b", "c", "d", "e")
    began = asyncio.get_running_loop().time()
    for offset, expected in ((0, ["a", "b", "c"]), (3, ["d", "e"])):
        wait_ms = 60_000 if offset == 0 else 0
        wanted = request(asking(offset, bytes_max=1 << 20), max_bytes=1 << 20, min_bytes=1 << 20, max_wait_ms=wait_ms)
        assert values(await fetch_handler(broker.partitions).handle(wanted)) == [expected]
    monkeypatch.setattr(segment, "READ_BYTES_MAX", 2 * len(batch("a")))
    monkeypatch.setattr(fetch_results, "READ_BYTES_MAX", 2 * len(batch("a")))
    wanted = request(asking(bytes_max=1 << 20), max_bytes=1 << 20, min_bytes=1 << 20, max_wait_ms=60_000)
    assert values(await fetch_handler(broker.partitions).handle(wanted)) == [["a", "b"]]
    assert asyncio.get_running_loop().time() == began


async def test_what_is_there_is_begun_and_answered_in_one(broker: Broker) -> None:
    committed(broker, "a")
    handler = fetch_handler(broker.partitions)
    for wanted in (request(asking(), max_wait_ms=60_000), request(asking(1), max_wait_ms=0)):
        assert isinstance(handler.begin(wanted), FetchResponse)
    assert isinstance(handler.begin(request(asking(1_000), max_wait_ms=60_000)), FetchResponse), "an error to tell"
    awaited = handler.handle(request(asking()))
    assert isinstance(awaited, asyncio.Future)
    assert awaited.done(), "no task is needed to await it"
    at_the_end = handler.begin(request(asking(1), max_wait_ms=500))
    assert isinstance(at_the_end, Awaitable)
    assert values(await at_the_end) == [[]]


async def test_records_committed_between_reading_and_waiting_are_not_missed(broker: Broker) -> None:
    partition = committed(broker, "a")
    began = asyncio.get_running_loop().time()
    begun = fetch_handler(broker.partitions).begin(request(asking(1), max_wait_ms=60_000))
    append_to(partition, batch("b"), 1)
    broker.sync()
    assert isinstance(begun, Awaitable)
    assert values(await begun) == [["b"]]
    assert asyncio.get_running_loop().time() == began


# --- comparing replicas ---------------------------------------------------------------------------------------------


def followed(broker: Broker, *values: str, high_watermark: int) -> Partition:
    """A partition that this broker follows, with one batch for each value."""
    partition = broker.open(high_watermark=high_watermark)
    follow(partition)
    for at, value in enumerate(values):
        made(partition, partition.append_as_follower(leaders_batch(value, at=at)))
    broker.sync_all()
    return partition


def of_replica(*wanted: FetchPartition, max_wait_ms: int = 0) -> FetchRequest:
    return replace(request(*wanted, max_wait_ms=max_wait_ms), of_replica=True, reads_committed=True)


def leader_commits(partition: Partition, high_watermark: int) -> None:
    """Take the leader's answer that everything below is committed, as the follower's fetcher does."""
    follower = partition.follower
    assert follower is not None
    position = follower.next_fetch()
    assert position is not None
    result = ReplicaFetchResult(
        topic_id=partition.topic_id,
        partition=0,
        error_code=ErrorCode.NONE,
        leader_epoch=0,
        high_watermark=high_watermark,
        log_start_offset=0,
    )
    if follower.answered(position, result):
        partition.committed.notify()


async def test_a_follower_is_compared_up_to_its_own_high_watermark_and_serves_no_consumer(broker: Broker) -> None:
    partition = followed(broker, "a", "b", "c", high_watermark=0)
    leader_commits(partition, 2)
    handler = fetch_handler(broker.partitions)
    response = await handler.handle(of_replica(asking()))
    assert (codes(response), values(response)) == ([ErrorCode.NONE], [["a", "b"]])
    assert response.partitions[0].high_watermark == 2
    assert codes(await handler.handle(request(asking()))) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


async def test_a_leader_is_compared_like_its_followers(broker: Broker) -> None:
    committed(broker, "a", "b")
    assert values(await fetch_handler(broker.partitions).handle(of_replica(asking()))) == [["a", "b"]]


async def test_a_comparison_waits_for_the_followers_high_watermark(broker: Broker) -> None:
    partition = followed(broker, "a", high_watermark=0)
    began = asyncio.get_running_loop().time()
    handler = fetch_handler(broker.partitions)
    waiting = asyncio.ensure_future(handler.handle(of_replica(asking(), max_wait_ms=60_000)))
    await settle()
    assert not waiting.done()
    leader_commits(partition, 1)
    assert values(await waiting) == [["a"]]
    assert asyncio.get_running_loop().time() == began


async def test_a_follower_is_not_read_while_it_is_truncated_closed_or_in_another_epoch(broker: Broker) -> None:
    partition = followed(broker, "a", "b", high_watermark=0)
    leader_commits(partition, 1)
    handler = fetch_handler(broker.partitions)
    truncation = partition.truncate(TruncateTo(offset=Offset(1)))
    if not truncation.is_done:
        assert codes(await handler.handle(of_replica(asking()))) == [ErrorCode.REPLICA_NOT_AVAILABLE]
    made(partition, truncation)
    assert values(await handler.handle(of_replica(asking()))) == [["a"]]
    assert codes(await handler.handle(of_replica(asking(epoch=5)))) == [ErrorCode.UNKNOWN_LEADER_EPOCH]
    partition.close()
    assert codes(await handler.handle(of_replica(asking()))) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
