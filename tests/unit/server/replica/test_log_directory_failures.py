from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kraft.metadata.records import TopicDeleted
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import Offset, TopicId, TopicPartition
from kraft.server.identity.storage import StorageError
from kraft.server.replica.high_watermarks import read_high_watermarks
from kraft.server.replica.log_directories import as_log_directory
from kraft.server.replica.log_opener import LogOpener
from kraft.server.replica.partitions import Damage
from tests.support.cluster_images import ORDERS, cluster, partition, with_topic
from tests.support.server.replicas import Broker, append_to, batch, outcome, until, values_in
from tests.unit.server.replica.failing_replicas import (
    LEADS,
    as_registered_anew,
    corrupt,
    filled,
    reporting,
    restarted,
    unfenced,
)
from tests.unit.server.replica.publishing import Host

FOUR = with_topic(cluster(1, 2), [1, 2], [2, 1], [1, 2], [2, 1])
REPAIR = (
    "repair or replace the disk, format a directory that is new or empty with 'kraft storage format', restart the node"
)


@pytest.fixture
def two(tmp_path: Path) -> Host:
    """Return a broker with two log directories."""
    return Host(Broker(tmp_path), names=["a", "b"]).start()


def fail_syncs_in(host: Host, name: str) -> None:
    """Fail all syncs there from now on, also of files that are already open."""
    host.broker.disk.fails_syncs_in = (f"{host.path(name)}/",)


async def test_a_failed_directory_takes_its_partitions_offline_and_no_others(two: Host) -> None:
    async with reporting(two, FOUR) as controller:
        assert (two.directories("a"), two.directories("b")) == (["orders-0", "orders-1"], ["orders-2", "orders-3"])
        for number in range(4):
            filled(two, number)
        parked = filled(two, 0, "c").park_produce(Offset(3))
        fail_syncs_in(two, "a")
        append_to(two.partition(0), batch("lost"), -1)
        two.broker.sync()
        assert outcome(parked) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert two.log_directories.online == (str(two.path("b")),)
        assert two.broker.failures == [], "the node goes on"
        for number in (0, 1):
            with pytest.raises(Refusal, match="KAFKA_STORAGE_ERROR"):
                two.partition(number)
        await until(lambda: partition(controller.image, 0).leader == 2)
        await controller.publish()
        assert [partition(controller.image, number).isr for number in range(4)] == [(2,), (2,), (1, 2), (2, 1)]
        two.broker.disk.changed.clear()
        filled(two, 3, "c")
        await two.publisher.checkpoint()
        await asyncio.sleep(5)
        touched = [path for path in two.broker.disk.changed if path.startswith(f"{two.path('a')}/")]
        assert touched == [], "nothing is tried again there"
        assert values_in(two.partition(3)) == ["a", "b", "c"]
        # New partitions go to the one that is left; those offline are not begun there.
        controller.image = controller.image.replay([TopicDeleted(topic_id=ORDERS)])
        await controller.publish()
        controller.image = with_topic(controller.image, [1, 2], [1, 2], topic="later")
        await controller.publish()
        await two.remover.remove_waiting()
        assert two.directories("b") == ["later-0", "later-1"]
        assert two.directories("a") == ["orders-0", "orders-1"], "nor is anything deleted there"


async def test_a_replica_whose_directory_fails_while_it_is_recreated_stays_offline(
    two: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_again = LogOpener.create_again

    def create_as_the_disk_fails(opener: LogOpener, *arguments: Any) -> Any:
        opened = create_again(opener, *arguments)
        two.failures.directory_failed(as_log_directory(two.path("a")), "input/output error")
        return opened

    monkeypatch.setattr(LogOpener, "create_again", create_as_the_disk_fails)
    async with reporting(two, with_topic(cluster(1, 2, 3), [2, 1, 3])) as controller:
        filled(two)
        corrupt(two)
        await until(lambda: len(controller.reports) == 1)
        await controller.publish()
        with pytest.raises(Refusal, match="KAFKA_STORAGE_ERROR"):
            two.partition()
        (offline,) = two.broker.partitions.offline
        assert offline.damage is Damage.UNREACHABLE


async def test_a_partition_of_a_failed_directory_keeps_its_records_after_a_restart(tmp_path: Path) -> None:
    before = Host(Broker(tmp_path), names=["a", "b"]).start()
    async with reporting(before, FOUR) as controller:
        for number in range(4):
            filled(before, number)
        before.failures.directory_failed(as_log_directory(before.path("b")), "input/output error")
        await until(lambda: partition(controller.image, 3).leader_epoch == 1)
        await controller.publish()
        await before.publisher.checkpoint()
        named = read_high_watermarks(before.broker.disk, as_log_directory(before.path("a")))
        assert TopicPartition("orders", 3) in named, "so that it is missed when its directory does not come back"

    host = restarted(tmp_path, "a", "b")
    async with reporting(host, as_registered_anew(controller.image)):
        assert [values_in(host.partition(number)) for number in range(4)] == [["a", "b"]] * 4
        assert host.broker.partitions.offline == []


async def test_failure_of_the_last_directory_stops_the_node(two: Host) -> None:
    async with reporting(two, FOUR):
        two.failures.directory_failed(as_log_directory(two.path("a")), "input/output error")
        assert two.broker.failures == []
        two.failures.directory_failed(as_log_directory(two.path("b")), "input/output error")
        two.failures.directory_failed(as_log_directory(two.path("b")), "again")
        assert two.broker.failures == [
            f"log directory {two.path('b')} has failed, and no other one is online: input/output error: {REPAIR}"
        ]


async def test_failure_of_the_metadata_logs_directory_stops_the_node(tmp_path: Path) -> None:
    host = Host(Broker(tmp_path), names=["a", "b"], indispensable="a").start()
    async with reporting(host, FOUR):
        host.failures.directory_failed(as_log_directory(host.path("a")), "input/output error")
        (failure,) = host.broker.failures
        assert "which has the metadata log, has failed: input/output error" in failure


async def test_partitions_that_may_be_in_an_unusable_directory_are_not_recreated(tmp_path: Path) -> None:
    image = with_topic(cluster(1, 2), [1, 2], [1, 2], isr=[1])
    before = Host(Broker(tmp_path), names=["a", "b"]).start()
    async with reporting(before, image):
        filled(before, 0)
        filled(before, 1)

    host = restarted(tmp_path, "a", "b", unusable=("b",))
    image = unfenced(as_registered_anew(image))
    async with reporting(host, image) as controller:
        assert values_in(host.partition(0)) == ["a", "b"]
        (offline,) = host.broker.partitions.offline
        assert (offline.topic_partition.partition, offline.damage) == (1, Damage.UNREACHABLE)
        await until(lambda: not partition(controller.image, 1).has_leader)
        later = TopicId(UUID(int=200))
        controller.image = with_topic(controller.image, [1, 2], [1, 2], topic="later", topic_id=later)
        await controller.publish()
        assert host.directories("a") == ["later-0", "later-1", "orders-0"], "new ones go where there is a disk"

    image = as_registered_anew(controller.image)
    # Whether the directory is taken out of the configuration or replaced by an empty one: it is missed.
    for names in (["a"], ["a", "new"]):
        host = restarted(tmp_path, *names)
        async with reporting(host, image):
            (offline,) = host.broker.partitions.offline
            assert (offline.topic_partition.partition, offline.damage) == (1, Damage.MISSING)
    host = restarted(tmp_path, "a", "b")
    async with reporting(host, unfenced(image)):
        assert values_in(host.partition(1)) == ["a", "b"]


async def test_a_directory_that_cannot_be_listed_at_the_start_fails_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Host(Broker(tmp_path), names=["a", "b"]).start()
    async with reporting(before, FOUR):
        filled(before, 0)
    host = restarted(tmp_path, "a", "b")
    listed = host.broker.disk.list

    def broken(directory: str) -> Any:
        if directory == str(tmp_path / "b"):
            raise OSError(5, "Input/output error")
        return listed(directory)

    monkeypatch.setattr(host.broker.disk, "list", broken)
    async with reporting(host, as_registered_anew(FOUR)):
        assert sorted(one.topic_partition.partition for one in host.broker.partitions.offline) == [2, 3]
        assert values_in(host.partition(0)) == ["a", "b"]
        assert host.broker.failures == []


async def test_a_partition_in_two_directories_is_a_one_line_error(tmp_path: Path) -> None:
    before = Host(Broker(tmp_path), names=["a", "b"]).start()
    async with reporting(before, LEADS):
        filled(before)
    shutil.copytree(tmp_path / "a" / "orders-0", tmp_path / "b" / "orders-0")
    host = restarted(tmp_path, "a", "b")
    with pytest.raises(StorageError, match="is in both"):
        await host.act_on(as_registered_anew(LEADS))


async def test_high_watermarks_that_cannot_be_written_take_the_directory_out_of_use_unless_it_is_full(
    two: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reporting(two, FOUR):
        number, writes = 28, two.broker.disk.write_atomically

        def broken(path: str, data: bytes) -> None:
            if path.startswith(str(two.path("a"))):
                raise OSError(number, "broken")
            writes(path, data)

        monkeypatch.setattr(two.broker.disk, "write_atomically", broken)
        await two.publisher.checkpoint()
        assert len(two.log_directories.online) == 2
        number = 5
        await two.publisher.checkpoint()
        assert list(two.log_directories.online) == [str(two.path("b"))]
