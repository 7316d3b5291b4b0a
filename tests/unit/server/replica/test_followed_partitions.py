from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kraft.metadata.records import PartitionChanged
from kraft.model.ids import BrokerId, LeaderEpoch, Offset, PartitionEpoch, TopicPartition
from kraft.model.throttled_replicas import ReplicaNames
from kraft.quotas.replication_throttle import UNLIMITED
from kraft.server.replica.followed_partitions import (
    HELD_BACK_S_MIN,
    NEWS_AGE_S_MAX,
    PARTITIONS_PER_REQUEST_MAX,
    FollowedPartitions,
)
from kraft.server.replica.partition import Partition
from kraft.server.replica.replication_throttles import FollowerThrottle
from tests.support.cluster_images import ORDERS, cluster, with_topic
from tests.support.server.replicas import Broker, follow, leaders_batch, loop_ms, made


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


class Followed:
    """The partitions that follow broker 2, and how often they may have had something to fetch."""

    def __init__(self, *partitions: Partition, rate: int = UNLIMITED) -> None:
        self.all = list(partitions)
        self.woken = 0
        self.throttle = FollowerThrottle(BrokerId(1), rate, 1 << 20, loop_ms)
        self.partitions = FollowedPartitions(self.all, BrokerId(2), self.throttle, self._wake)
        self.partitions.update()

    def _wake(self) -> None:
        self.woken += 1

    def ready(self) -> list[tuple[int, int]]:
        """Return partition and offset of each fetch that is ready, and take it."""
        return [
            (fetch.partition.topic_partition.partition, fetch.position.fetch_offset)
            for fetch in self.partitions.take_ready()[0]
        ]


def followed(broker: Broker, number: int = 0, **configs: Any) -> Partition:
    partition = broker.open(TopicPartition("orders", number), **configs)
    follow(partition)
    return partition


async def test_a_partition_is_not_fetched_during_a_change_of_its_log(broker: Broker) -> None:
    """The fetch would report the log start before the change, which the leader takes for the latest one."""
    broker.thread.holds_steps = True
    partition = followed(broker)
    made(partition, partition.append_as_follower(leaders_batch("a", "b", at=0)))
    broker.sync_all()
    watched = Followed(partition)
    partition.advance_log_start(Offset(1))
    assert partition.replica_log.is_changing
    assert watched.ready() == []
    broker.sync_all()
    (fetch,) = watched.partitions.take_ready()[0]
    assert (fetch.position.fetch_offset, fetch.position.log_start) == (2, 1)


async def test_a_partition_that_is_gone_is_not_fetched_though_it_had_something_to_tell(broker: Broker) -> None:
    first, second = followed(broker, 0), followed(broker, 1)
    watched = Followed(first, second)
    watched.all.remove(first)
    watched.partitions.update()
    assert watched.ready() == [(1, 0)]


async def test_a_response_to_a_partition_that_is_gone_leads_to_no_fetch_and_no_pause(broker: Broker) -> None:
    partition = followed(broker)
    watched = Followed(partition)
    (fetch,) = watched.partitions.take_ready()[0]
    watched.all.remove(partition)
    watched.partitions.update()
    before = watched.woken
    watched.partitions.answered(fetch, brought_news=False)
    watched.partitions.pause(partition, 1.0)
    await asyncio.sleep(2)
    assert watched.ready() == []
    assert watched.woken == before


async def test_a_partition_that_pauses_is_fetched_when_its_last_pause_is_over(broker: Broker) -> None:
    partition = followed(broker)
    watched = Followed(partition)
    watched.partitions.pause(partition, 1.0)
    watched.partitions.pause(partition, 3.0)
    await asyncio.sleep(2)
    assert watched.ready() == []
    partition.appended.notify()
    assert watched.ready() == []
    await asyncio.sleep(2)
    assert watched.ready() == [(0, 0)]


async def test_a_fetch_in_an_earlier_role_is_answered_for_that_role_alone(broker: Broker) -> None:
    partition = followed(broker)
    watched = Followed(partition)
    (earlier,) = watched.partitions.take_ready()[0]
    follow(partition, epoch=1)
    watched.partitions.update()
    assert watched.ready() == [(0, 0)]
    watched.partitions.answered(earlier, brought_news=False)
    partition.appended.notify()
    assert watched.ready() == [], "the fetch of the present role is not answered"


async def test_partitions_with_news_are_fetched_without_those_that_had_none(broker: Broker) -> None:
    """News for one partition of a request would otherwise be an answer for all, again and again."""
    watched = Followed(*(followed(broker, number) for number in range(3)))
    fetches, had_news = watched.partitions.take_ready()
    assert (len(fetches), had_news) == (3, False)
    for fetch in fetches:
        watched.partitions.answered(fetch, brought_news=fetch.partition.topic_partition.partition == 1)
    (lively,), had_news = watched.partitions.take_ready()
    assert (lively.partition.topic_partition.partition, had_news) == (1, True)
    assert watched.ready() == [(0, 0), (2, 0)]
    await asyncio.sleep(NEWS_AGE_S_MAX)
    watched.partitions.answered(lively, brought_news=False)
    (again,), had_news = watched.partitions.take_ready()
    assert (again.partition, had_news) == (lively.partition, False)


async def test_an_answer_for_the_news_of_another_partition_does_not_put_a_busy_one_among_the_idle(
    broker: Broker,
) -> None:
    watched = Followed(*(followed(broker, number) for number in range(3)))
    first, second, idle = watched.partitions.take_ready()[0]
    watched.partitions.answered(idle, brought_news=False)
    for fetch in (first, second):
        watched.partitions.answered(fetch, brought_news=True)
    together, _ = watched.partitions.take_ready()
    assert [fetch.partition for fetch in together] == [first.partition, second.partition]
    watched.ready()
    watched.partitions.answered(together[0], brought_news=True)
    watched.partitions.answered(together[1], brought_news=False)
    again, had_news = watched.partitions.take_ready()
    assert ([fetch.partition for fetch in again], had_news) == ([first.partition, second.partition], True)


async def test_partitions_without_news_have_their_turn_though_others_always_have_news(broker: Broker) -> None:
    watched = Followed(*(followed(broker, number) for number in range(2 * PARTITIONS_PER_REQUEST_MAX)))
    first, _ = watched.partitions.take_ready()
    second, _ = watched.partitions.take_ready()
    watched.partitions.answered(second[0], brought_news=False)
    for fetch in first:
        watched.partitions.answered(fetch, brought_news=True)
    again, had_news = watched.partitions.take_ready()
    assert had_news
    for fetch in again:
        watched.partitions.answered(fetch, brought_news=True)
    (quiet,), had_news = watched.partitions.take_ready()
    assert (quiet.partition, had_news) == (second[0].partition, False)


async def test_no_request_has_many_partitions(broker: Broker) -> None:
    count = PARTITIONS_PER_REQUEST_MAX + 3
    watched = Followed(*(followed(broker, number) for number in range(count)))
    first, second = watched.ready(), watched.ready()
    assert (len(first), len(second)) == (PARTITIONS_PER_REQUEST_MAX, 3)
    assert sorted(first + second) == [(number, 0) for number in range(count)]
    assert watched.ready() == []


async def test_nothing_wakes_after_the_end(broker: Broker) -> None:
    partition = followed(broker)
    watched = Followed(partition)
    watched.partitions.pause(partition, 1.0)
    watched.partitions.close()
    before = watched.woken
    partition.appended.notify()
    await asyncio.sleep(2)
    assert watched.woken == before


# --- the throttle --------------------------------------------------------------------------------------------

EVERYTHING: dict[str, Any] = {"follower_replication_throttled_replicas": ReplicaNames().read("*")}


async def test_partitions_wait_for_the_throttle_and_others_do_not(broker: Broker) -> None:
    watched = Followed(
        followed(broker, 0, **EVERYTHING), followed(broker, 1, **EVERYTHING), followed(broker, 2), rate=1_000
    )
    watched.throttle.received(0, 1)
    first, free = watched.partitions.take_ready()[0]
    assert [each.partition.topic_partition.partition for each in (first, free)] == [0, 2]
    assert (first.reserved_bytes, free.reserved_bytes) == (1_000, 0)
    watched.partitions.answered(free, brought_news=True, size_bytes=1 << 20)
    assert watched.ready() == [(2, 0)], "what is not limited does not count"
    watched.partitions.answered(first, brought_news=True, size_bytes=3_000)
    await asyncio.sleep(0.1)
    assert watched.ready() == []
    before = watched.woken
    await asyncio.sleep(1.8)
    assert (watched.ready(), watched.woken) == ([], before), "nothing is looked at before there is budget"
    await asyncio.sleep(0.2)
    assert watched.ready() == [(1, 0)], "the one that has waited longest"


async def test_a_fetch_that_brings_less_than_it_might_gives_the_rest_back(broker: Broker) -> None:
    watched = Followed(followed(broker, 0, **EVERYTHING), followed(broker, 1, **EVERYTHING), rate=2_000_000)
    fetches, _ = watched.partitions.take_ready()
    assert [each.reserved_bytes for each in fetches] == [1 << 20, 1 << 20]
    assert watched.throttle.wait_ms() > 0
    for fetch in fetches:
        watched.partitions.answered(fetch, brought_news=False)
    assert watched.throttle.wait_ms() == 0
    assert watched.ready() == [(0, 0), (1, 0)]


async def test_what_waits_is_looked_at_when_the_throttle_has_changed(broker: Broker) -> None:
    watched = Followed(followed(broker, **EVERYTHING), rate=0)
    assert watched.ready() == []
    watched.throttle.set_rate(1_000)
    assert watched.ready() == []
    watched.partitions.look_at_held_back()
    assert watched.ready() == [(0, 0)]


async def test_what_waits_again_after_a_change_waits_as_long_as_the_new_rate_demands(broker: Broker) -> None:
    watched = Followed(followed(broker, **EVERYTHING), rate=0)
    assert watched.ready() == []
    watched.throttle.set_rate(1_000)
    watched.throttle.received(0, 1_000)
    watched.partitions.look_at_held_back()
    assert watched.ready() == []
    await asyncio.sleep(1.01)
    assert watched.ready() == [(0, 0)]


async def test_a_replica_that_has_joined_the_isr_waits_no_longer(broker: Broker) -> None:
    """Its fetch that made it join was not answered, because its connection was lost, and others use up the rate."""
    watched = Followed(followed(broker, 0, **EVERYTHING), followed(broker, 1, **EVERYTHING), rate=0)
    watched.throttle.image = with_topic(cluster(1, 2), [2, 1], [2, 1], isr=[2])
    assert watched.ready() == []
    watched.partitions.look_at_unlimited()
    assert watched.ready() == []
    joined = PartitionChanged(
        topic_id=ORDERS,
        partition=1,
        isr=[BrokerId(2), BrokerId(1)],
        leader=BrokerId(2),
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(1),
    )
    watched.throttle.image = watched.throttle.image.replay([joined])
    before = watched.woken
    watched.partitions.look_at_unlimited()
    assert (watched.ready(), watched.woken) == ([(1, 0)], before + 1)


async def test_many_that_wait_are_looked_at_some_at_a_time(broker: Broker) -> None:
    partitions = [followed(broker, number, **EVERYTHING) for number in range(PARTITIONS_PER_REQUEST_MAX + 2)]
    watched = Followed(*partitions, rate=1_000)
    watched.throttle.received(0, 2_000)
    assert watched.ready() == []
    before = watched.woken
    await asyncio.sleep(1.001)
    assert watched.woken - before == PARTITIONS_PER_REQUEST_MAX
    assert watched.ready() == [(0, 0)], "its fetch uses up what there was"
    found: list[int] = []
    for _ in range(len(partitions) - 1):
        await asyncio.sleep(1.02)
        found += [number for number, _ in watched.ready()]
    assert sorted(found) == list(range(1, len(partitions))), "none waits for ever"


async def test_those_beyond_what_is_looked_at_at_once_follow_though_none_waits_again(broker: Broker) -> None:
    count = PARTITIONS_PER_REQUEST_MAX + 2
    watched = Followed(*(followed(broker, number, **EVERYTHING) for number in range(count)), rate=10**13)
    watched.throttle.received(0, 2 * 10**13)
    assert watched.ready() == []
    await asyncio.sleep(1.001)
    assert len(watched.ready()) == PARTITIONS_PER_REQUEST_MAX
    await asyncio.sleep(2 * HELD_BACK_S_MIN)
    assert len(watched.ready()) == 2


async def test_a_partition_that_is_gone_or_whose_fetcher_has_ended_waits_no_longer(broker: Broker) -> None:
    watched = Followed(followed(broker, 0, **EVERYTHING), followed(broker, 1, **EVERYTHING), rate=1_000)
    watched.throttle.received(0, 2_000)
    assert watched.ready() == []
    gone = watched.all.pop(0)
    watched.partitions.update()
    assert watched.ready() == []
    before = watched.woken
    await asyncio.sleep(1.1)
    assert watched.woken - before == 1
    (fetch,) = watched.partitions.take_ready()[0]
    gone.appended.notify()
    assert watched.ready() == []
    watched.partitions.answered(fetch, brought_news=True, size_bytes=5_000)
    assert watched.ready() == [], "it waits again"
    watched.partitions.close()
    before = watched.woken
    await asyncio.sleep(10)
    assert watched.woken == before
