from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from kraft.metadata.image import EMPTY_IMAGE, MetadataImage
from kraft.metadata.records import TopicConfigSet, TopicDeleted
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import Offset, TopicId
from kraft.server.replica.high_watermarks import write_high_watermarks
from kraft.server.replica.log_directories import as_log_directory
from tests.support.cluster_images import ORDERS, cluster, with_topic
from tests.support.server.replicas import ORDERS_0, Broker, append_to, batch, values_in
from tests.unit.server.replica.publishing import Host

pytestmark = pytest.mark.real_time

OTHER = TopicId(UUID(int=200))
OPEN = "logs preloaded"


def run(scenario: Any) -> None:
    asyncio.run(scenario)


def open_files(directory: Path) -> set[str]:
    """Names of partition directories with files that this process holds open."""
    numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    targets = []
    for number in numbers:
        try:
            targets.append(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:
            # That of the listing itself.
            continue
    return {Path(target).parent.name for target in targets if target.startswith(f"{directory}/")}


async def lived(directory: Path, *, partitions: int = 2) -> MetadataImage:
    """Leave the state of an unclean stop: a record in each partition of `orders`; return the image."""
    host = Host(Broker(directory)).start()
    await host.act_on(with_topic(cluster(1, 2), *([1, 2] for _ in range(partitions))))
    for number in range(partitions):
        append_to(host.partition(number), batch(f"r{number}"), -1)
    await host.publisher.close()
    return host.image


async def test_logs_are_preloaded_before_any_metadata_and_serve_no_requests(tmp_path: Path) -> None:
    image = await lived(tmp_path)
    host = Host(Broker(tmp_path)).start()
    with capture_logs() as events:
        await host.publisher.log_preloading.open(image)
    (logged,) = [event for event in events if event["event"] == OPEN]
    assert (logged["opened"], logged["corrupt"]) == (2, 0)
    assert open_files(tmp_path) == {"orders-0", "orders-1"}
    assert (len(host.broker.partitions), host.fetchers) == (0, [])
    with pytest.raises(Refusal) as refused:
        host.broker.partitions.by_name("orders", 0)
    assert refused.value.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with capture_logs() as events:
        await host.act_on(image)
    assert values_in(host.partition(1)) == ["r1"]
    assert host.partition(1).leader is not None
    assert [event["partition"] for event in events if event["event"] == "log opened"] == ["orders-0", "orders-1"]
    await host.publisher.close()
    assert open_files(tmp_path) == set()


async def test_a_torn_end_is_cut_off_after_an_unclean_stop(tmp_path: Path) -> None:
    image = await lived(tmp_path, partitions=1)
    with (tmp_path / "orders-0" / f"{0:020}.log").open("ab") as file:
        file.write(b"torn")
    host = Host(Broker(tmp_path)).start()
    with capture_logs() as events:
        await host.publisher.log_preloading.open(image)
    (logged,) = [event for event in events if event["event"] == OPEN]
    assert (logged["opened"], logged["corrupt"]) == (1, 0)
    await host.act_on(image)
    assert values_in(host.partition(0)) == ["r0"]
    await host.publisher.close()


async def test_the_configs_of_the_live_metadata_count(tmp_path: Path) -> None:
    image = await lived(tmp_path)
    host = Host(Broker(tmp_path)).start()
    await host.publisher.log_preloading.open(EMPTY_IMAGE)
    await host.act_on(image.replay([TopicConfigSet(topic_id=ORDERS, key="retention.ms", value="77")]))
    assert host.partition(0).log.config.retention_ms == 77
    await host.publisher.close()


async def test_a_topic_that_was_deleted_meanwhile_is_closed_and_renamed(tmp_path: Path) -> None:
    image = await lived(tmp_path)
    host = Host(Broker(tmp_path)).start()
    await host.publisher.log_preloading.open(image)
    await host.act_on(image.replay([TopicDeleted(topic_id=ORDERS)]))
    assert host.directories() == ["orders-0.0-stray", "orders-1.0-stray"]
    assert open_files(tmp_path) == set()
    assert (tmp_path / "orders-0.0-stray" / f"{0:020}.log").stat().st_size > 0
    await host.publisher.close()


async def test_a_topic_that_was_created_again_meanwhile_begins_empty(tmp_path: Path) -> None:
    image = await lived(tmp_path, partitions=1)
    host = Host(Broker(tmp_path)).start()
    await host.publisher.log_preloading.open(image)
    await host.act_on(with_topic(image.replay([TopicDeleted(topic_id=ORDERS)]), [1, 2], topic_id=OTHER))
    assert host.directories() == ["orders-0", "orders-0.0-stray"]
    assert values_in(host.partition(0, OTHER)) == []
    assert open_files(tmp_path) == {"orders-0"}
    await host.publisher.close()


async def test_a_partition_that_was_reassigned_is_closed_and_renamed(tmp_path: Path) -> None:
    image = await lived(tmp_path)
    host = Host(Broker(tmp_path)).start()
    await host.publisher.log_preloading.open(image)
    await host.act_on(with_topic(cluster(1, 2, 3), [1, 2], [2, 3]))
    assert host.directories() == ["orders-0", "orders-1.0-stray"]
    assert open_files(tmp_path) == {"orders-0"}
    await host.publisher.close()


async def test_metadata_that_arrives_meanwhile_uses_the_open_logs(tmp_path: Path) -> None:
    image = await lived(tmp_path, partitions=5)
    host = Host(Broker(tmp_path)).start()
    opening = asyncio.create_task(host.publisher.log_preloading.open(image))
    while len(open_files(tmp_path)) < 2:  # noqa: ASYNC110  The files tell, and they set no event.
        await asyncio.sleep(0)
    assert len(open_files(tmp_path)) < 5
    await host.act_on(image)
    await opening
    assert [values_in(host.partition(number)) for number in range(5)] == [[f"r{number}"] for number in range(5)]
    await host.publisher.close()


async def test_a_broker_that_stops_before_any_metadata_closes_them_cleanly(tmp_path: Path) -> None:
    image = await lived(tmp_path)
    host = Host(Broker(tmp_path)).start()
    await host.publisher.log_preloading.open(image)
    await host.publisher.close()
    assert open_files(tmp_path) == set()
    again = Host(Broker(tmp_path)).start(clean_shutdown=True)
    await again.act_on(image)
    assert values_in(again.partition(0)) == ["r0"]
    await again.publisher.close()


async def test_a_damaged_log_is_left_until_the_metadata_arrives(tmp_path: Path) -> None:
    image = await lived(tmp_path)
    host = Host(Broker(tmp_path)).start()
    (tmp_path / "orders-1" / "corrupt-replica").write_text("found yesterday\n")
    with capture_logs() as events:
        await host.publisher.log_preloading.open(image)
    (logged,) = [event for event in events if event["event"] == OPEN]
    assert (logged["opened"], logged["corrupt"]) == (1, 1)
    await host.act_on(image)
    (offline,) = host.broker.partitions.offline
    assert (offline.topic_partition.partition, "found yesterday" in offline.reason) == (1, True)
    await host.publisher.close()


async def test_a_replica_that_lost_committed_records_is_offline_although_its_log_was_open(tmp_path: Path) -> None:
    image = await lived(tmp_path, partitions=1)
    host = Host(Broker(tmp_path))
    (tmp_path / "orders-0" / f"{0:020}.log").write_bytes(b"")
    for left in ("log-checkpoint", "log-checkpoint.earlier"):
        (tmp_path / "orders-0" / left).unlink(missing_ok=True)
    write_high_watermarks(host.broker.disk, as_log_directory(tmp_path), {ORDERS_0: Offset(1)})
    host.start()
    await host.publisher.log_preloading.open(image)
    await host.act_on(image)
    assert len(host.broker.partitions.offline) == 1
    assert open_files(tmp_path) == set()
    await host.publisher.close()
