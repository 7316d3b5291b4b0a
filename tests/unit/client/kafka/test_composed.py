"""What is made of answers of Kafka's protocol that say less than the call they stand for."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from kraft.client.kafka.composed import COMPOSED
from kraft.model.describe_quorum import QuorumDescription, QuorumDescriptionRequest
from kraft.rpc.calls import DESCRIBE_QUORUM
from kraft.wire.declaration import Message
from kraft.wire.schema.describe_cluster import DescribeClusterResponse
from kraft.wire.schema.describe_quorum import DescribeQuorumResponse, PartitionData, ReplicaState, TopicData

NOW_MS: Final = 1_800_000_000_000


def described(*voters: ReplicaState) -> QuorumDescription:
    """Return what is made of a broker's answer, where voter 1 leads."""
    partition = PartitionData(
        partition_index=0,
        error_code=0,
        leader_id=1,
        leader_epoch=3,
        high_watermark=40,
        current_voters=voters,
        observers=(replica(9, NOW_MS - 60_000),),
    )
    quorum = DescribeQuorumResponse(
        error_code=0, topics=(TopicData(topic_name="__cluster_metadata", partitions=(partition,)),)
    )
    cluster = DescribeClusterResponse(error_code=0, cluster_id="c", controller_id=1, brokers=())

    async def ask(request: Message) -> Any:
        return quorum if type(request).__name__ == "DescribeQuorumRequest" else cluster

    async def made() -> QuorumDescription:
        found: QuorumDescription = await COMPOSED[DESCRIBE_QUORUM](ask, QuorumDescriptionRequest())
        return found

    return asyncio.run(made())


def replica(node_id: int, fetched_ms: int) -> ReplicaState:
    return ReplicaState(replica_id=node_id, log_end_offset=40, last_fetch_timestamp=fetched_ms)


@pytest.mark.parametrize(
    ("fetched_ms", "is_unreachable"),
    [(NOW_MS - 500, False), (NOW_MS - 2_900, False), (NOW_MS - 3_100, True), (-1, True)],
    ids=["waits for records", "is slow", "is silent", "was never heard by this leader"],
)
def test_a_voter_that_the_leader_no_longer_hears_is_unreachable(fetched_ms: int, is_unreachable: bool) -> None:
    quorum = described(replica(1, NOW_MS), replica(2, fetched_ms), replica(3, NOW_MS - 20))
    assert [each.unreachable for each in quorum.voters] == [False, is_unreachable, False]
    assert [each.unreachable for each in quorum.observers] == [False]


def test_without_times_nobody_is_called_unreachable() -> None:
    quorum = described(replica(1, -1), replica(2, -1))
    assert [each.unreachable for each in quorum.voters] == [False, False]
