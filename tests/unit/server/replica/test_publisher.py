from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from kraft.metadata.records import PartitionChanged, TopicConfigSet, TopicDeleted
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import NO_BROKER, BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionEpoch, TopicId
from kraft.replication.follower_progress import UNKNOWN_OFFSET
from kraft.server.replica.high_watermarks import read_high_watermarks, write_high_watermarks
from kraft.server.replica.log_directories import as_log_directory
from kraft.server.replica.replica_stopper import RETIRED_AT_ONCE
from tests.support.cluster_images import ORDERS, cluster, with_topic
from tests.support.server.replicas import (
    DEFAULTS,
    ORDERS_0,
    Broker,
    InlineExecutor,
    append_to,
    batch,
    outcome,
    settle,
    values_in,
)
from tests.unit.server.replica.publishing import HeldExecutor, Host, changed

pytestmark = pytest.mark.real_time

RECREATED = TopicId(UUID(int=200))
AGAIN = TopicId(UUID(int=201))


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(Broker(tmp_path)).start()


def run(scenario: Any) -> None:
    asyncio.run(scenario)


async def test_a_new_topic_is_led_or_followed_as_the_metadata_says(host: Host) -> None:
    await host.act_on(with_topic(cluster(1, 2, 3), [1, 2], [2, 1], [3, 1], [2, 3]))
    assert host.partition(0).leader is not None
    assert [fetcher.leader_id for fetcher in host.fetchers] == [2, 3]
    assert host.directories() == ["orders-0", "orders-1", "orders-2"], "the last one is not this broker's"
    await host.publisher.close()


async def test_a_leader_that_is_demoted_and_elected_again_keeps_its_records_and_refuses_waiting_produces(
    host: Host,
) -> None:
    await host.act_on(with_topic(cluster(1, 2), [1, 2]))
    partition = host.partition()
    append_to(partition, batch("a"), -1)
    parked = partition.park_produce(Offset(1))
    await host.act_on(host.image.replay([changed(2, epoch=1)]))
    assert outcome(parked) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.follower is not None
    await settle()
    assert [fetcher.is_running for fetcher in host.fetchers] == [True]
    await host.act_on(host.image.replay([changed(1, epoch=2)]))
    await settle()
    assert [fetcher.is_running for fetcher in host.fetchers] == [False]
    assert host.partition() is partition
    assert values_in(partition) == ["a"]
    await host.publisher.close()


async def test_a_partition_without_leader_is_not_fetched(host: Host) -> None:
    await host.act_on(with_topic(cluster(1, 2), [2, 1]))
    await settle()
    await host.act_on(host.image.replay([changed(NO_BROKER, epoch=1, isr=(2,))]))
    await settle()
    assert [fetcher.is_running for fetcher in host.fetchers] == [False]
    await host.publisher.close()


async def test_a_fetcher_is_notified_of_other_partitions_of_its_leader(host: Host) -> None:
    await host.act_on(with_topic(cluster(1, 2), [2, 1]))
    await host.act_on(with_topic(host.image, [2, 1], topic="other", topic_id=RECREATED))
    assert [(fetcher.leader_id, fetcher.assignments) for fetcher in host.fetchers] == [(2, 1)]
    await host.publisher.close()


async def test_altered_configs_may_end_the_wait_of_replicas_for_a_throttle(host: Host) -> None:
    await host.act_on(with_topic(cluster(1, 2), [2, 1]))
    (fetcher,) = host.fetchers
    before = fetcher.looks_at_held_back
    await host.act_on(with_topic(host.image, [2, 1], topic="other", topic_id=RECREATED))
    assert fetcher.looks_at_held_back == before
    named = TopicConfigSet(topic_id=ORDERS, key="follower.replication.throttled.replicas", value="0:2")
    await host.act_on(host.image.replay([named]))
    assert fetcher.looks_at_held_back == before + 1
    await host.publisher.close()


async def test_a_replica_that_joins_the_isr_does_not_wait_for_the_throttle_any_more(host: Host) -> None:
    await host.act_on(with_topic(cluster(1, 2), [2, 1], isr=[2]))
    (fetcher,) = host.fetchers
    before = fetcher.looks_at_unlimited
    joined = PartitionChanged(
        topic_id=ORDERS,
        partition=0,
        isr=[BrokerId(2), BrokerId(1)],
        leader=BrokerId(2),
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(1),
    )
    await host.act_on(host.image.replay([joined]))
    assert fetcher.looks_at_unlimited == before + 1
    await host.publisher.close()


async def test_a_fetcher_that_dies_of_a_bug_stops_the_node(host: Host) -> None:
    host.fetchers_break = True
    await host.act_on(with_topic(cluster(1, 2), [2, 1]))
    await settle()
    (failure,) = host.broker.failures
    assert "internal error in the fetcher from broker 2" in failure


async def test_a_deleted_topic_is_removed_from_the_disk_and_its_producers_are_refused(host: Host) -> None:
    await host.act_on(with_topic(cluster(1, 2), [1, 2]))
    partition = host.partition()
    append_to(partition, batch("a"), -1)
    parked = partition.park_produce(Offset(1))
    await host.act_on(host.image.replay([TopicDeleted(topic_id=ORDERS)]))
    await host.marked()
    assert outcome(parked) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (host.directories(), len(host.broker.partitions)) == (["orders-0.0-delete"], 0)
    await host.remover.remove_waiting()
    assert host.directories() == []
    host.broker.sync()
    assert host.broker.failures == []


async def test_a_deletion_that_the_disk_refuses_takes_the_directory_out_of_use(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    await host.act_on(with_topic(cluster(1, 2), [1, 2]))

    def fail(path: str) -> None:
        raise OSError("read-only file system")

    monkeypatch.setattr(host.broker.disk, "remove_tree", fail)
    await host.act_on(host.image.replay([TopicDeleted(topic_id=ORDERS)]))
    await host.marked()
    await host.remover.remove_waiting()
    (failure,) = host.broker.failures
    assert "has failed, and no other one is online" in failure
    assert "read-only file system" in failure
    assert host.log_directories.online == ()


async def test_a_failover_waits_for_no_deletion_and_no_creation(host: Host) -> None:
    image = with_topic(cluster(1, 2, 3), [2, 1, 3], [2, 1, 3])
    await host.act_on(with_topic(image, *[[1, 2]] * 5, topic="gone", topic_id=RECREATED))
    disk = HeldExecutor()
    host.use_thread(disk)
    gone = host.image.replay([TopicDeleted(topic_id=RECREATED)])
    created = with_topic(gone, [1, 2], topic="created", topic_id=TopicId(UUID(int=300)))
    isr = (1, 2, 3)
    step = created.replay([changed(1, epoch=1, isr=isr), changed(3, epoch=1, isr=isr, partition=1)])
    acting = asyncio.create_task(host.act_on(step))
    await settle()
    assert host.partition(0).leader is not None
    assert [fetcher.leader_id for fetcher in host.fetchers] == [2, 3]
    assert len(host.broker.partitions) == 2, "what is gone is served no more"
    assert len(disk.held) == 2, "one visit to the disk frees all the names, another creates a log"
    await disk.work()
    await acting
    assert host.broker.partitions.by_name("created", 0).leader is not None
    host.use_thread(InlineExecutor())
    await host.publisher.close()


async def test_metadata_that_follows_a_deletion_waits_for_no_disk(host: Host) -> None:
    image = with_topic(cluster(1, 2), [2, 1])
    await host.act_on(with_topic(image, *[[1, 2]] * (RETIRED_AT_ONCE + 1), topic="gone", topic_id=RECREATED))
    disk = HeldExecutor()
    host.use_thread(disk)
    await host.act_on(host.image.replay([TopicDeleted(topic_id=RECREATED)]))
    await host.act_on(host.image.replay([changed(1, epoch=1)]))
    assert host.partition(0).leader is not None
    again = asyncio.create_task(host.act_on(with_topic(host.image, [1, 2], topic="gone", topic_id=AGAIN)))
    await settle()
    assert not again.done(), "its name is not free yet"
    await disk.work()
    await again
    assert host.broker.partitions.by_name("gone", 0).topic_id == AGAIN
    assert "gone-0" in host.directories()
    assert "gone-0.0-delete" in host.directories()
    host.use_thread(InlineExecutor())
    await host.publisher.close()


async def test_what_was_marked_for_deletion_is_removed_after_a_restart(tmp_path: Path) -> None:
    before = Host(Broker(tmp_path)).start()
    await before.act_on(with_topic(cluster(1, 2), [1, 2], [1, 2]))
    await before.act_on(before.image.replay([TopicDeleted(topic_id=ORDERS)]))
    await before.marked()
    assert before.directories() == ["orders-0.0-delete", "orders-1.0-delete"]

    host = Host(Broker(tmp_path)).start()
    await host.act_on(with_topic(cluster(1, 2), [1, 2], topic_id=RECREATED))
    assert host.directories() == ["orders-0", "orders-0.0-delete", "orders-1.0-delete"]
    await host.remover.remove_waiting()
    assert host.directories() == ["orders-0"]
    await host.publisher.close()


async def test_a_topic_that_is_deleted_and_created_again_in_one_step_begins_empty(host: Host) -> None:
    await host.act_on(with_topic(cluster(1, 2), [1, 2]))
    append_to(host.partition(), batch("old"), 1)
    deleted = host.image.replay([TopicDeleted(topic_id=ORDERS)])
    await host.act_on(with_topic(deleted, [1, 2], topic_id=RECREATED))
    again = host.partition(topic_id=RECREATED)
    assert values_in(again) == []
    assert host.broker.partitions.by_name("orders", 0) is again
    assert host.directories() == ["orders-0", "orders-0.0-delete"]
    await host.remover.remove_waiting()
    assert host.directories() == ["orders-0"]
    await host.publisher.close()


async def test_the_old_log_of_a_topic_that_was_created_again_during_downtime_is_renamed(tmp_path: Path) -> None:
    before = Host(Broker(tmp_path)).start()
    await before.act_on(with_topic(cluster(1, 2), [1, 2]))
    append_to(before.partition(), batch("old"), 1)
    await before.publisher.close()

    host = Host(Broker(tmp_path)).start()
    await host.act_on(with_topic(cluster(1, 2), [1, 2], topic_id=RECREATED))
    assert values_in(host.partition(topic_id=RECREATED)) == []
    assert host.directories() == ["orders-0", "orders-0.0-stray"]
    await host.publisher.close()


async def test_a_crash_does_not_keep_the_high_watermark_of_an_earlier_topic_of_the_same_name(tmp_path: Path) -> None:
    before = Broker(tmp_path)
    write_high_watermarks(before.disk, as_log_directory(tmp_path), {ORDERS_0: Offset(1_000)})

    host = Host(before).start()
    await host.act_on(with_topic(cluster(1, 2), [1, 2], topic_id=RECREATED))
    partition = host.partition(topic_id=RECREATED)
    assert partition.high_watermark == 0
    append_to(partition, batch("not committed"), 1)
    host.broker.sync()

    after_a_crash = Host(Broker(tmp_path)).start()
    await after_a_crash.act_on(with_topic(cluster(1, 2), [1, 2], topic_id=RECREATED))
    found = after_a_crash.partition(topic_id=RECREATED)
    assert values_in(found) == ["not committed"]
    assert found.high_watermark == 0


async def test_a_deleted_topic_leaves_the_checkpoint_with_its_deletion(host: Host) -> None:
    await host.act_on(with_topic(cluster(1, 2), [1, 2]))
    await host.publisher.checkpoint()
    assert ORDERS_0 in read_high_watermarks(host.broker.disk, as_log_directory(host.broker.directory))
    await host.act_on(host.image.replay([TopicDeleted(topic_id=ORDERS)]))
    await host.marked()
    assert read_high_watermarks(host.broker.disk, as_log_directory(host.broker.directory)) == {}


async def test_high_watermarks_that_were_read_survive_a_stop_before_any_metadata_arrived(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    write_high_watermarks(broker.disk, as_log_directory(tmp_path), {ORDERS_0: Offset(7)})
    for _ in range(3):
        host = Host(Broker(tmp_path)).start()
        await host.publisher.close()
        await host.publisher.checkpoint()
    assert read_high_watermarks(broker.disk, as_log_directory(tmp_path)) == {ORDERS_0: 7}


async def test_a_restart_continues_from_the_checkpointed_high_watermark(tmp_path: Path) -> None:
    before = Host(Broker(tmp_path)).start()
    await before.act_on(with_topic(cluster(1, 2), [1, 2]))
    partition = before.partition()
    append_to(partition, batch("a", "b"), -1)
    before.broker.sync()
    partition.follower_fetched(BrokerId(2), BrokerEpoch(2), Offset(1), UNKNOWN_OFFSET)
    assert partition.high_watermark == 1
    await before.publisher.close()
    await before.publisher.checkpoint()

    host = Host(Broker(tmp_path)).start(clean_shutdown=True)
    await host.act_on(with_topic(cluster(1, 2), [2, 1]))
    assert (host.partition().high_watermark, values_in(host.partition())) == (1, ["a", "b"])
    await host.publisher.close()


async def test_only_the_first_step_renames_strays(tmp_path: Path) -> None:
    before = Host(Broker(tmp_path)).start()
    await before.act_on(with_topic(cluster(1, 2), [1, 2], topic="gone"))
    await before.publisher.close()

    host = Host(Broker(tmp_path)).start()
    await host.act_on(with_topic(cluster(1, 2), [1, 2], topic="orders", topic_id=RECREATED))
    assert host.directories() == ["gone-0.0-stray", "orders-0"]
    await host.publisher.close()


async def test_altered_configs_reach_the_partitions_that_are_open(host: Host) -> None:
    await host.act_on(with_topic(cluster(1, 2), [1, 2], isr=[1]))
    altered = TopicConfigSet(topic_id=ORDERS, key="min.insync.replicas", value="2")
    await host.act_on(host.image.replay([altered]))
    with pytest.raises(Refusal, match="NOT_ENOUGH_REPLICAS"):
        append_to(host.partition(), batch("a"), -1)
    await host.publisher.close()


async def test_new_defaults_reach_open_partitions_without_their_own_configs(host: Host) -> None:
    image = with_topic(cluster(1, 2), [1, 2], isr=[1])
    other = TopicId(UUID(int=500))
    image = with_topic(image, [1, 2], isr=[1], topic="own", topic_id=other)
    own = TopicConfigSet(topic_id=other, key="segment.bytes", value="7000")
    await host.act_on(image.replay([own]))
    host.publisher.use_defaults(replace(DEFAULTS, segment_bytes=5_000))
    assert host.partition().log.config.segment_bytes == DEFAULTS.segment_bytes
    await host.act_on(host.image)
    assert host.partition().log.config.segment_bytes == 5_000
    assert host.partition(topic_id=other).log.config.segment_bytes == 7_000
    await host.publisher.close()


async def test_closing_ends_every_fetcher_and_makes_every_log_durable(host: Host) -> None:
    await host.act_on(with_topic(cluster(1, 2), [1, 2], [2, 1]))
    append_to(host.partition(), batch("a"), 1)
    await settle()
    await host.publisher.close()
    assert [fetcher.is_running for fetcher in host.fetchers] == [False]
    assert host.partition().log.synced_end_offset == 1


async def test_applied_metadata_is_logged_with_what_changed_in_the_partitions_that_this_broker_leads(
    host: Host,
) -> None:
    with capture_logs() as events:
        await host.act_on(with_topic(cluster(1, 2), [1, 2], [2, 1], [2, 1]))
        await host.act_on(host.image.replay([changed(1, epoch=1, isr=(1,), partition=number) for number in (0, 1)]))
    first, second = [event for event in events if event["event"] == "metadata applied"]
    assert not {"leaders_elected", "isr_shrunk"} & first.keys(), "the partitions are new"
    assert (second["leads"], second["leaders_elected"], second["isr_shrunk"]) == (2, 1, 2)
    await host.publisher.close()
