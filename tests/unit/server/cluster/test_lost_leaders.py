from __future__ import annotations

import asyncio

from kraft.metadata.records import PartitionChanged
from kraft.model.ids import BrokerId, LeaderEpoch, PartitionEpoch
from kraft.server.cluster.lost_leaders import HOLD_MS_MAX, LostLeaders
from tests.support.cluster_images import ORDERS, cluster, with_topic
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


async def waited_ms(lost: LostLeaders, *topics: str) -> int:
    begin_ms = LoopClock().monotonic_ms()
    await lost.replaced(topics)
    return LoopClock().monotonic_ms() - begin_ms


async def test_requests_do_not_wait_while_no_leader_was_lost() -> None:
    assert await waited_ms(LostLeaders(LoopClock().monotonic_ms, Metadata().until), "orders") == 0


async def test_an_answer_waits_for_the_next_leader_of_its_topics() -> None:
    metadata = Metadata()
    lost = LostLeaders(LoopClock().monotonic_ms, metadata.until)
    lost.lost(BrokerId(2))
    asyncio.get_running_loop().call_later(0.2, lambda: asyncio.ensure_future(metadata.elect(0, 1)))
    assert await waited_ms(lost, "payments") == 0
    assert await waited_ms(lost, "payments", "orders") == 200
    assert await waited_ms(lost, "orders") == 0


async def test_a_leader_that_is_not_replaced_delays_answers_only_right_after_its_loss() -> None:
    lost = LostLeaders(LoopClock().monotonic_ms, Metadata().until)
    lost.lost(BrokerId(2))
    await asyncio.sleep(0.3)
    assert await waited_ms(lost, "orders") == HOLD_MS_MAX - 300
    assert await waited_ms(lost, "orders") == 0


async def test_a_partition_without_a_leader_is_not_waited_for() -> None:
    metadata = Metadata()
    lost = LostLeaders(LoopClock().monotonic_ms, metadata.until)
    lost.lost(BrokerId(2))
    await metadata.elect(0, -1)
    assert await waited_ms(lost, "orders") == 0


async def test_a_leader_that_answers_again_delays_no_answer() -> None:
    lost = LostLeaders(LoopClock().monotonic_ms, Metadata().until)
    lost.lost(BrokerId(2))
    asyncio.get_running_loop().call_later(0.2, lost.found, BrokerId(2))
    assert await waited_ms(lost, "orders") == 200
    assert await waited_ms(lost, "orders") == 0


async def test_a_leader_that_answers_again_does_not_end_the_wait_for_another() -> None:
    metadata = Metadata()
    lost = LostLeaders(LoopClock().monotonic_ms, metadata.until)
    lost.lost(BrokerId(2))
    lost.lost(BrokerId(3))
    asyncio.get_running_loop().call_later(0.2, lost.found, BrokerId(2))
    asyncio.get_running_loop().call_later(0.5, lambda: asyncio.ensure_future(metadata.elect(1, 1)))
    assert await waited_ms(lost, "orders") == 500


async def test_a_leader_that_answers_again_does_not_make_the_wait_any_longer() -> None:
    lost = LostLeaders(LoopClock().monotonic_ms, Metadata().until)
    lost.lost(BrokerId(2))
    lost.lost(BrokerId(3))
    asyncio.get_running_loop().call_later(0.2, lost.found, BrokerId(2))
    assert await waited_ms(lost, "orders") == HOLD_MS_MAX
