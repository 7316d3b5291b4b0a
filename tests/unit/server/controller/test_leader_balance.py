"""Elections that a controller holds on its own, on virtual time, with a quorum that commits at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from kraft.log.topic_config import KAFKA_DEFAULTS, TopicConfig
from kraft.metadata.broker_decisions import fence_broker
from kraft.metadata.configs import broker_defaults
from kraft.metadata.decision import Decision
from kraft.metadata.image import MetadataImage
from kraft.metadata.leader_election import changes_when_unfenced
from kraft.metadata.records import BrokerUnfenced, MetadataRecord
from kraft.metadata.snapshot_records import snapshot_records
from kraft.model.ids import NO_BROKER, BrokerId
from kraft.server.config.components import LeaderElections
from kraft.server.controller.leader_balance import LeaderBalance
from kraft.server.controller.state_machine_host import StateMachineHost
from tests.support.cluster_images import cluster, epoch_of, partition, with_topic
from tests.support.virtual_time import LoopClock
from tests.unit.server.controller.fake_quorum import FakeQuorum

SOON = LeaderElections(imbalance_check_interval_s=10, unclean_interval_ms=5_000)
MOVED = with_topic(cluster(1, 2), [1, 2], isr=[2, 1])


class Parts:
    def __init__(self, config: LeaderElections, defaults: TopicConfig) -> None:
        self.host = StateMachineHost(self._on_leadership)
        self.quorum = FakeQuorum(self.host, commits_at_once=True)
        self.host.attach(self.quorum)
        self.newcomers: set[BrokerId] = set()
        self.balance = LeaderBalance(
            self.host, LoopClock(), config, topic_defaults=lambda image: defaults, newcomers=lambda: self.newcomers
        )

    def _on_leadership(self, active: bool) -> None:
        if active:
            self.balance.restart()

    def leader(self) -> int:
        return partition(self.host.image).leader


@asynccontextmanager
async def active_controller(
    image: MetadataImage, config: LeaderElections = SOON, defaults: TopicConfig = KAFKA_DEFAULTS
) -> AsyncIterator[Parts]:
    parts = Parts(config, defaults)
    tasks = [asyncio.create_task(parts.host.run()), asyncio.create_task(parts.balance.run())]
    parts.quorum.lead(1)
    await parts.host.submit(lambda _: Decision(records=list(snapshot_records(image)), response=None))
    try:
        yield parts
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def without_leader() -> MetadataImage:
    """Broker 1, the last one in sync, is gone; broker 2 is back."""
    image = with_topic(cluster(1, 2), [1, 2])
    for broker_id in (2, 1):
        image = image.replay(fence_broker(image, BrokerId(broker_id), epoch_of(image, broker_id)).records)
    records: list[MetadataRecord] = [BrokerUnfenced(broker_id=BrokerId(2), broker_epoch=epoch_of(image, 2))]
    return image.replay([*records, *changes_when_unfenced(image, BrokerId(2))])


async def test_preferred_leaders_lead_again_when_the_interval_is_over() -> None:
    async with active_controller(MOVED) as parts:
        await asyncio.sleep(9)
        assert parts.leader() == 2
        await asyncio.sleep(2)
        assert parts.leader() == 1


async def test_a_newcomer_leads_again_once_its_clients_are_back_however_long_the_interval_is() -> None:
    async with active_controller(MOVED, replace(SOON, imbalance_check_interval_s=100)) as parts:
        await asyncio.sleep(95)
        parts.newcomers.add(BrokerId(1))
        await asyncio.sleep(10)
        assert parts.leader() == 2
        parts.newcomers.clear()
        await asyncio.sleep(11)
        assert parts.leader() == 1


async def test_they_do_not_where_that_is_switched_off() -> None:
    async with active_controller(MOVED, replace(SOON, rebalance_enabled=False)) as parts:
        await asyncio.sleep(60)
        assert parts.leader() == 2


async def test_a_new_term_of_office_begins_with_a_whole_interval() -> None:
    async with active_controller(MOVED) as parts:
        await asyncio.sleep(9)
        parts.quorum.lose()
        await asyncio.sleep(30)
        parts.quorum.lead(3)
        await asyncio.sleep(9)
        assert parts.leader() == 2
        await asyncio.sleep(2)
        assert parts.leader() == 1


async def test_eligible_replicas_are_cleared_once_the_minimum_does_not_need_them() -> None:
    image = with_topic(cluster(1, 2, 3), [1, 2, 3])
    two = broker_defaults({"min.insync.replicas": "2"})
    for broker_id in (3, 2):
        image = image.replay(fence_broker(image, BrokerId(broker_id), epoch_of(image, broker_id), two).records)
    assert partition(image).elr == (2,)
    async with active_controller(image, defaults=two) as parts:
        await asyncio.sleep(60)
        assert partition(parts.host.image).elr == (2,)
    # The configuration file of the next controller says 1.
    async with active_controller(image) as parts:
        await asyncio.sleep(1)
        assert partition(parts.host.image).elr == ()
        committed = len(parts.quorum.payloads)
        await asyncio.sleep(60)
        assert len(parts.quorum.payloads) == committed


async def test_a_cluster_in_balance_is_not_asked_to_commit_anything() -> None:
    async with active_controller(with_topic(cluster(1, 2), [1, 2])) as parts:
        committed = len(parts.quorum.payloads)
        await asyncio.sleep(60)
        assert len(parts.quorum.payloads) == committed


async def test_a_topic_that_may_lose_records_gets_a_leader_when_the_interval_is_over() -> None:
    unclean = broker_defaults({"unclean.leader.election.enable": "true"})
    async with active_controller(without_leader(), defaults=unclean) as parts:
        await asyncio.sleep(4)
        assert parts.leader() == NO_BROKER
        await asyncio.sleep(2)
        assert parts.leader() == 2
    async with active_controller(without_leader()) as parts:
        await asyncio.sleep(60)
        assert parts.leader() == NO_BROKER
