from __future__ import annotations

import asyncio

import pytest

from kraft.client.cluster.any_broker import ATTEMPT_MAX_MS
from kraft.metadata.records import BrokerFenced, MetadataRecord, PartitionChanged
from kraft.model.ids import BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch
from kraft.server.cluster.lost_leaders import HOLD_MS_MAX, LostLeaders
from tests.support.cluster_images import ORDERS, cluster, registered, with_topic
from tests.support.server.fake_metadata import FollowedMetadata
from tests.support.virtual_time import LoopClock

IMAGE = with_topic(cluster(1, 2, 3), [2, 1], [3, 1])
"""Broker 2 leads the first partition, broker 3 the second."""


class Metadata(FollowedMetadata):
    """The metadata that this broker has applied."""

    def __init__(self) -> None:
        super().__init__(IMAGE)

    async def elect(self, partition: int, leader: int) -> None:
        record = PartitionChanged(
            topic_id=ORDERS,
            partition=partition,
            leader=BrokerId(leader),
            isr=[BrokerId(1)],
            leader_epoch=LeaderEpoch(1),
            partition_epoch=PartitionEpoch(1),
        )
        await self.replay(record)


def losses(metadata: Metadata, without_controller_ms: int = 0) -> LostLeaders:
    return LostLeaders(LoopClock().monotonic_ms, metadata.until, lambda: without_controller_ms)


async def waited_ms(lost: LostLeaders, *topics: str) -> int:
    begin_ms = LoopClock().monotonic_ms()
    await lost.replaced(topics)
    return LoopClock().monotonic_ms() - begin_ms


async def test_requests_do_not_wait_while_no_leader_was_lost() -> None:
    assert await waited_ms(losses(Metadata()), "orders") == 0


async def test_an_answer_waits_for_the_next_leader_of_its_topics() -> None:
    metadata = Metadata()
    lost = losses(metadata)
    lost.lost(BrokerId(2))
    asyncio.get_running_loop().call_later(0.2, lambda: asyncio.ensure_future(metadata.elect(0, 1)))
    assert await waited_ms(lost, "payments") == 0
    assert await waited_ms(lost, "payments", "orders") == 200
    assert await waited_ms(lost, "orders") == 0


async def test_a_leader_that_is_not_replaced_delays_answers_only_right_after_its_loss() -> None:
    lost = losses(Metadata())
    lost.lost(BrokerId(2))
    await asyncio.sleep(0.3)
    assert await waited_ms(lost, "orders") == HOLD_MS_MAX - 300
    assert await waited_ms(lost, "orders") == 0


async def test_a_partition_without_a_leader_is_not_waited_for() -> None:
    metadata = Metadata()
    lost = losses(metadata)
    lost.lost(BrokerId(2))
    await metadata.elect(0, -1)
    assert await waited_ms(lost, "orders") == 0


async def test_a_leader_that_answers_again_delays_no_answer() -> None:
    lost = losses(Metadata())
    lost.lost(BrokerId(2))
    asyncio.get_running_loop().call_later(0.2, lost.found, BrokerId(2))
    assert await waited_ms(lost, "orders") == 200
    assert await waited_ms(lost, "orders") == 0


async def test_a_leader_that_answers_again_does_not_end_the_wait_for_another() -> None:
    metadata = Metadata()
    lost = losses(metadata)
    lost.lost(BrokerId(2))
    lost.lost(BrokerId(3))
    asyncio.get_running_loop().call_later(0.2, lost.found, BrokerId(2))
    asyncio.get_running_loop().call_later(0.5, lambda: asyncio.ensure_future(metadata.elect(1, 1)))
    assert await waited_ms(lost, "orders") == 500


async def test_a_leader_that_answers_again_does_not_make_the_wait_any_longer() -> None:
    lost = losses(Metadata())
    lost.lost(BrokerId(2))
    lost.lost(BrokerId(3))
    asyncio.get_running_loop().call_later(0.2, lost.found, BrokerId(2))
    assert await waited_ms(lost, "orders") == HOLD_MS_MAX


async def test_a_leader_that_is_found_lost_again_and_again_delays_answers_once() -> None:
    lost = losses(Metadata())
    lost.lost(BrokerId(2))
    await asyncio.sleep(0.5)
    lost.lost(BrokerId(2))
    assert await waited_ms(lost, "orders") == HOLD_MS_MAX - 500
    lost.lost(BrokerId(2))
    assert await waited_ms(lost, "orders") == 0


async def test_a_leader_that_answered_after_its_loss_may_be_lost_anew() -> None:
    lost = losses(Metadata())
    lost.lost(BrokerId(2))
    await asyncio.sleep(HOLD_MS_MAX / 1_000)
    lost.found(BrokerId(2))
    lost.lost(BrokerId(2))
    assert await waited_ms(lost, "orders") == HOLD_MS_MAX


@pytest.mark.parametrize(
    "step", [BrokerFenced(broker_id=BrokerId(2), broker_epoch=BrokerEpoch(2)), registered(2, epoch=4)]
)
async def test_a_broker_that_was_fenced_or_registered_again_may_be_lost_anew(step: MetadataRecord) -> None:
    lost = losses(Metadata())
    lost.lost(BrokerId(2))
    await asyncio.sleep(HOLD_MS_MAX / 1_000)
    lost.published(IMAGE, IMAGE.replay([step]))
    lost.lost(BrokerId(2))
    assert await waited_ms(lost, "orders") == HOLD_MS_MAX


async def test_no_answer_waits_for_an_election_while_no_controller_is_active() -> None:
    for without_ms, expected_ms in ((HOLD_MS_MAX - 1, HOLD_MS_MAX), (HOLD_MS_MAX, 0)):
        lost = losses(Metadata(), without_ms)
        lost.lost(BrokerId(2))
        assert await waited_ms(lost, "orders") == expected_ms


def test_a_response_is_held_for_less_than_a_client_gives_an_attempt() -> None:
    assert HOLD_MS_MAX + 500 < ATTEMPT_MAX_MS
