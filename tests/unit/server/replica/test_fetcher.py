from __future__ import annotations

import asyncio

import pytest

from kraft.model.ids import BrokerEpoch, BrokerId, Offset
from kraft.model.replica_fetch import ReplicaFetchRequest, ReplicaFetchResponse
from kraft.model.throttled_replicas import ReplicaNames
from kraft.quotas.replication_throttle import UNLIMITED
from kraft.replication.follower_progress import UNKNOWN_OFFSET
from kraft.server.replica import fetcher as fetcher_module
from kraft.server.replica.fetcher import NO_ROOM_RETRY_AFTER_S
from kraft.server.replica.partition import Partition
from tests.support.server.replicas import (
    Broker,
    append_to,
    batch,
    follow,
    lead,
    leaders_batch,
    made,
    settle,
    state,
    until,
    values_in,
)
from tests.unit.server.replica.fetching_replicas import (
    Leader,
    fetcher_of,
    fetching,
    followed,
    has_committed,
    led,
    result,
)


def diverging(leader: Leader, follower: Broker) -> Partition:
    """The follower's replica: its log parts from the leader's after the first record."""
    led(leader, "a", epoch=1)
    source = leader.broker.partitions.by_name("orders", 0)
    source.lead(state(2, epoch=3), BrokerEpoch(1))
    append_to(source, batch("of epoch 3"), 1)
    copy = follower.open()
    lead(copy, epoch=1)
    made(copy, copy.append_as_follower(leaders_batch("a", at=0, epoch=1)))
    made(copy, copy.append_as_follower(leaders_batch("lost", "lost", at=1, epoch=2)))
    follow(copy, epoch=3)
    return copy


async def test_a_follower_copies_the_log_and_learns_what_is_committed(leader: Leader, follower: Broker) -> None:
    source, copy = led(leader, "a", "b"), followed(follower)
    async with fetching(leader, follower):
        await until(lambda: copy.high_watermark == 2)
        append_to(source, batch("c"), 1)
        leader.broker.sync()
        await until(lambda: copy.high_watermark == 3)
    assert values_in(copy) == ["a", "b", "c"]
    assert source.high_watermark == 3
    assert {request.broker_epoch for request in leader.requests} == {7}


async def test_a_fetch_starts_only_where_everything_below_is_on_the_disk(leader: Leader, follower: Broker) -> None:
    led(leader, "a")
    copy = followed(follower)
    fetcher = asyncio.create_task(fetcher_of(leader, follower).run())
    await asyncio.sleep(10)
    assert leader.offsets_asked() == [0]
    follower.sync()
    await until(lambda: leader.offsets_asked()[-1] == 1)
    assert copy.replica_log.durable_end == 1
    fetcher.cancel()
    await asyncio.wait([fetcher])
    await asyncio.sleep(0.01)


async def test_partitions_wait_for_an_answer_when_too_many_requests_have_none(
    leader: Leader, follower: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetcher_module, "REQUESTS_IN_FLIGHT_MAX", 1)
    source = led(leader, number=0)
    copies = [followed(follower, number=number) for number in (0, 1)]
    led(leader, number=1)
    async with fetching(leader, follower):
        await until(lambda: leader.offsets_asked(1) == [0])
        for number in (1, 2, 3):
            append_to(source, batch("a"), 1)
            leader.broker.sync()
            await until(has_committed(copies[0], number), within_s=2)
            assert len(leader.requests) - leader.answered <= 1


async def test_a_high_watermark_without_records_is_applied(leader: Leader, follower: Broker) -> None:
    source, copy = led(leader, "a"), followed(follower)
    source.lead(state(2, replicas=(1, 2, 3), partition_epoch=1), BrokerEpoch(1))
    async with fetching(leader, follower):
        await until(lambda: leader.offsets_asked()[-1:] == [1])
        assert copy.high_watermark == 0
        source.follower_fetched(BrokerId(3), BrokerEpoch(3), source.log.log_end_offset, UNKNOWN_OFFSET)
        await until(lambda: copy.high_watermark == 1)


async def test_a_diverging_log_is_truncated_and_then_fetched(leader: Leader, follower: Broker) -> None:
    copy = diverging(leader, follower)
    async with fetching(leader, follower):
        await until(lambda: values_in(copy) == ["a", "of epoch 3"])


async def test_a_follower_of_an_epoch_that_is_over_waits_for_the_metadata(leader: Leader, follower: Broker) -> None:
    led(leader, "a", epoch=5)
    copy = followed(follower, epoch=4)
    async with fetching(leader, follower) as fetcher:
        await asyncio.sleep(10)
        assert leader.offsets_asked() == [0]
        assert values_in(copy) == []
        follow(copy, epoch=5)
        fetcher.assignment_changed()
        await until(lambda: values_in(copy) == ["a"])


async def test_a_leader_that_lacks_the_epoch_is_retried_after_a_backoff(leader: Leader, follower: Broker) -> None:
    source = led(leader, "a")
    copy = followed(follower, epoch=1)
    async with fetching(leader, follower):
        await asyncio.sleep(1)
        assert 5 <= len(leader.requests) <= 12
        source.lead(state(2, epoch=1), BrokerEpoch(1))
        await until(lambda: values_in(copy) == ["a"], within_s=0.5)


async def test_damaged_records_are_refused_and_fetched_again(leader: Leader, follower: Broker) -> None:
    led(leader, "a")
    honest, copy = leader.answer, followed(follower)

    async def damaged(request: ReplicaFetchRequest) -> ReplicaFetchResponse:
        response: ReplicaFetchResponse = await honest(request)
        records = bytearray(response.partitions[0].records)
        records[-1] ^= 1
        return ReplicaFetchResponse(partitions=[result(request.partitions[0], records=bytes(records))])

    leader.answer = damaged
    async with fetching(leader, follower):
        await asyncio.sleep(1)
        assert values_in(copy) == []
        assert len(leader.requests) <= 12
        leader.answer = honest
        await until(lambda: values_in(copy) == ["a"])
    assert follower.failures == []


async def test_an_answer_that_comes_after_the_role_has_changed_is_dropped(leader: Leader, follower: Broker) -> None:
    led(leader, "a")
    copy, honest = followed(follower), leader.answer

    async def late(request: ReplicaFetchRequest) -> ReplicaFetchResponse:
        response: ReplicaFetchResponse = await honest(request)
        lead(copy, epoch=1)
        return response

    leader.answer = late
    async with fetching(leader, follower):
        await asyncio.sleep(1)
    assert values_in(copy) == []
    assert copy.leader is not None


async def test_a_partition_has_one_fetch_without_an_answer_in_each_of_its_roles(
    leader: Leader, follower: Broker
) -> None:
    led(leader, "a")
    copy, gates = followed(follower), [asyncio.Event() for _ in range(3)]

    async def held(request: ReplicaFetchRequest) -> ReplicaFetchResponse:
        await gates[len(leader.requests) - 1].wait()
        return ReplicaFetchResponse(partitions=[])

    def epochs() -> list[int]:
        return [wanted.current_leader_epoch for request in leader.requests for wanted in request.partitions]

    leader.answer = held
    async with fetching(leader, follower) as fetcher:
        await until(lambda: epochs() == [0])
        copy.appended.notify()
        await asyncio.sleep(0.1)
        assert epochs() == [0]
        follow(copy, epoch=1)
        fetcher.assignment_changed()
        await until(lambda: epochs() == [0, 1])
        gates[0].set()
        await until(lambda: leader.answered == 1)
        copy.appended.notify()
        await asyncio.sleep(0.1)
        assert epochs() == [0, 1]
        gates[1].set()
        await until(lambda: epochs() == [0, 1, 1])


async def test_a_newly_followed_partition_does_not_wait_for_the_current_fetch(leader: Leader, follower: Broker) -> None:
    led(leader)
    led(leader, "b", number=1)
    followed(follower)
    async with fetching(leader, follower) as fetcher:
        await until(lambda: len(leader.requests) == 1)
        copy = followed(follower, number=1)
        fetcher.assignment_changed()
        await until(lambda: values_in(copy) == ["b"], within_s=0.3)
    assert leader.closed_streams == leader.streams


async def test_no_partition_starves_behind_others_that_always_have_more(leader: Leader, follower: Broker) -> None:
    copies = [followed(follower, number=number) for number in range(4)]
    for number in range(4):
        led(leader, number=number)

    async def only_the_first_two(request: ReplicaFetchRequest) -> ReplicaFetchResponse:
        results = []
        for place, wanted in enumerate(request.partitions):
            more = leaders_batch("x", at=wanted.fetch_offset) if place < 2 else b""
            results.append(result(wanted, records=more))
        await asyncio.sleep(0.01)
        return ReplicaFetchResponse(partitions=results)

    leader.answer = only_the_first_two
    async with fetching(leader, follower):
        await asyncio.sleep(2)
    ends = [copy.log.log_end_offset for copy in copies]
    assert min(ends) > max(ends) / 2 > 10


async def test_a_deleted_partition_is_forgotten(leader: Leader, follower: Broker) -> None:
    copy = followed(follower)
    followed(follower, number=1)
    async with fetching(leader, follower) as fetcher:
        await until(lambda: len(leader.offsets_asked()) > 1)
        follower.partitions.remove(copy)
        fetcher.assignment_changed()
        asked = len(leader.offsets_asked())
        await asyncio.sleep(1)
        assert len(leader.offsets_asked()) == asked
        assert len(leader.offsets_asked(1)) > asked


async def test_a_disk_that_hangs_does_not_delay_the_copies_on_other_disks(leader: Leader, follower: Broker) -> None:
    led(leader, "a", number=0)
    source = led(leader, number=1)
    hanging, healthy = followed(follower, number=0), followed(follower, number=1)
    fetcher = asyncio.create_task(fetcher_of(leader, follower).run())
    await until(lambda: hanging.log.log_end_offset == 1)
    began_s = asyncio.get_running_loop().time()
    for number in range(1, 31):
        append_to(source, batch("a"), 1)
        leader.broker.sync()
        await settle()
        assert healthy.log.log_end_offset == number
        follower.unsynced[:] = [log for log in follower.unsynced if log is not hanging.replica_log]
        follower.sync()
        await settle()
        assert leader.offsets_asked(1)[-1] == number
    assert asyncio.get_running_loop().time() == began_s, "nothing waited for a clock"
    assert leader.offsets_asked(0) == [0]
    fetcher.cancel()
    await asyncio.wait([fetcher])
    await asyncio.sleep(0.01)


async def test_what_is_synced_is_reported_while_another_fetch_still_waits_at_the_leader(
    leader: Leader, follower: Broker
) -> None:
    source = led(leader, number=0)
    led(leader, number=1)
    followed(follower, number=0), followed(follower, number=1)
    async with fetching(leader, follower):
        await until(lambda: leader.offsets_asked(1) == [0])
        append_to(source, batch("a"), 1)
        leader.broker.sync()
        # The follower's disk syncs every millisecond, and the fetch of the idle partition waits 500 of them.
        await until(lambda: source.high_watermark == 1, within_s=0.1)
        followers_of_idle = len(leader.offsets_asked(1))
        for number in range(2, 20):
            append_to(source, batch("a"), 1)
            leader.broker.sync()
            await until(has_committed(source, number), within_s=0.02)
        assert len(leader.offsets_asked(1)) <= followers_of_idle + 2, "the idle partition is not fetched each time"


# --- the log start, and room on the disk ------------------------------------------------------------------------


async def test_the_log_start_follows_the_leaders_and_is_reported_to_it(leader: Leader, follower: Broker) -> None:
    source, copy = led(leader, "a", "b", "c"), followed(follower)
    async with fetching(leader, follower):
        await until(lambda: copy.high_watermark == 3)
        made(source, source.delete_records(2)[1])
        await until(lambda: source.as_leader().low_watermark == 2)
    assert values_in(copy) == ["c"]


async def test_a_new_follower_starts_at_the_leaders_log_start(leader: Leader, follower: Broker) -> None:
    source = led(leader, "a", "b", "c")
    source.follower_fetched(BrokerId(1), BrokerEpoch(1), source.log.log_end_offset, UNKNOWN_OFFSET)
    made(source, source.delete_records(2)[1])
    copy = followed(follower)
    async with fetching(leader, follower):
        await until(lambda: copy.high_watermark == 3)
    assert (copy.log.log_start_offset, values_in(copy)) == (2, ["c"])


async def test_a_follower_without_room_pauses_and_continues_when_there_is_room(
    leader: Leader, follower: Broker
) -> None:
    led(leader, "a")
    led(leader, "b", number=1)
    copy, other = followed(follower), followed(follower, number=1)
    follower.is_full = True
    async with fetching(leader, follower):
        await asyncio.sleep(NO_ROOM_RETRY_AFTER_S * 5)
        asked = leader.offsets_asked()
        assert set(asked) == {0}
        assert len(asked) < 10
        assert leader.streams == 1
        follower.is_full = False
        await until(lambda: copy.high_watermark == other.high_watermark == 1)
    assert follower.failures == []


async def test_a_follower_that_had_room_for_a_part_continues_after_it(leader: Leader, follower: Broker) -> None:
    """The records go into several segments, and the disk runs full between them."""
    led(leader, "a" * 100, "b" * 100, "c" * 100)
    copy = follower.open(segment_bytes=250)
    follow(copy)
    follower.disk.appends_left = 1
    async with fetching(leader, follower):
        await until(lambda: leader.offsets_asked()[-1:] == [1])
        follower.disk.appends_left = None
        await until(lambda: copy.high_watermark == 3)
    assert [value[0] for value in values_in(copy)] == ["a", "b", "c"]
    assert follower.failures == []


async def test_a_log_without_room_for_a_truncation_is_truncated_when_there_is_room(
    leader: Leader, follower: Broker
) -> None:
    copy = diverging(leader, follower)
    follower.disk.is_full = True
    async with fetching(leader, follower):
        await asyncio.sleep(NO_ROOM_RETRY_AFTER_S * 3)
        assert len(leader.requests) < 10
        follower.disk.is_full = False
        await until(lambda: values_in(copy) == ["a", "of epoch 3"])
    assert follower.failures == []


async def test_a_throttled_fetch_asks_for_what_it_has_reserved_and_counts_what_it_brings(
    leader: Leader, follower: Broker
) -> None:
    source, everything = led(leader, "a" * 3_000), ReplicaNames().read("*")
    append_to(source, batch("b"), 1)
    copy = followed(follower, follower_replication_throttled_replicas=everything)
    throttle = follower.throttles.follower
    throttle.set_rate(1_000)
    async with fetching(leader, follower) as fetcher:
        await until(lambda: copy.log.log_end_offset == 1)
        owed_ms = throttle.wait_ms()
        assert owed_ms == pytest.approx(len(copy.log.read(Offset(0), 1, Offset(1))) - 1_000, abs=20)
        assert len(leader.requests) == 1
        throttle.set_rate(UNLIMITED)
        fetcher.look_at_held_back()
        await until(lambda: copy.log.log_end_offset == 2)
    asked = [request.partitions[0].partition_max_bytes for request in leader.requests[:2]]
    assert asked == [1_000, 1 << 20]
