"""Logs that wait to be opened while metadata is applied: their disk does its work when the test says so."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import UUID

import pytest

from kraft.metadata.image import MetadataImage
from kraft.metadata.records import TopicConfigSet, TopicDeleted
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicId
from kraft.server.replica.high_watermarks import read_high_watermarks
from kraft.server.replica.log_directories import as_log_directory
from kraft.server.replica.openings import PIECE_S
from kraft.server.replica.partition import Partition
from kraft.server.replica.partitions import Damage
from kraft.server.replica.publisher import LOGS_AWAITED_MAX, OPENING_AWAITED_S
from tests.support.cluster_images import ORDERS, cluster, with_topic
from tests.support.server.replicas import ORDERS_0, Broker, InlineExecutor, append_to, batch, settle, values_in
from tests.unit.server.replica.failing_replicas import corrupt, filled
from tests.unit.server.replica.publishing import HeldExecutor, Host, changed

LARGE, AGAIN = TopicId(UUID(int=200)), TopicId(UUID(int=201))
NONE = cluster(1, 2, 3)


@pytest.fixture
def disk() -> HeldExecutor:
    return HeldExecutor()


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(Broker(tmp_path)).start()


async def create(host: Host, disk: HeldExecutor, partitions: int = 1) -> None:
    """Create a topic; nothing of it is on the disk yet."""
    await host.act_on(NONE)
    host.use_thread(disk)
    await host.act_on(with_topic(NONE, *[[1, 2]] * partitions))


async def closed(host: Host) -> None:
    host.use_thread(InlineExecutor())
    await host.publisher.close()
    assert host.broker.failures == []


async def recreate_while_a_thread_is_at_the_log(tmp_path: Path, disk: HeldExecutor) -> Host:
    """Return a broker with two disks. The first is held, and at the log of a topic that was deleted meanwhile.

    With a partition more there, the name is planned for the second one.
    """
    host = Host(Broker(tmp_path), names=["a", "b"]).start()
    await host.act_on(NONE)
    host.use_thread(disk, "a")
    await host.act_on(with_topic(NONE, [1, 2]))
    await host.act_on(host.image.replay([TopicDeleted(topic_id=ORDERS)]))
    crowded = with_topic(host.image, [1, 2], topic="other", topic_id=LARGE)
    await host.act_on(with_topic(crowded, [1, 2], topic_id=AGAIN))
    return host


async def lose(host: Host, disk: HeldExecutor) -> None:
    """Have a replica that turns out to be corrupt; the disk is held from then on."""
    await host.act_on(with_topic(NONE, [2, 1, 3]))
    filled(host)
    corrupt(host)
    host.use_thread(disk)


def is_served(host: Host, number: int = 0, topic_id: TopicId = ORDERS) -> bool:
    partition = host.partition(number, topic_id)
    return partition.leader is not None or partition.follower is not None


async def test_metadata_that_follows_a_creation_waits_for_no_disk(tmp_path: Path, disk: HeldExecutor) -> None:
    host = Host(Broker(tmp_path)).start()
    await host.act_on(with_topic(NONE, [2, 1]))
    host.use_thread(disk)
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    await host.act_on(with_topic(host.image, *[[1, 2]] * (LOGS_AWAITED_MAX + 1), topic="large", topic_id=LARGE))
    assert loop.time() == began_s, "they would not be open soon"
    await host.act_on(host.image.replay([changed(1, epoch=1)]))
    assert host.partition().leader is not None
    assert loop.time() == began_s
    with pytest.raises(Refusal) as refused:
        host.broker.partitions.by_name("large", 0)
    assert refused.value.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER, "clients try again"
    await disk.work()
    assert all(host.partition(number, LARGE).leader is not None for number in range(LOGS_AWAITED_MAX + 1))
    await closed(host)


async def test_metadata_waits_a_short_time_for_the_logs_of_a_small_topic(host: Host, disk: HeldExecutor) -> None:
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    await create(host, disk, 3)
    assert loop.time() - began_s == pytest.approx(OPENING_AWAITED_S)
    creating = asyncio.create_task(host.act_on(with_topic(host.image, [1], topic="small", topic_id=LARGE)))
    await disk.work()
    assert (creating.done(), is_served(host, topic_id=LARGE)) == (True, True)
    await closed(host)


async def test_logs_that_are_open_are_served_before_all_are(host: Host, disk: HeldExecutor) -> None:
    await create(host, disk, 3)
    await asyncio.sleep(PIECE_S)
    while not (len(host.broker.partitions) and is_served(host)):
        await disk.step()
    assert len(host.broker.partitions) == 1, "a piece ends with its time, and the disk is slow"
    await disk.work()
    assert all(is_served(host, number) for number in range(3))
    await closed(host)


async def test_a_replica_takes_the_role_that_it_has_once_its_log_is_open(host: Host, disk: HeldExecutor) -> None:
    await create(host, disk)
    await host.act_on(host.image.replay([changed(2, epoch=1)]))
    await disk.work()
    partition = host.partition()
    assert (partition.leader, partition.followed, partition.leader_epoch) == (None, 2, 1)
    assert [fetcher.leader_id for fetcher in host.fetchers] == [2]
    await closed(host)


async def test_a_new_replica_takes_no_role_before_it_is_in_the_checkpoint(host: Host, disk: HeldExecutor) -> None:
    await create(host, disk)
    await disk.step()
    assert len(host.broker.partitions) == 1
    await host.act_on(host.image.replay([changed(1, epoch=1)]))
    assert not is_served(host)
    await disk.step()
    assert ORDERS_0 in read_high_watermarks(host.broker.disk, as_log_directory(host.path()))
    assert (is_served(host), host.partition().leader_epoch) == (True, 1)
    await closed(host)


@pytest.mark.parametrize("partitions", [2, LOGS_AWAITED_MAX + 1])
async def test_a_topic_that_is_deleted_before_its_logs_are_opened_leaves_nothing(
    host: Host, disk: HeldExecutor, partitions: int
) -> None:
    """The time of the piece is over when it is deleted, or has just begun: those of a large topic are not awaited."""
    await create(host, disk, partitions)
    await settle()
    await host.act_on(host.image.replay([TopicDeleted(topic_id=ORDERS)]))
    await disk.work()
    assert len(host.broker.partitions) == 0
    # A thread was at the first one.
    assert host.directories() == ["orders-0.0-delete"]
    await closed(host)


@pytest.mark.parametrize("steps", [0, 1, 2])
async def test_a_topic_that_is_deleted_and_created_again_meanwhile_begins_empty(
    host: Host, disk: HeldExecutor, steps: int
) -> None:
    """The first one is deleted while a thread is about to open its log, when it is open, and when it is served."""
    await create(host, disk)
    for _ in range(steps):
        await disk.step()
    if steps == 2:
        append_to(host.partition(), batch("old"), 1)
    await host.act_on(host.image.replay([TopicDeleted(topic_id=ORDERS)]))
    await host.act_on(with_topic(host.image, [1, 2], topic_id=AGAIN))
    await disk.work()
    assert (values_in(host.partition(topic_id=AGAIN)), is_served(host, topic_id=AGAIN)) == ([], True)
    assert host.directories() == ["orders-0", "orders-0.0-delete"]
    await host.remover.remove_waiting()
    assert host.directories() == ["orders-0"]
    await closed(host)


@pytest.mark.parametrize("steps", [0, 1, 2])
async def test_a_replica_that_is_reassigned_and_comes_back_meanwhile_is_served(
    host: Host, disk: HeldExecutor, steps: int
) -> None:
    here, elsewhere = with_topic(NONE, [1, 2]), with_topic(NONE, [2, 3])
    await create(host, disk)
    for _ in range(steps):
        await disk.step()
    await host.act_on(elsewhere)
    assert len(host.broker.partitions) == 0
    await host.act_on(here)
    await disk.work()
    assert (values_in(host.partition()), is_served(host)) == ([], True)
    assert "orders-0" in host.directories()
    await closed(host)


async def test_a_replica_that_is_reassigned_while_its_log_is_opened_is_deleted(host: Host, disk: HeldExecutor) -> None:
    await create(host, disk)
    await host.act_on(with_topic(NONE, [2, 3]))
    await disk.work()
    assert (len(host.broker.partitions), host.directories()) == (0, ["orders-0.0-delete"])
    await closed(host)


async def test_configs_that_change_while_a_log_is_opened_reach_it(host: Host, disk: HeldExecutor) -> None:
    await create(host, disk)
    altered = TopicConfigSet(topic_id=ORDERS, key="segment.bytes", value="7000")
    await host.act_on(host.image.replay([altered]))
    await disk.work()
    assert host.partition().log.config.segment_bytes == 7_000
    await closed(host)


async def test_a_stop_opens_no_further_logs_and_closes_those_that_are_open(tmp_path: Path, disk: HeldExecutor) -> None:
    changes = list[Partition]()
    host = Host(Broker(tmp_path, role_changed=changes.append)).start()
    await create(host, disk, 50)
    # A log, the checkpoint, and the next log, of a piece that has just begun.
    await disk.step()
    await disk.step()
    stopping = asyncio.create_task(host.publisher.close())
    await settle()
    assert (is_served(host), stopping.done()) == (True, False), "a thread is at a log"
    await disk.work()
    await stopping
    assert host.directories() == ["orders-0", "orders-1"]
    assert changes == [host.partition()] * 2, "it is led no longer, and the other one never was"
    again = Host(Broker(tmp_path)).start(clean_shutdown=True)
    await again.act_on(host.image)
    assert all(is_served(again, number) for number in range(50))
    await again.publisher.close()


async def test_a_directory_that_fails_while_logs_wait_takes_the_one_that_was_opened_there_offline(
    tmp_path: Path, disk: HeldExecutor
) -> None:
    host = Host(Broker(tmp_path), names=["a", "b"]).start()
    await create(host, disk, 3)
    opening = disk.held.pop()

    def open_as_the_disk_fails() -> None:
        opening()
        host.failures.directory_failed(as_log_directory(host.path("a")), "input/output error")

    disk.held.append(open_as_the_disk_fails)
    await disk.work()
    (offline,) = host.broker.partitions.offline
    assert (offline.topic_partition, offline.damage) == (ORDERS_0, Damage.UNREACHABLE)
    assert host.directories("b") == ["orders-1", "orders-2"]
    assert [is_served(host, number) for number in (1, 2)] == [True, True]
    await closed(host)


async def test_a_broker_whose_last_directory_fails_opens_nothing_more(host: Host, disk: HeldExecutor) -> None:
    await create(host, disk, 5)
    host.failures.directory_failed(as_log_directory(host.path()), "input/output error")
    await disk.work()
    assert (len(host.broker.partitions), len(host.broker.failures)) == (0, 1)
    await host.publisher.close()


async def test_a_lost_replica_that_the_metadata_counts_on_again_is_not_created_empty(
    host: Host, disk: HeldExecutor
) -> None:
    await lose(host, disk)
    await host.act_on(with_topic(host.image, [1], topic="large", topic_id=LARGE))
    await host.act_on(host.image.replay([changed(2, epoch=1, isr=(2, 3))]))
    await host.act_on(host.image.replay([changed(1, epoch=2, isr=(1,))]))
    await disk.work()
    assert is_served(host, topic_id=LARGE)
    (offline,) = host.broker.partitions.offline
    assert (offline.topic_partition, host.directories()) == (ORDERS_0, ["large-0", "orders-0"])
    await closed(host)


async def test_a_disk_that_hangs_holds_no_creation_deletion_or_checkpoint_on_another(
    tmp_path: Path, disk: HeldExecutor
) -> None:
    host = Host(Broker(tmp_path), names=["a", "b"]).start()
    await host.act_on(with_topic(NONE, [1, 2], [1, 2]))
    assert (host.directories("a"), host.directories("b")) == (["orders-0"], ["orders-1"])
    host.use_thread(disk, "a")
    await host.act_on(with_topic(host.image, *[[1, 2]] * 4, topic="large", topic_id=LARGE))
    assert host.directories("b") == ["large-1", "large-3", "orders-1"]
    assert [is_served(host, number, LARGE) for number in (1, 3)] == [True, True]
    checkpoint = read_high_watermarks(host.broker.disk, as_log_directory(host.path("b")))
    assert [str(each) for each in checkpoint] == ["large-1", "large-3", "orders-1"]
    # Deleted and created again: the name of the one on the disk that hangs is not free.
    await host.act_on(host.image.replay([TopicDeleted(topic_id=ORDERS)]))
    await host.act_on(with_topic(host.image, [1, 2], [1, 2], topic_id=AGAIN))
    assert is_served(host, 1, AGAIN)
    assert host.directories("b") == ["large-1", "large-3", "orders-1", "orders-1.0-delete"]
    assert host.directories("a") == ["orders-0"]
    await disk.work()
    assert all(is_served(host, number, LARGE) for number in range(4))
    assert is_served(host, 0, AGAIN)
    assert host.directories("a") == ["large-0", "large-2", "orders-0", "orders-0.0-delete"]
    host.use_thread(InlineExecutor(), "a")
    await closed(host)


async def test_a_name_that_a_thread_is_about_to_use_is_not_used_in_another_directory(
    tmp_path: Path, disk: HeldExecutor
) -> None:
    host = await recreate_while_a_thread_is_at_the_log(tmp_path, disk)
    assert "orders-0" not in host.directories("b")
    await disk.work()
    assert is_served(host, topic_id=AGAIN)
    assert sorted(host.directories("a") + host.directories("b")) == ["orders-0", "orders-0.0-delete", "other-0"]
    await closed(host)


async def test_logs_that_wait_for_a_directory_that_fails_are_created_in_another(
    tmp_path: Path, disk: HeldExecutor
) -> None:
    host = Host(Broker(tmp_path), names=["a", "b"]).start()
    await host.act_on(NONE)
    host.use_thread(disk, "a")
    await host.act_on(with_topic(NONE, *[[1, 2]] * 6))
    assert host.directories("b") == ["orders-1", "orders-3", "orders-5"]
    host.failures.directory_failed(as_log_directory(host.path("a")), "input/output error")
    await disk.work()
    await asyncio.sleep(PIECE_S)
    assert host.directories("b") == [f"orders-{number}" for number in range(6)]
    assert all(is_served(host, number) for number in range(6))
    await closed(host)


async def test_a_name_is_not_used_in_another_directory_before_its_deletion_is_durable(
    tmp_path: Path, disk: HeldExecutor
) -> None:
    host = Host(Broker(tmp_path), names=["a", "b"]).start()
    await host.act_on(with_topic(NONE, [1, 2]))
    host.use_thread(disk, "a")
    await host.act_on(host.image.replay([TopicDeleted(topic_id=ORDERS)]))
    host.publisher._replica_directories.prefer(ORDERS_0, as_log_directory(host.path("b")))
    await settle()
    # It is renamed, and is still in the checkpoint.
    await disk.step()
    await host.act_on(with_topic(host.image, [1, 2], topic_id=AGAIN))
    assert (host.directories("a"), host.directories("b")) == (["orders-0.0-delete"], [])
    await disk.work()
    await asyncio.sleep(PIECE_S)
    assert (is_served(host, topic_id=AGAIN), host.directories("b")) == (True, ["orders-0"])
    await closed(host)


async def test_a_log_that_waits_for_a_name_is_opened_when_the_other_one_was_not_created(
    tmp_path: Path, disk: HeldExecutor
) -> None:
    host = await recreate_while_a_thread_is_at_the_log(tmp_path, disk)
    opening = disk.held.pop(0)

    def open_without_room() -> None:
        host.broker.disk.is_full = True
        opening()
        host.broker.disk.is_full = False

    disk.held.insert(0, open_without_room)
    await disk.step()
    assert (is_served(host, topic_id=AGAIN), host.directories("b")) == (True, ["orders-0"])
    await disk.work()
    await closed(host)


async def test_a_lost_replica_that_is_deleted_while_it_is_created_again_is_not_served(
    host: Host, disk: HeldExecutor
) -> None:
    await lose(host, disk)
    await host.act_on(host.image.replay([changed(2, epoch=1, isr=(2, 3))]))
    await host.act_on(host.image.replay([TopicDeleted(topic_id=ORDERS)]))
    await host.act_on(with_topic(host.image, [1, 2], topic_id=AGAIN))
    await disk.work()
    assert (is_served(host, topic_id=AGAIN), host.broker.partitions.offline) == (True, [])
    assert host.directories() == ["orders-0", "orders-0.0-delete", "orders-0.0-quarantine"]
    await closed(host)


async def test_a_delayed_replica_that_is_deleted_while_it_is_created_is_removed_from_the_disk(
    host: Host, disk: HeldExecutor
) -> None:
    await create(host, disk)
    host.broker.disk.is_full = True
    await disk.work()
    host.broker.disk.is_full = False
    (delayed,) = host.broker.partitions.offline
    assert delayed.damage is Damage.NOT_CREATED
    host.publisher._openings.open_later([delayed.id])
    await settle()
    await host.act_on(host.image.replay([TopicDeleted(topic_id=ORDERS)]))
    await disk.work()
    assert (len(host.broker.partitions), host.broker.partitions.offline) == (0, [])
    assert host.directories() == ["orders-0.0-delete"]
    await closed(host)


@pytest.mark.slow
async def test_replicas_that_are_being_deleted_take_no_role(host: Host, disk: HeldExecutor) -> None:
    count = 2_500
    await create(host, disk, count)
    await settle()
    while len(host.broker.partitions) < count:
        await disk.step()
    # All but the first ones wait for the checkpoint. They are retired in turns, and meanwhile it is written.
    deleting = asyncio.create_task(host.act_on(host.image.replay([TopicDeleted(topic_id=ORDERS)])))
    await asyncio.sleep(0)
    assert 0 < len(host.broker.partitions) < count
    await disk.step()
    assert 0 < len(host.broker.partitions) < count
    await deleting
    await disk.work()
    assert len(host.broker.partitions) == 0
    await closed(host)


@pytest.mark.parametrize("image", [NONE, with_topic(NONE, [2, 3])], ids=["deleted", "reassigned"])
async def test_a_delayed_replica_that_is_to_be_retired_is_not_created(
    host: Host, disk: HeldExecutor, image: MetadataImage
) -> None:
    await create(host, disk)
    host.broker.disk.is_full = True
    await disk.work()
    (delayed,) = host.broker.partitions.offline
    openings = host.publisher._openings
    openings.metadata_changed(image, [])
    openings.open_later([delayed.id])
    assert not openings.is_waiting(delayed.id)
    await closed(host)
