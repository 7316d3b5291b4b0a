from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from kraft.metadata.broker_decisions import fence_broker, unfence_broker
from kraft.metadata.records import TopicConfigSet, TopicDeleted
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.fail_replicas import FailReplicasResult
from kraft.model.ids import BrokerEpoch, BrokerId, Offset
from kraft.server.cluster.controller_client import NoController
from kraft.server.replica.high_watermarks import FILE_NAME, read_high_watermarks
from kraft.server.replica.log_directories import as_log_directory
from kraft.server.replica.partitions import Damage
from kraft.server.replica.replica_directories import METADATA_FILE
from tests.support.cluster_images import ORDERS, cluster, ids, partition, with_topic
from tests.support.server.replicas import ORDERS_0, Broker, outcome, until, values_in
from tests.unit.server.replica.failing_replicas import (
    ALONE,
    FOLLOWS,
    LEADS,
    as_registered_anew,
    corrupt,
    filled,
    flip_a_bit,
    read,
    reporting,
    restarted,
    unfenced,
)
from tests.unit.server.replica.publishing import Host, changed


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(Broker(tmp_path)).start()


# --- a corrupt replica ---------------------------------------------------------------------------------------------


async def test_a_corrupt_follower_is_quarantined_and_recreated_once_it_has_left_the_isr(host: Host) -> None:
    async with reporting(host, FOLLOWS) as controller:
        filled(host)
        corrupt(host)
        with pytest.raises(Refusal, match="KAFKA_STORAGE_ERROR"):
            host.partition()
        assert host.directories() == ["orders-0"], "not before the metadata says that it is not needed"
        await until(lambda: len(controller.reports) == 1)
        await controller.publish()
        renewed = host.partition()
        assert renewed.follower is not None
        assert (renewed.follower.leader_id, renewed.leader_epoch) == (2, 1)
        assert (values_in(renewed), renewed.high_watermark) == ([], 0)
        assert host.directories() == ["orders-0", "orders-0.0-quarantine"]
        assert partition(controller.image).isr == (2, 3)
        assert host.fetchers[0].assignments == 1, "its leader is fetched from"
        await asyncio.sleep(10)
        assert len(controller.reports) == 1
    assert host.broker.failures == []


async def test_a_corrupt_leader_refuses_its_producers_and_follows_the_next_leader(host: Host) -> None:
    async with reporting(host, LEADS) as controller:
        held = filled(host)
        parked = held.park_produce(Offset(2))
        corrupt(host)
        assert outcome(parked) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        with pytest.raises(Refusal, match="KAFKA_STORAGE_ERROR"):
            host.broker.partitions.by_name("orders", 0)
        await until(lambda: partition(controller.image).leader == 2)
        await controller.publish()
        assert host.partition().follower is not None


async def test_the_other_partitions_of_the_broker_stay_online(host: Host) -> None:
    async with reporting(host, with_topic(cluster(1, 2), [1, 2], [1, 2])) as controller:
        filled(host, 0)
        filled(host, 1)
        corrupt(host, 0)
        filled(host, 1, "c")
        await until(lambda: len(controller.reports) == 1)
        await controller.publish()
        assert values_in(host.partition(1)) == ["a", "b", "c"]
        assert host.partition(1).leader is not None


async def test_metadata_from_before_the_report_does_not_free_the_replica(host: Host) -> None:
    async with reporting(host, FOLLOWS) as controller:
        filled(host)
        host.controllers.answers["fail_replicas"] = NoController("none")
        corrupt(host)
        # It left the ISR for another reason; a fetch of this broker may still be on its way to the leader.
        controller.image = controller.image.replay([changed(2, epoch=1, leader_epoch=0, isr=(2, 3))])
        await controller.publish()
        assert host.directories() == ["orders-0"]
        host.controllers.answers["fail_replicas"] = controller._decide
        await until(lambda: partition(controller.image).leader_epoch == 1)
        await controller.publish()
        assert host.directories() == ["orders-0", "orders-0.0-quarantine"]


@pytest.mark.parametrize(
    "answer", [NoController("none"), FailReplicasResult(error_code=ErrorCode.STALE_BROKER_EPOCH, error_message="old")]
)
async def test_a_report_is_repeated_until_the_metadata_shows_its_result(host: Host, answer: Any) -> None:
    async with reporting(host, FOLLOWS) as controller:
        filled(host)
        host.controllers.answers["fail_replicas"] = answer
        corrupt(host)
        await asyncio.sleep(10)
        assert 5 <= len(controller.reports) <= 12
        host.controllers.answers["fail_replicas"] = controller._decide
        await until(lambda: partition(controller.image).isr == (2, 3))
        heard = len(controller.reports)
        await asyncio.sleep(3)
        assert len(controller.reports) > heard, "the metadata has not come yet"
        await controller.publish()
        heard = len(controller.reports)
        await asyncio.sleep(10)
        assert len(controller.reports) == heard


async def test_the_last_in_sync_replica_is_kept_and_one_line_has_the_remedy(host: Host) -> None:
    with capture_logs() as logs:
        async with reporting(host, ALONE) as controller:
            filled(host)
            corrupt(host)
            await until(lambda: not partition(controller.image).has_leader)
            for _ in range(2):
                await controller.publish()
            assert host.directories() == ["orders-0"]
            assert partition(controller.image).isr == (1,)
            await asyncio.sleep(10)
            assert len(controller.reports) == 1
    (logged,) = [line for line in logs if "last in-sync replica" in line["event"]]
    assert logged["log_level"] == "error"
    assert "restore" in logged["remedy"]
    assert "orders-0 from a backup" in logged["remedy"]
    assert logged["replicas_that_lack_records"] == [2, 3]


async def test_corruption_found_once_is_remembered_after_a_restart_that_reads_less(tmp_path: Path) -> None:
    before = Host(Broker(tmp_path)).start()
    async with reporting(before, ALONE) as controller:
        filled(before)
        corrupt(before)
        await until(lambda: not partition(controller.image).has_leader)
        await controller.publish()
    flip_a_bit(tmp_path / "orders-0")  # back to what it was

    host = restarted(tmp_path, clean=True)
    async with reporting(host, as_registered_anew(controller.image)) as again:
        (offline,) = host.broker.partitions.offline
        assert offline.damage is Damage.CORRUPT
        # As soon as the broker is in service the controller lets it lead, and is told not to.
        again.image = unfenced(again.image)
        assert partition(again.image).leader == 1
        await again.publish()
        await until(lambda: not partition(again.image).has_leader)
        await again.publish()
        assert partition(again.image).isr == (1,)


async def test_corruption_found_at_the_start_stops_only_that_replica(tmp_path: Path) -> None:
    image = with_topic(cluster(1, 2), [1, 2], [1, 2])
    before = Host(Broker(tmp_path)).start()
    async with reporting(before, image):
        filled(before, 0)
        filled(before, 1)
    (tmp_path / "orders-0" / METADATA_FILE).write_text("gibberish")

    host = restarted(tmp_path)
    image = as_registered_anew(image)
    async with reporting(host, image) as controller:
        assert values_in(host.partition(1)) == ["a", "b"]
        # Its registration has taken the broker out of the ISR already, so there is nothing to wait for.
        assert values_in(host.partition(0)) == []
        assert host.directories() == ["orders-0", "orders-0.0-quarantine", "orders-1"]
        await asyncio.sleep(5)
        assert controller.reports == []


async def test_a_replica_without_a_leader_to_copy_from_waits_for_one(host: Host) -> None:
    image = with_topic(cluster(1, 2), [2, 1], isr=[2])
    async with reporting(host, image) as controller:
        filled(host)
        controller.image = image.replay(fence_broker(image, BrokerId(2), BrokerEpoch(2)).records)
        await controller.publish()
        rot_in_place = host.partition()
        flip_a_bit(Path(rot_in_place.log.directory))
        with pytest.raises(Refusal):
            read(rot_in_place)
        await until(lambda: len(controller.reports) == 1)
        await controller.publish()
        assert host.directories() == ["orders-0"]
        controller.image = controller.image.replay(
            unfence_broker(controller.image, BrokerId(2), BrokerEpoch(2)).records
        )
        await controller.publish()
        assert host.partition().follower is not None
        assert host.directories() == ["orders-0", "orders-0.0-quarantine"]


async def test_a_corrupt_replica_is_deleted_with_its_topic(host: Host) -> None:
    async with reporting(host, ALONE) as controller:
        filled(host)
        corrupt(host)
        await until(lambda: not partition(controller.image).has_leader)
        await controller.publish()
        controller.image = controller.image.replay([TopicDeleted(topic_id=ORDERS)])
        await controller.publish()
        assert host.broker.partitions.offline == []
        await until(lambda: read_high_watermarks(host.broker.disk, as_log_directory(host.path())) == {})
        await host.remover.remove_waiting()
        assert host.directories() == []
        reports = len(controller.reports)
        await asyncio.sleep(5)
        assert len(controller.reports) == reports


async def test_a_log_that_ends_below_what_was_committed_does_not_lead(tmp_path: Path) -> None:
    before = Host(Broker(tmp_path)).start()
    async with reporting(before, ALONE) as controller:
        filled(before)
        await before.publisher.checkpoint()
    for kept in (tmp_path / "orders-0").glob("0*"):
        if kept.suffix == ".log":
            kept.write_bytes(b"")
        else:
            kept.unlink()

    host = restarted(tmp_path)
    async with reporting(host, as_registered_anew(controller.image)):
        (offline,) = host.broker.partitions.offline
        assert offline.damage is Damage.CORRUPT


# --- a replica that is gone ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("emptied", ["the partition", "the whole directory"])
async def test_the_last_of_the_isr_never_leads_from_an_emptied_disk(tmp_path: Path, emptied: str) -> None:
    before = Host(Broker(tmp_path)).start()
    async with reporting(before, ALONE) as controller:
        filled(before)
    shutil.rmtree(tmp_path / "orders-0")
    if emptied == "the whole directory":
        before.broker.disk.remove(f"{tmp_path}/{FILE_NAME}")

    image = as_registered_anew(controller.image)
    for _ in range(3):
        # However often it is started: what it has lost stays lost.
        host = restarted(tmp_path)
        async with reporting(host, image) as again:
            (offline,) = host.broker.partitions.offline
            assert offline.damage is Damage.MISSING
            again.image = unfenced(again.image)
            await again.publish()
            await until(lambda: not partition(again.image).has_leader)
            await again.publish()
            await host.publisher.checkpoint()
            assert host.directories() == []
            image = as_registered_anew(again.image)


async def test_a_missing_eligible_replica_is_reported_before_it_is_recreated(tmp_path: Path) -> None:
    """It is not in sync, and yet it may be the one that is elected next."""
    eligible = FOLLOWS.replay(
        [
            TopicConfigSet(topic_id=ORDERS, key="min.insync.replicas", value="2"),
            replace(changed(2, epoch=1, isr=(2,)), elr=ids(1)),
        ]
    )
    before = Host(Broker(tmp_path)).start()
    async with reporting(before, FOLLOWS):
        filled(before)
        await before.act_on(eligible)
    shutil.rmtree(tmp_path / "orders-0")

    host = restarted(tmp_path)
    async with reporting(host, as_registered_anew(eligible)) as again:
        (offline,) = host.broker.partitions.offline
        assert offline.damage is Damage.MISSING
        assert partition(again.image).elr == (1,), "nobody knows of it yet"
        await until(lambda: partition(again.image).elr == ())
        await again.publish()
        assert host.partition().follower is not None
        assert (partition(again.image).leader, partition(again.image).last_known_elr) == (2, (1,))


async def test_a_replica_that_others_have_is_recreated_in_an_emptied_directory(tmp_path: Path) -> None:
    host = restarted(tmp_path)
    async with reporting(host, as_registered_anew(LEADS)):
        assert host.partition().follower is not None
        assert host.directories() == ["orders-0"]


async def test_a_partition_that_was_assigned_and_not_created_before_a_crash_begins_empty(tmp_path: Path) -> None:
    before = Host(Broker(tmp_path)).start()
    async with reporting(before, cluster(1, 2, 3)):
        pass
    # It was created, and this broker died before it heard of that.
    host = restarted(tmp_path)
    async with reporting(host, unfenced(as_registered_anew(ALONE))):
        assert host.partition().leader is not None


async def test_a_topic_that_is_created_while_the_broker_starts_begins_empty(host: Host) -> None:
    async with reporting(host, LEADS):
        assert host.partition().leader is not None
        assert ORDERS_0 in read_high_watermarks(host.broker.disk, as_log_directory(host.path())), (
            "missed if it were lost"
        )
