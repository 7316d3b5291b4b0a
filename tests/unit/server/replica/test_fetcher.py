from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from kraft.model.errors import ErrorCode
from kraft.model.ids import BrokerEpoch, BrokerId, TopicPartition
from kraft.model.replica_fetch import (
    ReplicaFetchPartition,
    ReplicaFetchRequest,
    ReplicaFetchResponse,
    ReplicaFetchResult,
)
from kraft.rpc.peers import NotAdmitted, NotServed, Peer, Unreachable
from kraft.server.config.values import ReplicationConfig
from kraft.server.handlers.replica_fetch import ReplicaFetchHandler
from kraft.server.replica.fetcher import ANSWER_GRACE_S, NO_ROOM_RETRY_AFTER_S, RECONNECT_AFTER_S, ReplicaFetcher
from kraft.server.replica.partition import Partition
from tests.unit.client.virtual_time import run_virtually
from tests.unit.server.replicas import Broker, batch, follow, lead, leaders_batch, state, until, values_in

CONFIG = ReplicationConfig(
    lag_time_max_ms=30_000,
    fetch_bytes_max=1 << 20,
    fetch_response_bytes_max=10 << 20,
    fetch_bytes_min=1,
    fetch_wait_max_ms=500,
    high_watermark_checkpoint_interval_ms=5_000,
)

Answer = Callable[[ReplicaFetchRequest], Any]


class Stream:
    def __init__(self, leader: Leader) -> None:
        self._leader = leader
        self._answer: asyncio.Future[ReplicaFetchResponse] | None = None

    async def send(self, request: ReplicaFetchRequest) -> None:
        if self._leader.takes_no_requests:
            await asyncio.sleep(3_600)
        self._leader.requests.append(request)
        self._answer = asyncio.ensure_future(self._leader.answer(request))

    async def receive(self) -> ReplicaFetchResponse:
        assert self._answer is not None
        return await self._answer

    async def close(self) -> None:
        self._leader.closed_streams += 1
        if self._answer is not None:
            self._answer.cancel()


class Leader:
    """Broker 2, which answers with `answer`, or what a test puts in its place."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.requests: list[ReplicaFetchRequest] = []
        self.streams = 0
        self.closed_streams = 0
        self.is_known = True
        self.takes_no_requests = False
        self.answer: Answer = ReplicaFetchHandler(broker.partitions).handle

    def peer(self) -> Peer | None:
        return cast(Peer, self) if self.is_known else None

    def open(self, _: object) -> Stream:
        self.streams += 1
        return Stream(self)

    def offsets_asked(self, number: int = 0) -> list[int]:
        return [
            wanted.fetch_offset
            for request in self.requests
            for wanted in request.partitions
            if wanted.partition == number
        ]


def result(wanted: ReplicaFetchPartition, **fields: Any) -> ReplicaFetchResult:
    values: dict[str, Any] = {
        "topic_id": wanted.topic_id,
        "partition": wanted.partition,
        "error_code": ErrorCode.NONE,
        "leader_epoch": wanted.current_leader_epoch,
        "high_watermark": wanted.high_watermark,
        "log_start_offset": 0,
    }
    return ReplicaFetchResult(**{**values, **fields})


@pytest.fixture
def leader(tmp_path: Path) -> Leader:
    return Leader(Broker(tmp_path / "leader", broker_id=2))


@pytest.fixture
def follower(tmp_path: Path) -> Broker:
    return Broker(tmp_path / "follower", broker_id=1)


def fetcher_of(
    leader: Leader,
    follower: Broker,
    lost: Callable[[BrokerId], None] = lambda _: None,
    config: ReplicationConfig = CONFIG,
    found: Callable[[BrokerId], None] = lambda _: None,
) -> ReplicaFetcher:
    return ReplicaFetcher(
        broker_id=BrokerId(1),
        broker_epoch=lambda: BrokerEpoch(7),
        leader_id=BrokerId(2),
        peer=leader.peer,
        partitions=follower.partitions,
        config=config,
        lost=lost,
        found=found,
    )


@asynccontextmanager
async def fetching(
    leader: Leader,
    follower: Broker,
    lost: Callable[[BrokerId], None] = lambda _: None,
    config: ReplicationConfig = CONFIG,
    found: Callable[[BrokerId], None] = lambda _: None,
) -> AsyncIterator[ReplicaFetcher]:
    """The follower's disk syncs every millisecond."""

    async def sync() -> None:
        while True:
            await asyncio.sleep(0.001)
            follower.sync()

    fetcher = fetcher_of(leader, follower, lost, config, found)
    tasks = [asyncio.create_task(fetcher.run()), asyncio.create_task(sync())]
    try:
        yield fetcher
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await asyncio.sleep(0.01)


def led(leader: Leader, *values: str, epoch: int = 0, number: int = 0) -> Partition:
    partition = leader.broker.open(TopicPartition("orders", number))
    partition.lead(state(2, epoch=epoch), BrokerEpoch(1))
    for value in values:
        partition.append(batch(value), 1)
    leader.broker.sync()
    return partition


def followed(follower: Broker, *, epoch: int = 0, number: int = 0) -> Partition:
    partition = follower.open(TopicPartition("orders", number))
    follow(partition, epoch=epoch)
    return partition


def test_a_follower_copies_the_log_and_learns_what_is_committed(leader: Leader, follower: Broker) -> None:
    async def scenario() -> None:
        source, copy = led(leader, "a", "b"), followed(follower)
        async with fetching(leader, follower):
            await until(lambda: copy.high_watermark == 2)
            source.append(batch("c"), 1)
            leader.broker.sync()
            await until(lambda: copy.high_watermark == 3)
        assert values_in(copy) == ["a", "b", "c"]
        assert source.high_watermark == 3
        assert {request.broker_epoch for request in leader.requests} == {7}

    run_virtually(scenario())


def test_a_fetch_names_no_offset_before_everything_below_it_is_on_the_disk(leader: Leader, follower: Broker) -> None:
    async def scenario() -> None:
        led(leader, "a")
        copy = followed(follower)
        fetcher = asyncio.create_task(fetcher_of(leader, follower).run())
        await asyncio.sleep(10)
        assert leader.offsets_asked() == [0]
        follower.sync()
        await until(lambda: leader.offsets_asked()[-1] == 1)
        assert copy.durable_end == 1
        fetcher.cancel()
        await asyncio.wait([fetcher])
        await asyncio.sleep(0.01)

    run_virtually(scenario())


def test_a_disk_that_hangs_delays_the_copies_on_other_disks_once_only(leader: Leader, follower: Broker) -> None:
    async def scenario() -> None:
        led(leader, "a", number=0)
        source = led(leader, number=1)
        hanging, healthy = followed(follower, number=0), followed(follower, number=1)
        fetcher = asyncio.create_task(fetcher_of(leader, follower).run())
        await until(lambda: hanging.log.log_end_offset == 1)
        began_s = asyncio.get_running_loop().time()
        for number in range(1, 31):
            source.append(batch("a"), 1)
            leader.broker.sync()
            while healthy.durable_end < number:
                follower.unsynced[:] = [partition for partition in follower.unsynced if partition is not hanging]
                follower.sync()
                await asyncio.sleep(0.001)
        assert asyncio.get_running_loop().time() - began_s < 2 * RECONNECT_AFTER_S
        follower.unsynced.append(hanging)
        follower.sync()
        await until(lambda: leader.offsets_asked(0)[-1] == 1)
        fetcher.cancel()
        await asyncio.wait([fetcher])
        await asyncio.sleep(0.01)

    run_virtually(scenario())


def test_a_high_watermark_without_records_is_taken_up(leader: Leader, follower: Broker) -> None:
    async def scenario() -> None:
        source, copy = led(leader, "a"), followed(follower)
        source.lead(state(2, replicas=(1, 2, 3), partition_epoch=1), BrokerEpoch(1))
        async with fetching(leader, follower):
            await until(lambda: leader.offsets_asked()[-1:] == [1])
            assert copy.high_watermark == 0
            source.follower_fetched(BrokerId(3), BrokerEpoch(3), source.log.log_end_offset)
            await until(lambda: copy.high_watermark == 1)

    run_virtually(scenario())


def test_a_log_that_parts_from_the_leaders_is_cut_back_and_copied_on(leader: Leader, follower: Broker) -> None:
    async def scenario() -> None:
        led(leader, "a", epoch=1)
        source = leader.broker.partitions.by_name("orders", 0)
        source.lead(state(2, epoch=3), BrokerEpoch(1))
        source.append(batch("of epoch 3"), 1)
        copy = follower.open()
        lead(copy, epoch=1)
        copy.append_as_follower(leaders_batch("a", at=0, epoch=1))
        copy.append_as_follower(leaders_batch("lost", "lost", at=1, epoch=2))
        follow(copy, epoch=3)
        async with fetching(leader, follower):
            await until(lambda: values_in(copy) == ["a", "of epoch 3"])

    run_virtually(scenario())


def test_a_follower_of_an_epoch_that_is_over_waits_for_the_metadata(leader: Leader, follower: Broker) -> None:
    async def scenario() -> None:
        led(leader, "a", epoch=5)
        copy = followed(follower, epoch=4)
        async with fetching(leader, follower) as fetcher:
            await asyncio.sleep(10)
            assert leader.offsets_asked() == [0]
            assert values_in(copy) == []
            follow(copy, epoch=5)
            fetcher.assignment_changed()
            await until(lambda: values_in(copy) == ["a"])

    run_virtually(scenario())


def test_a_leader_that_does_not_know_its_epoch_yet_is_asked_again_soon_and_not_without_end_in_between(
    leader: Leader, follower: Broker
) -> None:
    async def scenario() -> None:
        source = led(leader, "a")
        copy = followed(follower, epoch=1)
        async with fetching(leader, follower):
            await asyncio.sleep(1)
            assert 5 <= len(leader.requests) <= 12
            source.lead(state(2, epoch=1), BrokerEpoch(1))
            await until(lambda: values_in(copy) == ["a"], within_s=0.5)

    run_virtually(scenario())


def test_damaged_records_are_refused_and_asked_for_again(leader: Leader, follower: Broker) -> None:
    async def scenario() -> None:
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

    run_virtually(scenario())


def test_an_answer_that_comes_after_the_role_has_changed_is_dropped(leader: Leader, follower: Broker) -> None:
    async def scenario() -> None:
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

    run_virtually(scenario())


def test_partitions_that_come_to_follow_the_same_leader_do_not_wait_for_the_fetch_that_is_under_way(
    leader: Leader, follower: Broker
) -> None:
    async def scenario() -> None:
        led(leader)
        led(leader, "b", number=1)
        followed(follower)
        async with fetching(leader, follower) as fetcher:
            await until(lambda: len(leader.requests) == 1)
            copy = followed(follower, number=1)
            fetcher.assignment_changed()
            await until(lambda: values_in(copy) == ["b"], within_s=0.3)
        assert leader.closed_streams == leader.streams

    run_virtually(scenario())


@pytest.mark.parametrize("hang", ["it takes no requests", "it does not answer"])
def test_a_leader_that_hangs_is_left_after_a_while_and_reached_when_it_is_back(
    leader: Leader, follower: Broker, hang: str
) -> None:
    async def scenario() -> None:
        led(leader, "a")
        copy, honest = followed(follower), leader.answer

        async def silent(_: ReplicaFetchRequest) -> ReplicaFetchResponse:
            await asyncio.sleep(3_600)
            raise AssertionError("nobody waits that long")

        leader.takes_no_requests, leader.answer = hang == "it takes no requests", silent
        async with fetching(leader, follower):
            await asyncio.sleep(1)
            leader.takes_no_requests, leader.answer = False, honest
            await until(lambda: values_in(copy) == ["a"], within_s=ANSWER_GRACE_S + 2)
            assert leader.streams == 2

    run_virtually(scenario())


def test_a_leader_that_is_down_or_not_registered_is_tried_again_and_again(leader: Leader, follower: Broker) -> None:
    async def scenario() -> None:
        led(leader, "a")
        copy, honest = followed(follower), leader.answer

        async def down(_: ReplicaFetchRequest) -> ReplicaFetchResponse:
            raise Unreachable("localhost:9094", "connection refused")

        leader.is_known, leader.answer = False, down
        async with fetching(leader, follower):
            await asyncio.sleep(1)
            assert leader.streams == 0
            leader.is_known = True
            await asyncio.sleep(1)
            assert 5 <= leader.streams <= 12
            leader.answer = honest
            await until(lambda: values_in(copy) == ["a"])

    run_virtually(scenario())


def test_a_leader_that_goes_away_is_reported_once_each_time(leader: Leader, follower: Broker) -> None:
    async def scenario() -> None:
        led(leader, "a")
        copy, honest, lost = followed(follower), leader.answer, list[BrokerId]()

        async def down(_: ReplicaFetchRequest) -> ReplicaFetchResponse:
            raise Unreachable("localhost:9094", "connection refused")

        async with fetching(leader, follower, lost.append):
            await until(lambda: values_in(copy) == ["a"])
            assert lost == []
            for times in (1, 2):
                leader.answer = down
                await until(lambda times=times: len(lost) == times)  # type: ignore[misc]
                await asyncio.sleep(1)
                assert lost == [BrokerId(2)] * times
                leader.answer = honest
                await asyncio.sleep(1)

    run_virtually(scenario())


def test_a_leader_that_answers_again_is_reported_at_once_though_it_has_nothing_new(
    leader: Leader, follower: Broker
) -> None:
    async def scenario() -> None:
        led(leader, "a")
        copy, honest, reported = followed(follower), leader.answer, list[str]()

        async def down(_: ReplicaFetchRequest) -> ReplicaFetchResponse:
            raise Unreachable("localhost:9094", "connection refused")

        lost, found = lambda _: reported.append("lost"), lambda _: reported.append("found")
        async with fetching(leader, follower, lost, CONFIG, found):
            await until(lambda: copy.high_watermark == 1)
            for times in (1, 2):
                leader.answer = down
                await asyncio.sleep(1)
                assert reported == ["lost", "found"] * (times - 1) + ["lost"]
                leader.answer = honest
                await asyncio.sleep(2 * RECONNECT_AFTER_S)
                assert reported == ["lost", "found"] * times
                await asyncio.sleep(2)
        assert reported == ["lost", "found"] * 2

    run_virtually(scenario())


def test_a_broker_that_was_started_again_and_leads_nothing_is_not_reported_as_found(
    leader: Leader, follower: Broker
) -> None:
    async def scenario() -> None:
        led(leader, "a")
        copy, reported = followed(follower), list[str]()

        async def down(_: ReplicaFetchRequest) -> ReplicaFetchResponse:
            raise Unreachable("localhost:9094", "connection refused")

        async def started_again(request: ReplicaFetchRequest) -> ReplicaFetchResponse:
            refused = [result(wanted, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER) for wanted in request.partitions]
            return ReplicaFetchResponse(partitions=refused)

        lost, found = lambda _: reported.append("lost"), lambda _: reported.append("found")
        async with fetching(leader, follower, lost, CONFIG, found):
            await until(lambda: copy.high_watermark == 1)
            leader.answer = down
            await asyncio.sleep(1)
            leader.answer = started_again
            await asyncio.sleep(1)
            assert reported == ["lost"]

    run_virtually(scenario())


@pytest.mark.parametrize("error", [NotAdmitted, NotServed])
def test_a_leader_that_answers_something_is_not_reported_as_lost(
    leader: Leader, follower: Broker, error: type[Unreachable]
) -> None:
    async def scenario() -> None:
        led(leader, "a")
        copy, honest, lost = followed(follower), leader.answer, list[BrokerId]()

        async def refusing(_: ReplicaFetchRequest) -> ReplicaFetchResponse:
            raise error("localhost:9094", "not you")

        leader.answer = refusing
        async with fetching(leader, follower, lost.append):
            await asyncio.sleep(1)
            leader.answer = honest
            await until(lambda: values_in(copy) == ["a"])
        assert lost == []

    run_virtually(scenario())


def test_no_partition_starves_behind_others_that_always_have_more(leader: Leader, follower: Broker) -> None:
    async def scenario() -> None:
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

    run_virtually(scenario())


def test_a_partition_that_is_gone_is_not_remembered(leader: Leader, follower: Broker) -> None:
    async def scenario() -> None:
        copy = followed(follower)
        followed(follower, number=1)
        async with fetching(leader, follower) as fetcher:
            await asyncio.sleep(0.05)
            assert copy in fetcher._not_before
            follower.partitions.remove(copy)
            await asyncio.sleep(1)
            assert copy not in fetcher._not_before

    run_virtually(scenario())


# --- the log start, and room on the disk ------------------------------------------------------------------------


def test_the_log_start_follows_the_leaders_and_the_leader_hears_of_it(leader: Leader, follower: Broker) -> None:
    async def scenario() -> None:
        source, copy = led(leader, "a", "b", "c"), followed(follower)
        async with fetching(leader, follower):
            await until(lambda: copy.high_watermark == 3)
            source.delete_records(2)
            await until(lambda: source.as_leader().low_watermark == 2)
        assert values_in(copy) == ["c"]

    run_virtually(scenario())


def test_a_new_follower_takes_up_a_log_that_has_lost_its_beginning(leader: Leader, follower: Broker) -> None:
    async def scenario() -> None:
        source = led(leader, "a", "b", "c")
        source.follower_fetched(BrokerId(1), BrokerEpoch(1), source.log.log_end_offset)
        source.delete_records(2)
        copy = followed(follower)
        async with fetching(leader, follower):
            await until(lambda: copy.high_watermark == 3)
        assert (copy.log.log_start_offset, values_in(copy)) == (2, ["c"])

    run_virtually(scenario())


def test_a_follower_without_room_stops_asking_all_the_time_and_goes_on_when_there_is_some(
    leader: Leader, follower: Broker
) -> None:
    async def scenario() -> None:
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

    run_virtually(scenario())


def test_a_follower_that_found_room_for_a_part_only_goes_on_behind_it(leader: Leader, follower: Broker) -> None:
    """The records go into several segments, and the disk runs full between them."""

    async def scenario() -> None:
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

    run_virtually(scenario())


def test_a_log_that_finds_no_room_to_be_cut_back_is_cut_back_when_there_is_some(
    leader: Leader, follower: Broker
) -> None:
    async def scenario() -> None:
        led(leader, "a", epoch=1)
        source = leader.broker.partitions.by_name("orders", 0)
        source.lead(state(2, epoch=3), BrokerEpoch(1))
        source.append(batch("of epoch 3"), 1)
        copy = follower.open()
        copy.append_as_follower(leaders_batch("a", at=0, epoch=1))
        copy.append_as_follower(leaders_batch("lost", "lost", at=1, epoch=2))
        follow(copy, epoch=3)
        follower.disk.is_full = True
        async with fetching(leader, follower):
            await asyncio.sleep(NO_ROOM_RETRY_AFTER_S * 3)
            assert len(leader.requests) < 10
            follower.disk.is_full = False
            await until(lambda: values_in(copy) == ["a", "of epoch 3"])
        assert follower.failures == []

    run_virtually(scenario())
