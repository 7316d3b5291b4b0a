from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest

from kraft.client.cluster.any_broker import NoBrokerReachable
from kraft.client.cluster.metadata_cache import MISSING_TOPIC_GRACE_MS, MetadataCache
from kraft.client.model.settings import AdminSettings, settings_of
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition
from tests.support.client.fake_cluster import FakeCluster, tp
from tests.support.virtual_time import LoopClock, run_virtually


def cache_of(cluster: FakeCluster, bootstrap: str | None = None, **given: int) -> MetadataCache:
    settings = settings_of(AdminSettings, bootstrap or cluster.bootstrap_servers, given)
    return MetadataCache(cluster, settings, LoopClock(), lambda: 0.5)


def in_cluster(scenario: Callable[[FakeCluster, MetadataCache], Awaitable[None]]) -> None:
    async def run() -> None:
        cluster = FakeCluster()
        cluster.create("orders", partitions=3)
        cache = cache_of(cluster)
        await scenario(cluster, cache)
        await cache.close()

    run_virtually(run())


def leader_of(cache: MetadataCache, partition: TopicPartition) -> tuple[str, int] | None:
    leader = cache.leader(partition)
    return None if leader is None else (leader.address, leader.epoch)


def test_leaders_are_known_once_a_topic_was_asked_for() -> None:
    async def scenario(cluster: FakeCluster, cache: MetadataCache) -> None:
        assert cache.leader(tp("orders", 1)) is None
        await cache.topic("orders", 1_000)
        assert leader_of(cache, tp("orders", 1)) == ("broker-2:9094", 0)
        assert cache.partition_count("orders") == 3

    in_cluster(scenario)


def test_a_partition_whose_only_broker_is_out_of_service_names_it() -> None:
    async def scenario(cluster: FakeCluster, cache: MetadataCache) -> None:
        assert str(cache.no_leader(tp("orders", 1))) == "LEADER_NOT_AVAILABLE: orders-1 has no leader"
        cluster.place("solo", [2])
        cluster.place("spread", [2, 3])
        cluster.brokers[2].is_up = False
        for topic in ("solo", "spread"):
            await cache.topic(topic, 1_000)
        assert str(cache.no_leader(tp("solo"))) == (
            "LEADER_NOT_AVAILABLE: solo-0 has no leader: its only replica is on broker 2, which is not in service:"
            " start or unfence it"
        )
        assert str(cache.no_leader(tp("spread"))) == "LEADER_NOT_AVAILABLE: spread-0 has no leader"

    in_cluster(scenario)


def test_a_broker_that_lags_behind_does_not_bring_an_old_leader_back() -> None:
    async def scenario(cluster: FakeCluster, cache: MetadataCache) -> None:
        cluster.move_leader("orders", 0, 3)
        await cache.topic("orders", 1_000)
        cluster.partition("orders").leader_id, cluster.partition("orders").leader_epoch = 1, 0
        await cache.refresh(1_000)
        assert leader_of(cache, tp("orders")) == ("broker-3:9094", 1)

    in_cluster(scenario)


def test_a_topic_that_was_created_again_starts_its_epochs_over() -> None:
    async def scenario(cluster: FakeCluster, cache: MetadataCache) -> None:
        cluster.partition("orders").leader_epoch = 9
        await cache.topic("orders", 1_000)
        cluster.namespace = UUID(int=8)
        cluster.create("orders", leader_id=2)
        await cache.refresh(1_000)
        assert leader_of(cache, tp("orders")) == ("broker-2:9094", 0)

    in_cluster(scenario)


def test_a_hint_counts_when_it_is_newer() -> None:
    async def scenario(cluster: FakeCluster, cache: MetadataCache) -> None:
        await cache.topic("orders", 1_000)
        cache.learn_leader(tp("orders"), 2, 1)
        assert leader_of(cache, tp("orders")) == ("broker-2:9094", 1)
        cache.learn_leader(tp("orders"), 3, 1)
        cache.learn_leader(tp("orders"), -1, 5)
        assert leader_of(cache, tp("orders")) == ("broker-2:9094", 1)

    in_cluster(scenario)


def test_a_missing_topic_is_waited_for_a_while_and_then_named() -> None:
    async def scenario(cluster: FakeCluster, cache: MetadataCache) -> None:
        started_s = asyncio.get_running_loop().time()
        with pytest.raises(Refusal, match="topic 'ordres' does not exist") as caught:
            await cache.topic("ordres", 60_000)
        assert caught.value.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert 4 < asyncio.get_running_loop().time() - started_s <= 5

    in_cluster(scenario)


def test_a_look_up_that_gives_up_does_not_end_another_one_of_the_same_topic() -> None:
    async def scenario(cluster: FakeCluster, cache: MetadataCache) -> None:
        first = asyncio.create_task(cache.topic("payments", 60_000))
        await asyncio.sleep(3)
        second = asyncio.create_task(cache.topic("payments", 60_000))
        with pytest.raises(Refusal):
            await first
        cluster.create("payments")
        assert (await second).name == "payments"

    in_cluster(scenario)


def test_topics_are_looked_up_together_in_one_request() -> None:
    async def scenario(cluster: FakeCluster, cache: MetadataCache) -> None:
        names = [f"topic-{number}" for number in range(1_000)]
        for name in names:
            cluster.create(name)
        assert await cache.look_up(names, 1_000) == {}
        assert [await cache.topic(name, 1_000) for name in names]
        assert len(cluster.calls) == 1
        await cache.look_up(names, 1_000)
        assert len(cluster.calls) == 1

    in_cluster(scenario)


def test_topics_that_are_missing_are_waited_for_together() -> None:
    async def scenario(cluster: FakeCluster, cache: MetadataCache) -> None:
        loop = asyncio.get_running_loop()
        missing = [f"missing-{number:02}" for number in range(100)]
        cluster.refused_topics.add("secrets")
        found_s: list[float] = []
        began_s = loop.time()
        asking = cache.look_up(["orders", "secrets", "late", *missing], 60_000, lambda: found_s.append(loop.time()))
        looking_up = asyncio.create_task(asking)
        await asyncio.sleep(1)
        assert cache.partition_count("orders") == 3
        assert found_s[0] == began_s
        cluster.create("late")
        refused = await looking_up
        assert 4 < loop.time() - began_s <= MISSING_TOPIC_GRACE_MS / 1_000
        assert list(refused) == [*missing, "secrets"]
        assert "missing-07" in str(refused["missing-07"])
        assert refused["secrets"].error_code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        asked = Counter(cluster.described)
        assert (asked["orders"], asked["secrets"]) == (1, 1)
        assert asked["late"] < asked["missing-07"]
        cluster.described.clear()
        await cache.refresh(1_000)
        assert cluster.described == ["late", "orders"], "what is missing is not asked for again"

    in_cluster(scenario)


def test_a_look_up_ends_in_its_time_although_a_topic_is_missing_or_brokers_fall_silent() -> None:
    async def scenario(cluster: FakeCluster, cache: MetadataCache) -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        with pytest.raises(Refusal, match="topic 'ordres' does not exist"):
            await cache.topic("ordres", 1_000)
        assert loop.time() - began_s <= 1
        began_s = loop.time()
        looking_up = asyncio.create_task(cache.topic("ordres", 10_000))
        await asyncio.sleep(4)
        for broker in cluster.brokers.values():
            broker.hangs = True
        with pytest.raises(NoBrokerReachable):
            await looking_up
        assert loop.time() - began_s <= 10
        assert "no broker answered" in cache.trouble
        for broker in cluster.brokers.values():
            broker.hangs = False
        await cache.topic("orders", 1_000)
        assert cache.trouble == ""

    in_cluster(scenario)


def test_an_empty_name_that_a_broker_refuses_without_a_message_has_one() -> None:
    async def scenario(cluster: FakeCluster, cache: MetadataCache) -> None:
        cluster.refused_topics.add("")
        with pytest.raises(Refusal, match="topic '': TOPIC_AUTHORIZATION_FAILED"):
            await cache.topic("", 1_000)

    in_cluster(scenario)


def test_a_look_up_that_is_cancelled_leaves_nothing_to_be_asked_for_again() -> None:
    async def scenario(cluster: FakeCluster, cache: MetadataCache) -> None:
        await cache.topic("orders", 1_000)
        for moment_s in (0.0, 1.0):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(moment_s):
                    await cache.topic("ordres", 60_000)
        cluster.described.clear()
        await cache.refresh(1_000)
        assert cluster.described == ["orders"]

    in_cluster(scenario)


def test_a_topic_that_one_look_up_found_is_refreshed_although_another_got_no_answer() -> None:
    """Otherwise a producer would never learn of a moved leader."""

    async def scenario(cluster: FakeCluster, cache: MetadataCache) -> None:
        for broker in cluster.brokers.values():
            broker.hangs = True
        impatient = asyncio.create_task(cache.topic("orders", 2_500))
        await asyncio.sleep(2.2)
        for broker in cluster.brokers.values():
            broker.hangs = False
        await cache.topic("orders", 60_000)
        with pytest.raises(NoBrokerReachable):
            await impatient
        cluster.move_leader("orders", 0, 3)
        await cache.refresh(1_000)
        assert leader_of(cache, tp("orders")) == ("broker-3:9094", 1)

    in_cluster(scenario)


def test_a_look_up_of_a_topic_asks_about_no_other_and_makes_none_look_newer() -> None:
    """Otherwise a producer to a thousand topics would ask for half a million (KIP-526)."""

    async def scenario(cluster: FakeCluster, cache: MetadataCache) -> None:
        max_age_s = 300
        cluster.create("payments")
        await cache.topic("orders", 1_000)
        await asyncio.sleep(max_age_s / 2)
        await cache.topic("payments", 1_000)
        assert cluster.described == ["orders", "payments"]
        await asyncio.sleep(max_age_s / 2 + 1)
        assert cluster.described[2:] == ["orders", "payments"]

    in_cluster(scenario)


def test_a_deleted_topic_has_no_leaders_but_keeps_its_partitions() -> None:
    async def scenario(cluster: FakeCluster, cache: MetadataCache) -> None:
        await cache.topic("orders", 1_000)
        del cluster.topics["orders"]
        await cache.refresh(1_000)
        assert cache.leader(tp("orders")) is None
        assert cache.partition_count("orders") == 3
        refusal = cache.refusal_of("orders")
        assert refusal is not None
        assert refusal.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    in_cluster(scenario)


def test_a_partition_that_was_added_is_found_although_the_cached_topic_lacks_it() -> None:
    async def scenario(cluster: FakeCluster, cache: MetadataCache) -> None:
        await cache.topic("orders", 1_000)
        cluster.create("orders", partitions=5)
        assert await cache.until_has(tp("orders", 4), 60_000) == 5

    in_cluster(scenario)


def test_a_partition_that_is_missing_is_waited_for_once() -> None:
    async def scenario(cluster: FakeCluster, cache: MetadataCache) -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        assert await cache.until_has(tp("orders", 3), 60_000) == 3
        waited_s = loop.time() - began_s
        assert 0 < waited_s <= MISSING_TOPIC_GRACE_MS / 1_000
        assert await cache.until_has(tp("orders", 3), 60_000) == 3
        assert loop.time() - began_s == waited_s
        cluster.create("orders", partitions=4)
        await asyncio.sleep(MISSING_TOPIC_GRACE_MS / 1_000)
        assert await cache.until_has(tp("orders", 3), 60_000) == 4

    in_cluster(scenario)


def test_partitions_that_are_missing_together_are_looked_for_in_the_same_responses() -> None:
    async def scenario(cluster: FakeCluster, cache: MetadataCache) -> None:
        await cache.topic("orders", 1_000)

        async def requests_of(partitions: range) -> int:
            cluster.calls.clear()
            missing = [cache.until_has(tp("orders", partition), 60_000) for partition in partitions]
            assert set(await asyncio.gather(*missing)) == {3}
            return len(cluster.calls)

        alone = await requests_of(range(3, 4))
        assert alone > 1
        assert await requests_of(range(4, 200)) <= 2 * alone

    in_cluster(scenario)


def test_all_that_wait_for_partitions_fail_in_time_when_no_broker_answers() -> None:
    async def scenario(cluster: FakeCluster, cache: MetadataCache) -> None:
        loop = asyncio.get_running_loop()
        await cache.topic("orders", 1_000)
        for broker in cluster.brokers.values():
            broker.hangs = True
        began_s = loop.time()
        waiting = [cache.until_has(tp("orders", partition), 60_000) for partition in range(3, 20)]
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(each) for each in outcomes} == {NoBrokerReachable}
        assert loop.time() - began_s < 2 * MISSING_TOPIC_GRACE_MS / 1_000

    in_cluster(scenario)


def test_refreshes_in_the_background_do_not_follow_each_other_faster_than_the_backoff() -> None:
    async def scenario(cluster: FakeCluster, cache: MetadataCache) -> None:
        await cache.topic("orders", 1_000)
        cluster.calls.clear()
        for _ in range(100):
            cache.request_refresh()
            await asyncio.sleep(0.02)
        # Two seconds: a few quick ones, then one every 0.3 s.
        assert 6 <= len(cluster.calls) <= 12

    in_cluster(scenario)


def test_metadata_is_asked_for_again_when_it_is_older_than_its_maximum_age() -> None:
    async def scenario(cluster: FakeCluster, cache: MetadataCache) -> None:
        await cache.topic("orders", 1_000)
        cluster.calls.clear()
        await asyncio.sleep(299)
        assert cluster.calls == []
        await asyncio.sleep(2)
        assert len(cluster.calls) == 1, "metadata.max.age.ms is 300000 by default"
        for broker in cluster.brokers.values():
            broker.is_up = False
        await asyncio.sleep(600)
        for broker in cluster.brokers.values():
            broker.is_up = True
        cluster.move_leader("orders", 0, 3)
        await asyncio.sleep(301)
        assert leader_of(cache, tp("orders")) == ("broker-3:9094", 1), "also after a refresh that failed"

    in_cluster(scenario)


def test_the_next_broker_is_asked_when_one_does_not_answer() -> None:
    async def scenario(cluster: FakeCluster, cache: MetadataCache) -> None:
        cluster.brokers[1].is_up = False
        cluster.brokers[2].hangs = True
        started_s = asyncio.get_running_loop().time()
        await cache.topic("orders", 10_000)
        assert asyncio.get_running_loop().time() - started_s < 3.5

    in_cluster(scenario)


async def test_brokers_from_the_metadata_are_used_when_the_bootstrap_server_is_down() -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    cache = cache_of(cluster, bootstrap="broker-1:9094")
    await cache.topic("orders", 1_000)
    cluster.brokers[1].is_up = False
    await cache.refresh(1_000)
    assert cluster.calls[-1] == "broker-2:9094 metadata"
    await cache.close()


@pytest.mark.parametrize(
    ("has_answered", "hangs", "waits_s"), [(False, False, 1), (False, True, 10), (True, False, 10)]
)
async def test_a_new_client_gives_up_soon_when_every_address_refuses(
    has_answered: bool, hangs: bool, waits_s: float
) -> None:
    cluster = FakeCluster()
    cache = cache_of(cluster, bootstrap_refused_timeout_ms=1_000)
    if has_answered:
        await cache.refresh(10_000)
    for broker in cluster.brokers.values():
        broker.is_up = False
    cluster.brokers[2].is_up = cluster.brokers[2].hangs = hangs
    started_s = asyncio.get_running_loop().time()
    with pytest.raises(NoBrokerReachable, match=f"no broker answered within {waits_s} s"):
        await cache.refresh(10_000)
    assert asyncio.get_running_loop().time() - started_s == pytest.approx(waits_s, abs=1)
    await cache.close()


@pytest.mark.parametrize("code", [ErrorCode.NOT_CONTROLLER, ErrorCode.INVALID_REQUEST])
async def test_a_broker_that_refused_has_answered(code: ErrorCode) -> None:
    cluster = FakeCluster(brokers=1)
    cache = cache_of(cluster, bootstrap_refused_timeout_ms=1_000)
    cluster.brokers[1].refusals["metadata"] = Refusal(code, "no metadata")
    refreshing = asyncio.create_task(cache.refresh(10_000))
    await asyncio.sleep(0.01)
    cluster.brokers[1].is_up = False
    if not code.retriable:
        with pytest.raises(Refusal, match="no metadata"):
            await refreshing
        refreshing = asyncio.create_task(cache.refresh(10_000))
    with pytest.raises(NoBrokerReachable, match="no broker answered within 10 s"):
        await refreshing
    await cache.close()


def test_when_nobody_answers_every_address_is_named_within_the_time_allowed() -> None:
    async def scenario(cluster: FakeCluster, cache: MetadataCache) -> None:
        for broker in cluster.brokers.values():
            broker.is_up = False
        started_s = asyncio.get_running_loop().time()
        with pytest.raises(NoBrokerReachable) as caught:
            await cache.topic("orders", 10_000)
        assert asyncio.get_running_loop().time() - started_s <= 10
        for broker in cluster.brokers.values():
            assert f"{broker.address}: connection refused" in str(caught.value)

    in_cluster(scenario)
