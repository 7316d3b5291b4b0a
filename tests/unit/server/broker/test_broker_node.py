from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kraft.metadata.image import EMPTY_IMAGE
from kraft.metadata.records import BrokerConfigSet
from kraft.model.errors import ErrorCode
from kraft.rpc.calls import LIST_OFFSETS
from kraft.rpc.cluster_calls import (
    ADD_PARTITIONS_TO_TXN,
    APPEND_AUDIT,
    LIST_PRODUCER_TRANSACTIONS,
    REPLICA_FETCH,
    WRITE_TXN_MARKERS,
)
from kraft.server.config.components import LogMaintenance
from kraft.server.upkeep.maintenance import LogMaintenanceTasks
from kraft.wire.schema.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tests.support.cluster_images import cluster, with_topic
from tests.support.declared_calls import DECLARED_CALLS
from tests.support.server.broker_nodes import broker
from tests.support.server.offset_lookups import NEWEST

pytestmark = pytest.mark.real_time


def within_loop(look: Callable[[], None]) -> None:
    async def scenario() -> None:
        look()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("durability", "stopped_cleanly", "may_have_lost_records"),
    [("fsync", True, False), ("fsync", False, False), ("page-cache", True, False), ("page-cache", False, True)],
)
def test_only_page_cache_durability_without_a_clean_stop_may_have_lost_records(
    tmp_path: Path, durability: str, stopped_cleanly: bool, may_have_lost_records: bool
) -> None:
    def look() -> None:
        made = broker(tmp_path, durability, stopped_cleanly=stopped_cleanly)
        assert made.metadata.lifecycle._identity.may_have_lost_records is may_have_lost_records

    within_loop(look)


async def test_logs_that_were_not_closed_and_never_opened_since_do_not_count_as_closed(tmp_path: Path) -> None:
    """A process that finds no controller stops in order, too, but the logs are as the crash before left them."""
    made = broker(tmp_path, "fsync", stopped_cleanly=False)
    assert len(made.log_directories_closed) == 0
    await made.replicas.publish(EMPTY_IMAGE, EMPTY_IMAGE)
    made.metadata.loader.first_image_applied.set()
    assert list(made.log_directories_closed) == [str(tmp_path / "data")]


def test_logs_that_were_closed_and_never_opened_since_count_as_closed(tmp_path: Path) -> None:
    def look() -> None:
        made = broker(tmp_path, "fsync", stopped_cleanly=True)
        assert made.log_directories_closed == (str(tmp_path / "data"),)

    within_loop(look)


async def test_a_partition_that_is_not_held_is_led_elsewhere_or_does_not_exist_as_the_metadata_says(
    tmp_path: Path,
) -> None:
    made = broker(tmp_path, "fsync", stopped_cleanly=True)
    made.metadata.loader.image = with_topic(cluster(1, 2), [1, 2])
    wanted = {"orders": (0, 1), "payments": (0,)}
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=tuple(
            ListOffsetsTopic(
                name=topic,
                partitions=tuple(ListOffsetsPartition(partition_index=each, timestamp=-1) for each in numbers),
            )
            for topic, numbers in wanted.items()
        ),
    )
    (served,) = (each for each in made.apis.grpc_calls() if each.call is LIST_OFFSETS)
    answer: ListOffsetsResponse = await served.handler(request, NEWEST)
    assert [each.error_code for topic in answer.topics for each in topic.partitions] == [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_a_broker_serves_every_call_of_the_public_api_and_its_followers(tmp_path: Path) -> None:
    def look() -> None:
        served = {each.call for each in broker(tmp_path, "fsync", stopped_cleanly=True).apis.grpc_calls()}
        public = {row for table, rows in DECLARED_CALLS.items() if table != "cluster_calls" for row in rows}
        of_nodes = {REPLICA_FETCH, ADD_PARTITIONS_TO_TXN, WRITE_TXN_MARKERS, LIST_PRODUCER_TRANSACTIONS, APPEND_AUDIT}
        assert served == public | of_nodes

    within_loop(look)


async def test_dynamic_configs_of_the_broker_reach_the_upkeep_of_its_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[LogMaintenance] = []
    monkeypatch.setattr(LogMaintenanceTasks, "reconfigure", lambda _, config: taken.append(config))
    made = broker(tmp_path, "fsync", stopped_cleanly=True)
    of_four = BrokerConfigSet(broker="4", key="log.cleaner.backoff.ms", value="77")
    of_five = BrokerConfigSet(broker="5", key="log.scrub.io.max.bytes.per.second", value="88")
    await made._publish(EMPTY_IMAGE, EMPTY_IMAGE.replay([of_four, of_five]))
    assert taken == [replace(made._config.log_maintenance, cleaner_backoff_ms=77)]
