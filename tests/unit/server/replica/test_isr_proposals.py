from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from kraft.model.alter_partition import AlterPartitionRequest, AlterPartitionResult, IsrMember
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch
from kraft.server.cluster.controller_client import NoController
from kraft.server.cluster.own_registration import OwnRegistration
from kraft.server.replica.isr_proposals import IsrProposals
from kraft.server.replica.partition import Partition
from tests.support.cluster_images import ORDERS, ids
from tests.support.server.fake_controllers import FakeControllers
from tests.support.server.replicas import Broker, fetched, lead

ACCEPTED = AlterPartitionResult(
    leader_id=BrokerId(1), leader_epoch=LeaderEpoch(0), partition_epoch=PartitionEpoch(1), isr=ids(1, 2)
)


@dataclass(slots=True)
class Leading:
    """Broker 1 leads a partition alone; broker 2 is about to be in sync."""

    partition: Partition
    proposals: IsrProposals
    controllers: FakeControllers
    failures: list[str] = field(default_factory=list)

    def tick(self, seconds: float, broker: Broker) -> None:
        broker.now_ms += int(seconds * 1_000)
        self.partition.tick()


def leading(broker: Broker, answer: Any) -> Leading:
    controllers, failures = FakeControllers(alter_partition=answer), list[str]()
    registration = OwnRegistration(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(1))
    proposals = IsrProposals(registration, controllers.as_client(), failures.append)
    partition = broker.open()
    partition._services = replace(broker.services(), propose_isr=proposals.propose)
    lead(partition, isr=(1,))
    return Leading(partition, proposals, controllers, failures)


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


async def test_an_accepted_isr_takes_effect_at_the_leader(broker: Broker) -> None:
    world = leading(broker, ACCEPTED)
    fetched(world.partition, 0)
    await asyncio.sleep(1)
    assert world.partition.as_leader().isr == (1, 2)
    (request,) = world.controllers.requests("alter_partition")
    assert request == AlterPartitionRequest(
        broker_id=BrokerId(1),
        broker_epoch=BrokerEpoch(1),
        topic_id=ORDERS,
        partition=0,
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
        new_isr=[
            IsrMember(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(1)),
            IsrMember(broker_id=BrokerId(2), broker_epoch=BrokerEpoch(2)),
        ],
    )


async def test_without_a_controller_the_replica_is_waited_for_and_proposed_again(broker: Broker) -> None:
    world = leading(broker, NoController("no controller is active"))
    with capture_logs() as events:
        fetched(world.partition, 0)
        await asyncio.sleep(1)
    assert [(each["event"], each["reason"]) for each in events] == [
        ("isr change unanswered", "no controller is active")
    ]
    leader = world.partition.as_leader()
    assert (set(leader.isr), set(leader.maximal_isr)) == ({1}, {1, 2})
    world.controllers.answers["alter_partition"] = ACCEPTED
    world.tick(1, broker)
    await asyncio.sleep(1)
    assert leader.isr == (1, 2)


async def test_a_refused_replica_is_not_waited_for_any_longer(broker: Broker) -> None:
    refusal = AlterPartitionResult(
        error_code=ErrorCode.INELIGIBLE_REPLICA,
        error_message="fenced",
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(1),
        isr=[BrokerId(1)],
    )
    world = leading(broker, refusal)
    with capture_logs() as events:
        fetched(world.partition, 0)
        await asyncio.sleep(1)
    assert [(each["event"], each["reason"]) for each in events] == [
        ("isr change refused", "INELIGIBLE_REPLICA: fenced")
    ]
    assert world.partition.as_leader().maximal_isr == {1}


async def test_an_attempt_is_over_before_the_next_one_is_sent(broker: Broker) -> None:
    world = leading(broker, ACCEPTED)
    world.controllers.takes_s = 60
    fetched(world.partition, 0)
    await asyncio.sleep(0.5)
    world.tick(6, broker)
    await asyncio.sleep(0)
    assert len([task for task in asyncio.all_tasks() if not task.done()]) == 2, "this test and one attempt"
    await world.proposals.close()


async def test_an_answer_after_the_partition_was_deleted_is_ignored(broker: Broker) -> None:
    world = leading(broker, ACCEPTED)
    world.controllers.takes_s = 1
    fetched(world.partition, 0)
    await asyncio.sleep(0.5)
    world.partition.retire()
    await asyncio.sleep(5)
    assert world.failures == []


async def test_an_answer_that_is_a_bug_ends_the_node(broker: Broker) -> None:
    world = leading(broker, lambda _: 1 / 0)
    fetched(world.partition, 0)
    await asyncio.sleep(1)
    (failure,) = world.failures
    assert "ISR proposal of orders-0" in failure


async def test_a_refusal_of_the_whole_call_is_taken_as_no_answer(broker: Broker) -> None:
    world = leading(broker, Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "no"))
    fetched(world.partition, 0)
    await asyncio.sleep(1)
    assert world.partition.as_leader().maximal_isr == {1, 2}
    assert world.failures == []


async def test_closing_cancels_the_current_attempt(broker: Broker) -> None:
    world = leading(broker, ACCEPTED)
    world.controllers.takes_s = 60
    fetched(world.partition, 0)
    await asyncio.sleep(0.5)
    await world.proposals.close()
    assert world.partition.as_leader().isr == (1,)
