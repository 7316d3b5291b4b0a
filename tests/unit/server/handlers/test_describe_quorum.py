from __future__ import annotations

import asyncio

import pytest

from kraft.model.describe_quorum import QuorumDescription, QuorumMember
from kraft.model.errors import ErrorCode
from kraft.model.ids import BrokerId
from kraft.server.config.values import Voter
from kraft.server.handlers.describe_quorum import DescribeQuorumHandler
from kraft.server.kafka_listener.handled import HandledApi
from kraft.wire.api_keys import ApiKey
from kraft.wire.schema.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RequestedPartition,
    RequestedTopic,
)
from tests.unit.server.kafka_listener.apis.listener import answered, versions_of

QUORUM = QuorumDescription(
    leader_id=1,
    leader_epoch=4,
    high_watermark=90,
    voters=[
        QuorumMember(node_id=1, log_end_offset=91, last_fetch_timestamp_ms=1_000, last_caught_up_timestamp_ms=1_000),
        QuorumMember(node_id=2, log_end_offset=90, last_fetch_timestamp_ms=990, last_caught_up_timestamp_ms=980),
    ],
    observers=[QuorumMember(node_id=7, log_end_offset=-1)],
)
VOTERS = [Voter(node_id=BrokerId(1), host="one", port=9093)]


def described(
    quorum: QuorumDescription = QUORUM, topic: str = "__cluster_metadata", partition: int = 0, version: int = 2
) -> DescribeQuorumResponse:
    async def handle(_: object) -> QuorumDescription:
        return quorum

    request = DescribeQuorumRequest(
        topics=(RequestedTopic(topic_name=topic, partitions=(RequestedPartition(partition_index=partition),)),)
    )
    api = HandledApi(ApiKey.DESCRIBE_QUORUM, DescribeQuorumHandler(handle, VOTERS).handle)
    return asyncio.run(answered(api, request, version, DescribeQuorumResponse))


@pytest.mark.parametrize("version", versions_of(DescribeQuorumRequest))
def test_the_quorum_is_described_as_its_leader_sees_it(version: int) -> None:
    response = described(version=version)
    (topic,) = response.topics
    (partition,) = topic.partitions
    assert (response.error_code, topic.topic_name, partition.error_code) == (0, "__cluster_metadata", 0)
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (1, 4, 90)
    times = version >= 1
    assert [
        (each.replica_id, each.log_end_offset, each.last_fetch_timestamp, each.last_caught_up_timestamp)
        for each in (*partition.current_voters, *partition.observers)
    ] == [
        (1, 91, 1_000 if times else -1, 1_000 if times else -1),
        (2, 90, 990 if times else -1, 980 if times else -1),
        (7, -1, -1, -1),
    ]
    nodes = [(each.node_id, each.listeners[0].name, each.listeners[0].host) for each in response.nodes]
    assert nodes == ([(1, "CONTROLLER", "one")] if version >= 2 else [])


@pytest.mark.parametrize(("topic", "partition"), [("orders", 0), ("__cluster_metadata", 1)])
def test_of_other_partitions_nothing_is_agreed(topic: str, partition: int) -> None:
    (described_topic,) = described(topic=topic, partition=partition).topics
    (refused,) = described_topic.partitions
    assert (refused.partition_index, refused.error_code) == (partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert refused.current_voters == ()


def test_without_an_active_controller_the_request_is_refused() -> None:
    nobody = QuorumDescription(error_code=ErrorCode.NOT_CONTROLLER, error_message="no controller is active")
    response = described(nobody)
    assert (response.error_code, response.error_message, response.topics) == (41, "no controller is active", ())
