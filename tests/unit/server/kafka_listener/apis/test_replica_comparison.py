"""Fetches of tools that compare replicas, as Kafka's replica verification sends them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kraft.model.errors import ErrorCode
from kraft.model.ids import TopicPartition
from kraft.server.kafka_listener.apis.fetch import FetchApi
from kraft.server.kafka_listener.fetch_sessions import FetchSessions, SharedFetches
from kraft.server.loop.budget import Budget
from kraft.wire.schema.fetch import (
    DEBUGGING_CONSUMER,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from tests.support.server.fetch_handlers import fetch_handler
from tests.support.server.replicas import Broker, append_to, batch, follow, lead, values_of
from tests.unit.server.kafka_listener.apis.listener import answered, id_of, leaders, partitions_of, versions_of


@pytest.fixture
def api(tmp_path: Path) -> FetchApi:
    """Of a broker that follows a partition with one committed record."""
    broker = Broker(tmp_path, partitions=partitions_of())
    partition = broker.open(TopicPartition("orders", 0))
    lead(partition, replicas=(1,))
    append_to(partition, batch("a"), 1)
    broker.sync()
    follow(partition, epoch=1)
    shared = SharedFetches(FetchSessions(lambda: 1, 10, 100), Budget(100), lambda: broker.now_ms)
    return FetchApi(fetch_handler(broker.partitions).begin, leaders(), shared)


async def fetched(api: FetchApi, version: int, **fields: Any) -> PartitionData:
    wanted = (FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20),)
    topic = {"topic_id": id_of("orders")} if version >= 13 else {"topic": "orders"}
    request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=(FetchTopic(**topic, partitions=wanted),), **fields)
    response = await answered(api, request, version, FetchResponse)
    (data,) = response.responses[0].partitions
    return data


@pytest.mark.parametrize("version", versions_of(FetchRequest))
async def test_a_follower_answers_up_to_its_high_watermark_with_all_records(api: FetchApi, version: int) -> None:
    state = ReplicaState(replica_id=DEBUGGING_CONSUMER)
    says_so = {"replica_id": DEBUGGING_CONSUMER} if version < 15 else {"replica_state": state}
    found = await fetched(api, version, isolation_level=1, **says_so)
    assert (found.error_code, values_of(bytes(found.records or b""))) == (ErrorCode.NONE, ["a"])
    assert found.aborted_transactions is None
    assert (await fetched(api, version)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
