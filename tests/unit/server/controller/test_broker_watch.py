from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager

import pytest
from structlog.testing import capture_logs

from kraft.log.topic_config import KAFKA_DEFAULTS
from kraft.metadata.broker_configs import TopicDefaultsInEffect
from kraft.metadata.broker_decisions import unfence_broker
from kraft.metadata.broker_presence import CONFIRM_AFTER_MS, DIAL_INTERVAL_MS
from kraft.metadata.records import BrokerUnfenced, PartitionCreated, TopicCreated
from kraft.metadata.snapshot_records import snapshot_records
from kraft.model.endpoint import Endpoint
from kraft.model.errors import Refusal
from kraft.model.ids import BrokerEpoch, BrokerId
from kraft.model.liveness import LivenessRequest
from kraft.server.controller.broker_watch import BrokerWatch
from kraft.server.controller.state_machine_host import StateMachineHost
from tests.support.cluster_images import cluster, partition, registered, with_topic
from tests.support.virtual_time import LoopClock
from tests.unit.server.controller.fake_quorum import FakeQuorum

SESSION_S = 9.0
VERDICT_S = CONFIRM_AFTER_MS / 1_000 + 0.05
ONE, FIRST = BrokerId(1), BrokerEpoch(1)


class Clock(LoopClock):
    """The loop's clock, until the whole process is paused for a while."""

    stopped_ms = 0

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.stopped_ms


class WatchingController:
    """A controller that watches over brokers 1 and 2, in service under epochs 1 and 2."""

    def __init__(self) -> None:
        self.host = StateMachineHost(self._leadership_changed)
        self.clock = Clock()
        self.quorum = FakeQuorum(self.host, commits_at_once=True)
        self.host.attach(self.quorum)
        self.dead: set[int] = set()
        """Broker ports that refuse connections; all others accept them."""
        self.dialled: list[int] = []
        self.newcomers: set[BrokerId] = set()
        self.watch = BrokerWatch(
            self.host,
            self.clock,
            session_timeout_ms=int(SESSION_S * 1_000),
            topic_defaults=TopicDefaultsInEffect({}, KAFKA_DEFAULTS),
            newcomers=lambda: self.newcomers,
            nobody_listens=self._nobody_listens,
        )
        for broker_id in (1, 2):
            unfenced = BrokerUnfenced(broker_id=BrokerId(broker_id), broker_epoch=BrokerEpoch(broker_id))
            self.quorum.tell(registered(broker_id, epoch=broker_id), unfenced)

    def _leadership_changed(self, active: bool) -> None:
        self.watch.leadership_changed(active)

    async def _nobody_listens(self, endpoints: Sequence[Endpoint]) -> bool:
        (endpoint,) = endpoints
        self.dialled.append(endpoint.port - 9094)
        await asyncio.sleep(0.001)
        return endpoint.port - 9094 in self.dead

    def kill(self, broker_id: int) -> None:
        self.dead.add(broker_id)

    def is_fenced(self, broker_id: int) -> bool:
        return self.host.image.brokers[BrokerId(broker_id)].fenced

    def fenced(self) -> list[int]:
        return [broker_id for broker_id in (1, 2) if self.is_fenced(broker_id)]


@asynccontextmanager
async def watching_controller(*, leading: bool = True) -> AsyncIterator[WatchingController]:
    controller = WatchingController()

    async def look_around() -> None:
        while True:
            await asyncio.sleep(0.1)
            if controller.host.active:
                await controller.watch.fence_expired()

    running = [asyncio.create_task(each) for each in (controller.host.run(), controller.watch.run(), look_around())]
    if leading:
        controller.quorum.lead(1)
    try:
        yield controller
    finally:
        for task in running:
            task.cancel()
        await asyncio.wait(running)


@asynccontextmanager
async def attending(controller: WatchingController, broker_id: int, epoch: int | None = None) -> AsyncIterator[None]:
    request = LivenessRequest(
        broker_id=BrokerId(broker_id), broker_epoch=BrokerEpoch(broker_id if epoch is None else epoch)
    )
    async with aclosing(controller.watch.liveness_stream(request)) as responses:
        await anext(responses)
        yield


async def test_a_broker_whose_process_is_gone_is_fenced_long_before_its_session_is_over() -> None:
    async with watching_controller() as parts, attending(parts, 2):
        with capture_logs() as events:
            async with attending(parts, 1):
                await asyncio.sleep(SESSION_S / 2)
                for broker_id in (1, 2):
                    parts.watch.heartbeat_received(BrokerId(broker_id), BrokerEpoch(broker_id))
                parts.kill(1)
                parts.kill(2)
            await asyncio.sleep(VERDICT_S)
        assert parts.fenced() == [1]
        assert not parts.watch.has_live_session(ONE), "its next process need not wait"
        fenced = [event for event in events if event["event"] == "broker fenced"]
        assert [(event["broker"], event["reason"]) for event in fenced] == [(1, "its addresses refuse connections")]


async def test_a_broker_that_ends_its_liveness_stream_and_still_listens_keeps_its_session() -> None:
    async with watching_controller() as parts, attending(parts, 2):
        async with attending(parts, 1):
            await asyncio.sleep(0.5)
        await asyncio.sleep(SESSION_S - 1)
        assert parts.fenced() == []
        await asyncio.sleep(2)
        assert parts.fenced() == [1, 2], "for their silence"


async def test_a_new_controller_finds_the_brokers_that_died_with_its_predecessor() -> None:
    async with watching_controller(leading=False) as parts:
        parts.kill(1)
        await asyncio.sleep(5)
        assert parts.dialled == []
        parts.quorum.lead(4)
        await asyncio.sleep(VERDICT_S)
        assert parts.fenced() == [1]
        assert sorted(parts.dialled) == [1, 1, 2]


async def test_a_liveness_stream_ends_when_its_controller_is_no_longer_active() -> None:
    async with watching_controller() as parts:
        responses = parts.watch.liveness_stream(LivenessRequest(broker_id=ONE, broker_epoch=FIRST))
        await anext(responses)
        waiting = asyncio.create_task(anext(responses, None))
        await asyncio.sleep(60)
        assert not waiting.done()
        parts.quorum.lose()
        assert await waiting is None
        with pytest.raises(Refusal, match="NOT_CONTROLLER"):
            await anext(parts.watch.liveness_stream(LivenessRequest(broker_id=ONE, broker_epoch=FIRST)))


async def test_a_call_from_an_earlier_office_that_ends_late_is_not_counted_in_this_one() -> None:
    async with watching_controller() as parts:
        responses = parts.watch.liveness_stream(LivenessRequest(broker_id=ONE, broker_epoch=FIRST))
        await anext(responses)
        parts.quorum.lose()
        parts.quorum.lead(2)
        async with attending(parts, 1), attending(parts, 2):
            parts.dialled.clear()
            await responses.aclose()
            await asyncio.sleep(2 * DIAL_INTERVAL_MS / 1_000)
            assert parts.dialled == []


async def test_an_earlier_registration_of_a_broker_cannot_open_a_liveness_stream() -> None:
    async with watching_controller() as parts:
        with pytest.raises(Refusal, match="STALE_BROKER_EPOCH: broker 2 is not registered under broker epoch 1"):
            async with attending(parts, 2, epoch=1):
                raise AssertionError("it attends")


async def test_a_broker_behind_a_wall_is_fenced_once_and_then_left_alone() -> None:
    async with watching_controller() as parts, attending(parts, 2):
        parts.kill(1)
        await asyncio.sleep(VERDICT_S)
        assert parts.fenced() == [1]
        parts.watch.heartbeat_received(ONE, FIRST)
        await parts.host.submit(lambda image: unfence_broker(image, ONE, FIRST))
        for _ in range(60):
            await asyncio.sleep(SESSION_S / 9)
            for broker_id in (1, 2):
                parts.watch.heartbeat_received(BrokerId(broker_id), BrokerEpoch(broker_id))
        assert parts.fenced() == []


async def test_a_verdict_that_was_not_committed_is_given_again() -> None:
    async with watching_controller() as parts, attending(parts, 2):
        parts.quorum.commits_at_once = False
        parts.kill(1)
        await asyncio.sleep(VERDICT_S)
        parts.quorum.time_out(but_commits=False)
        await asyncio.sleep(0)
        parts.quorum.commits_at_once = True
        await asyncio.sleep(DIAL_INTERVAL_MS / 1_000 + VERDICT_S)
        assert parts.fenced() == [1]


async def test_a_controller_that_was_paused_fences_no_broker_for_missed_heartbeats() -> None:
    async with watching_controller() as parts, attending(parts, 1), attending(parts, 2):
        await asyncio.sleep(1)
        parts.clock.stopped_ms += int(10 * SESSION_S * 1_000)
        await asyncio.sleep(1)
        assert parts.fenced() == []
        parts.watch.heartbeat_received(ONE, FIRST)
        await asyncio.sleep(SESSION_S - 1.5)
        assert parts.fenced() == [2]


async def test_the_leaderships_of_a_fenced_broker_go_to_a_newcomer_last() -> None:
    topic = snapshot_records(with_topic(cluster(1, 2, 3), [1, 2, 3]))
    async with watching_controller() as parts:
        third = BrokerUnfenced(broker_id=BrokerId(3), broker_epoch=BrokerEpoch(3))
        created = [each for each in topic if isinstance(each, TopicCreated | PartitionCreated)]
        parts.quorum.tell(registered(3, epoch=3), third, *created)
        parts.newcomers.add(BrokerId(2))
        await asyncio.sleep(SESSION_S / 2)
        for broker_id in (2, 3):
            parts.watch.heartbeat_received(BrokerId(broker_id), BrokerEpoch(broker_id))
        await asyncio.sleep(SESSION_S / 2 + 1)
        assert parts.is_fenced(1)
        assert partition(parts.host.image).leader == 3


async def test_the_end_of_a_process_does_not_end_the_session_of_the_next_one() -> None:
    """A broker that stopped may be back before the answer to its last heartbeat is: its session must continue."""
    async with watching_controller() as controller:
        watch = controller.watch
        watch.registered(ONE, BrokerEpoch(7))
        watch.stops(ONE, FIRST)
        assert watch.has_live_session(ONE)
        watch.stops(ONE, BrokerEpoch(7))
        assert not watch.has_live_session(ONE)
        watch.stops(ONE, BrokerEpoch(7))
