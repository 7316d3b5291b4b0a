from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import UUID

import pytest
from msgspec.structs import replace

from kraft.model.errors import ErrorCode
from kraft.model.ids import BrokerId, Offset, TopicId, TopicPartition
from kraft.model.replica_fetch import (
    ReplicaFetchPartition,
    ReplicaFetchRequest,
    ReplicaFetchResponse,
    ReplicaFetchResult,
)
from kraft.model.throttled_replicas import ReplicaNames
from kraft.server.handlers.replica_fetch import HIGH_WATERMARK_PERIOD_MS, ReplicaFetchHandler
from kraft.server.replica.partition import Partition
from tests.support.cluster_images import ORDERS
from tests.support.server.replicas import (
    Broker,
    append_to,
    batch,
    fetched,
    follow,
    lead,
    made,
    outcome,
    settle,
    values_of,
)


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


def asking(
    offset: int,
    *,
    last_epoch: int = -1,
    leader_epoch: int = 0,
    high_watermark: int = 0,
    number: int = 0,
    topic_id: TopicId = ORDERS,
    bytes_max: int = 1 << 20,
) -> ReplicaFetchPartition:
    return ReplicaFetchPartition(
        topic_id=topic_id,
        partition=number,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        current_leader_epoch=leader_epoch,
        log_start_offset=0,
        high_watermark=high_watermark,
        partition_max_bytes=bytes_max,
    )


def request(
    *partitions: ReplicaFetchPartition, broker_id: int = 2, broker_epoch: int = 2, max_bytes: int = 1 << 20
) -> ReplicaFetchRequest:
    return ReplicaFetchRequest(
        replica_id=broker_id,
        broker_epoch=broker_epoch,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=max_bytes,
        partitions=list(partitions),
    )


async def answer(broker: Broker, asked: ReplicaFetchRequest) -> ReplicaFetchResponse:
    return (await ReplicaFetchHandler(broker.partitions, broker.throttles.leader).handle(asked))()


async def ask(broker: Broker, *partitions: ReplicaFetchPartition, broker_epoch: int = 2) -> ReplicaFetchResult:
    response = await answer(broker, request(*partitions, broker_epoch=broker_epoch))
    (result,) = response.partitions
    return result


def begin(broker: Broker, *partitions: ReplicaFetchPartition) -> asyncio.Task[ReplicaFetchResponse]:
    return asyncio.create_task(answer(broker, request(*partitions)))


def caught_up(broker: Broker) -> Partition:
    """A partition with one record, which the follower has."""
    partition = broker.open()
    lead(partition)
    append_to(partition, batch("a"), 1)
    broker.sync()
    fetched(partition, 1)
    return partition


async def test_a_follower_gets_everything_in_the_log_committed_or_not(broker: Broker) -> None:
    partition = broker.open()
    lead(partition)
    append_to(partition, batch("a"), -1)
    append_to(partition, batch("b"), -1)
    result = await ask(broker, asking(0))
    assert values_of(result.records) == ["a", "b"]
    assert (result.error_code, result.leader_epoch, result.high_watermark) == (ErrorCode.NONE, 0, 0)


async def test_a_fetch_is_the_promise_of_what_is_on_the_followers_disk(broker: Broker) -> None:
    partition = broker.open()
    lead(partition)
    append_to(partition, batch("a"), -1)
    parked = partition.park_produce(Offset(1))
    broker.sync()
    await ask(broker, asking(0))
    assert outcome(parked) is None, "it was sent, which is not yet stored"
    result = await ask(broker, asking(1, last_epoch=0))
    assert outcome(parked) is ErrorCode.NONE
    assert (result.high_watermark, result.records) == (1, b""), "the news is the high watermark alone"


async def test_a_follower_at_the_end_waits_for_the_next_append(broker: Broker) -> None:
    partition = broker.open()
    lead(partition)
    waiting = begin(broker, asking(0))
    await settle()
    assert not waiting.done()
    append_to(partition, batch("a"), -1)
    (result,) = (await waiting).partitions
    assert values_of(result.records) == ["a"]


async def test_a_high_watermark_that_moves_on_is_news_for_a_follower_that_waits(broker: Broker) -> None:
    partition = broker.open()
    lead(partition, replicas=(1, 2, 3))
    append_to(partition, batch("a"), -1)
    broker.sync()
    waiting = begin(broker, asking(1, last_epoch=0))
    await settle()
    assert not waiting.done()
    fetched(partition, 1, broker_id=3, broker_epoch=3)
    (result,) = (await waiting).partitions
    assert (result.high_watermark, result.records) == (1, b"")


async def test_a_high_watermark_alone_waits_for_records_to_go_with_it_but_not_long(broker: Broker) -> None:
    partition = broker.open()
    lead(partition, replicas=(1, 2, 3))
    for value in ("a", "b"):
        append_to(partition, batch(value), -1)
    broker.sync()
    loop = asyncio.get_running_loop()
    for end, brings in ((1, []), (2, ["c"])):
        waiting = begin(broker, asking(2, last_epoch=0, high_watermark=end - 1))
        await settle()
        began_s = loop.time()
        fetched(partition, end, broker_id=3, broker_epoch=3)
        await settle()
        assert not waiting.done()
        for value in brings:
            append_to(partition, batch(value), -1)
        (result,) = (await waiting).partitions
        assert (result.high_watermark, values_of(result.records)) == (end, brings)
        assert loop.time() - began_s <= (0 if brings else HIGH_WATERMARK_PERIOD_MS / 1_000 + 0.001)


async def test_the_high_watermarks_of_many_partitions_are_told_at_one_moment(broker: Broker) -> None:
    partitions = [broker.open(TopicPartition("orders", number)) for number in range(3)]
    for partition in partitions:
        lead(partition, replicas=(1, 2, 3))
        append_to(partition, batch("a"), -1)
    broker.sync()
    waiting = [begin(broker, asking(1, last_epoch=0, number=number)) for number in range(3)]
    told_at_s: list[float] = []
    loop = asyncio.get_running_loop()
    for task in waiting:
        task.add_done_callback(lambda _: told_at_s.append(loop.time()))
    await settle()
    for partition in partitions:
        await asyncio.sleep(HIGH_WATERMARK_PERIOD_MS / 10_000)
        fetched(partition, 1, broker_id=3, broker_epoch=3)
    await asyncio.wait(waiting)
    await settle()
    assert len(told_at_s) == 3
    assert max(told_at_s) - min(told_at_s) < HIGH_WATERMARK_PERIOD_MS / 100_000


async def test_a_follower_is_not_answered_at_once_where_compaction_left_no_records(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = caught_up(broker)
    monkeypatch.setattr(type(partition.log), "is_sparse", True)
    assert values_of((await ask(broker, asking(0, high_watermark=1))).records) == ["a"]
    monkeypatch.setattr(partition.replica_log, "read", lambda *_, **__: b"")
    began = asyncio.get_running_loop().time()
    assert (await ask(broker, asking(0, high_watermark=1))).records == b""
    assert asyncio.get_running_loop().time() - began == pytest.approx(0.5)


async def test_without_news_the_wait_ends_in_an_empty_answer(broker: Broker) -> None:
    lead(broker.open())
    began = asyncio.get_running_loop().time()
    result = await ask(broker, asking(0))
    assert asyncio.get_running_loop().time() - began == pytest.approx(0.5)
    assert (result.error_code, result.records) == (ErrorCode.NONE, b"")


async def test_a_follower_whose_log_diverges_learns_where_and_makes_no_progress(broker: Broker) -> None:
    partition = broker.open()
    lead(partition, epoch=1)
    append_to(partition, batch("a"), -1)
    broker.sync()
    follow(partition, epoch=2)
    lead(partition, epoch=3)
    parked = partition.park_produce(Offset(1))
    result = await ask(broker, asking(4, last_epoch=2, leader_epoch=3))
    assert (result.diverging_epoch, result.diverging_end_offset, result.records) == (1, 1, b"")
    assert outcome(parked) is None


@pytest.mark.parametrize(("epoch", "code"), [(2, ErrorCode.FENCED_LEADER_EPOCH), (4, ErrorCode.UNKNOWN_LEADER_EPOCH)])
async def test_a_follower_of_another_epoch_is_refused_at_once(broker: Broker, epoch: int, code: ErrorCode) -> None:
    lead(broker.open(), epoch=3)
    began = asyncio.get_running_loop().time()
    assert (await ask(broker, asking(0, leader_epoch=epoch))).error_code is code
    assert asyncio.get_running_loop().time() == began


async def test_a_fetch_of_an_earlier_life_of_the_follower_counts_for_nothing(broker: Broker) -> None:
    partition = broker.open()
    lead(partition)
    append_to(partition, batch("a"), -1)
    broker.sync()
    await ask(broker, asking(0), broker_epoch=7)
    stale = await ask(broker, asking(1, last_epoch=0), broker_epoch=6)
    assert stale.error_code is ErrorCode.STALE_BROKER_EPOCH
    assert partition.high_watermark == 0


async def test_a_fetch_past_the_end_of_the_log_is_out_of_range(broker: Broker) -> None:
    lead(broker.open())
    result = await ask(broker, asking(9))
    assert (result.error_code, result.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 0)


async def test_an_empty_log_that_begins_above_what_is_kept_makes_no_progress_outside_the_isr(broker: Broker) -> None:
    """It was restarted there under a leader that an unclean election replaced, and lacks what this one wrote below."""
    partition = broker.open()
    lead(partition, isr=(1,))
    for value in ("a", "b"):
        append_to(partition, batch(value), 1)
    broker.sync()
    result = await ask(broker, asking(2))
    assert (result.error_code, result.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 0)
    assert broker.proposals == []


async def test_a_late_fetch_from_before_a_log_began_again_makes_no_progress(broker: Broker) -> None:
    """The follower joined the ISR meanwhile, but has less than its earlier log seemed to have."""
    partition = broker.open()
    lead(partition, isr=(1,))
    await ask(broker, asking(0))
    lead(partition, isr=(1, 2), partition_epoch=1)
    for value in ("a", "b"):
        append_to(partition, batch(value), -1)
    broker.sync()
    parked = partition.park_produce(Offset(2))
    result = await ask(broker, asking(2))
    assert result.error_code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert outcome(parked) is None


async def test_an_empty_log_in_the_isr_begins_where_its_last_leader_had_deleted_everything(broker: Broker) -> None:
    partition = broker.open()
    lead(partition)
    for value in ("a", "b"):
        append_to(partition, batch(value), 1)
    broker.sync()
    lead(partition, epoch=1)
    append_to(partition, batch("c"), 1)
    result = await ask(broker, asking(2, leader_epoch=1))
    assert values_of(result.records) == ["c"]


async def test_a_topic_of_the_same_name_but_another_id_is_not_this_one(broker: Broker) -> None:
    partition = broker.open()
    lead(partition)
    append_to(partition, batch("a"), -1)
    result = await ask(broker, asking(0, topic_id=TopicId(UUID(int=200))))
    assert (result.error_code, result.records) == (ErrorCode.UNKNOWN_TOPIC_ID, b"")


async def test_a_waiting_follower_is_refused_when_its_leader_is_demoted(broker: Broker) -> None:
    partition = broker.open()
    lead(partition)
    waiting = begin(broker, asking(0))
    await settle()
    follow(partition, epoch=1)
    (result,) = (await waiting).partitions
    assert (result.error_code, result.leader_epoch) == (ErrorCode.FENCED_LEADER_EPOCH, 1)


async def test_a_wait_that_outlives_a_change_of_epoch_gets_nothing_of_the_new_one(broker: Broker) -> None:
    partition = broker.open()
    lead(partition)
    waiting = begin(broker, asking(0))
    await settle()
    lead(partition, epoch=1)
    append_to(partition, batch("a"), -1)
    (result,) = (await waiting).partitions
    assert (result.error_code, result.records) == (ErrorCode.FENCED_LEADER_EPOCH, b"")


async def test_the_first_batch_is_given_whatever_its_size_and_no_other(broker: Broker) -> None:
    for number in (0, 1, 2):
        partition = broker.open(TopicPartition("orders", number))
        lead(partition)
        if number:
            append_to(partition, batch("x" * 1_000), 1)
            append_to(partition, batch("y" * 1_000), 1)
    for max_bytes in (0, 1, 500):
        wanted = [asking(0, number=number) for number in (0, 1, 2)]
        response = await answer(broker, request(*wanted, max_bytes=max_bytes))
        assert [values_of(result.records) for result in response.partitions] == [[], ["x" * 1_000], []]


async def test_a_caught_up_follower_is_proposed_for_the_isr(broker: Broker) -> None:
    lead(broker.open(), isr=(1,))
    await ask(broker, asking(0))
    (proposal,) = broker.proposals
    assert [(member.broker_id, member.broker_epoch) for member in proposal.isr] == [(1, 1), (2, 2)]


async def test_a_log_start_that_moves_on_is_news_for_a_follower_that_waits(broker: Broker) -> None:
    partition = caught_up(broker)
    at_the_end = asking(1, last_epoch=0, high_watermark=1)
    waiting = asyncio.create_task(answer(broker, request(at_the_end)))
    await settle()
    assert not waiting.done()
    made(partition, partition.delete_records(1)[1])
    began = asyncio.get_running_loop().time()
    (result,) = (await waiting).partitions
    assert (result.log_start_offset, result.high_watermark, result.records) == (1, 1, b"")
    assert asyncio.get_running_loop().time() == began


async def test_a_fetch_reports_the_followers_log_start_offset(broker: Broker) -> None:
    partition = caught_up(broker)
    made(partition, partition.delete_records(1)[1])
    behind = replace(asking(1, last_epoch=0, high_watermark=1), log_start_offset=0)
    await answer(broker, request(behind))
    assert partition.as_leader().low_watermark == 0
    level = replace(behind, log_start_offset=1)
    await answer(broker, request(level))
    assert partition.as_leader().low_watermark == 1


# --- throttled followers -------------------------------------------------------------------------------------


def throttled(broker: Broker, number: int = 0, *, named: str = "*", isr: tuple[int, ...] = (1,)) -> Partition:
    """A partition with two batches, whose leader sends to followers out of sync within its rate."""
    partition = broker.open(
        TopicPartition("orders", number), leader_replication_throttled_replicas=ReplicaNames().read(named)
    )
    lead(partition, isr=isr)
    append_to(partition, batch("a"), 1)
    append_to(partition, batch("b"), 1)
    broker.sync()
    return partition


def use_up(broker: Broker, rate: int, wait_s: float) -> None:
    """Set a rate, and use up what passes in the next `wait_s`."""
    broker.throttles.leader.set_rate(rate)
    broker.throttles.leader.sent(round(rate * (1 + wait_s)))
    assert broker.throttles.leader.wait_ms() == round(wait_s * 1_000)


async def test_a_fetch_of_a_follower_out_of_sync_waits_until_there_is_budget(broker: Broker) -> None:
    throttled(broker)
    use_up(broker, 1_000, 0.2)
    began_s = asyncio.get_running_loop().time()
    result = await ask(broker, asking(0))
    assert asyncio.get_running_loop().time() - began_s == pytest.approx(0.2, abs=0.002)
    assert values_of(result.records) == ["a", "b"]


async def test_it_is_answered_without_the_records_when_its_time_is_over(broker: Broker) -> None:
    throttled(broker)
    use_up(broker, 1_000, 60)
    began_s = asyncio.get_running_loop().time()
    result = await ask(broker, asking(0))
    assert asyncio.get_running_loop().time() - began_s == pytest.approx(0.5)
    assert (result.error_code, result.records, result.high_watermark) == (ErrorCode.NONE, b"", 2)


async def test_nothing_that_the_follower_cannot_take_cuts_its_wait_short(broker: Broker) -> None:
    """Its high watermark cannot rise above what it has. Answered at once, it would ask again and again."""
    partition = throttled(broker)
    use_up(broker, 1_000, 60)
    waiting = begin(broker, asking(1, last_epoch=0, high_watermark=1))
    for value in "cde":
        await asyncio.sleep(0.1)
        append_to(partition, batch(value), 1)
        broker.sync()
        assert not waiting.done()
    await waiting
    # One that may rise is told soon.
    began_s = asyncio.get_running_loop().time()
    result = await ask(broker, asking(1, last_epoch=0, high_watermark=0))
    assert (result.high_watermark, result.records) == (5, b"")
    assert asyncio.get_running_loop().time() - began_s <= HIGH_WATERMARK_PERIOD_MS / 1_000 + 0.001


async def test_other_partitions_of_the_request_are_not_hindered(broker: Broker) -> None:
    throttled(broker, 0)
    throttled(broker, 1, named="0:1")
    use_up(broker, 1_000, 60)
    began_s = asyncio.get_running_loop().time()
    held_back, free = (await answer(broker, request(asking(0), asking(0, number=1)))).partitions
    assert (held_back.records, values_of(free.records)) == (b"", ["a", "b"])
    assert asyncio.get_running_loop().time() == began_s


async def test_a_follower_in_sync_is_not_throttled_and_does_not_count(broker: Broker) -> None:
    throttled(broker, isr=(1, 2))
    use_up(broker, 1_000, 60)
    assert values_of((await ask(broker, asking(0))).records) == ["a", "b"]
    assert broker.throttles.leader.wait_ms() == 60_000


async def test_what_is_sent_to_a_throttled_follower_counts_and_a_batch_above_the_rate_passes(broker: Broker) -> None:
    throttled(broker, 0)
    throttled(broker, 1)
    throttled(broker, 2, named="")
    broker.throttles.leader.set_rate(10)
    wanted = [asking(0, number=number) for number in range(3)]
    first, second, free = (await answer(broker, request(*wanted))).partitions
    assert (values_of(first.records), second.records, values_of(free.records)) == (["a", "b"], b"", ["a", "b"])
    assert broker.throttles.leader.wait_ms() == (len(first.records) - 10) * 100


async def test_a_higher_rate_ends_the_wait_of_the_next_fetch(broker: Broker) -> None:
    throttled(broker)
    use_up(broker, 1_000, 60)
    assert (await ask(broker, asking(0))).records == b""
    broker.throttles.leader.set_rate(1_000_000)
    began_s = asyncio.get_running_loop().time()
    assert values_of((await ask(broker, asking(0))).records) == ["a", "b"]
    assert asyncio.get_running_loop().time() - began_s < 0.1


async def test_records_that_wait_for_the_throttle_do_not_wake_the_fetch(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look costs a step for every partition of the request, and others append thousands of times a second."""
    held_back = throttled(broker, 0)
    free = throttled(broker, 1, named="")
    use_up(broker, 1_000, 60)
    waiting = begin(broker, asking(0, high_watermark=0), asking(2, last_epoch=0, high_watermark=2, number=1))
    await asyncio.sleep(0.01)
    looks = 0
    limits = broker.throttles.leader.limits

    def counted(partition: Partition, follower: BrokerId) -> bool:
        nonlocal looks
        looks += 1
        return limits(partition, follower)

    monkeypatch.setattr(broker.throttles.leader, "limits", counted)
    for value in "cdefgh":
        append_to(held_back, batch(value), 1)
        broker.sync()
        await asyncio.sleep(0.001)
    assert (looks, waiting.done()) == (0, False)
    append_to(free, batch("c"), 1)
    began_s = asyncio.get_running_loop().time()
    first, second = (await waiting).partitions
    assert asyncio.get_running_loop().time() == began_s, "others are not hindered"
    assert (first.records, values_of(second.records)) == (b"", ["c"])
