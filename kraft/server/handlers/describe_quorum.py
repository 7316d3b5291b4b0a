"""DescribeQuorum: list voters and observers with their log end offsets (KIP-595, KIP-836, KIP-853)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kraft.model import describe_quorum as model
from kraft.model.errors import ErrorCode, Refusal
from kraft.rpc.call import Handler
from kraft.server.config.values import CONTROLLER, Voter
from kraft.wire.schema.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)

METADATA_TOPIC: Final = "__cluster_metadata"
"""Topic whose partition 0 stands for the metadata quorum in Kafka's protocol."""


class DescribeQuorumHandler:
    def __init__(
        self, describe: Handler[model.QuorumDescriptionRequest, model.QuorumDescription], voters: Iterable[Voter]
    ) -> None:
        """`describe` returns what the gRPC call of this name does."""
        self._describe = describe
        self._nodes = tuple(
            Node(node_id=voter.node_id, listeners=(Listener(name=CONTROLLER, host=voter.host, port=voter.port),))
            for voter in voters
        )

    async def handle(self, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
        quorum = await self._describe(model.QuorumDescriptionRequest())
        if quorum.error_code is not ErrorCode.NONE:
            raise Refusal(quorum.error_code, quorum.error_message)
        return DescribeQuorumResponse(
            error_code=ErrorCode.NONE,
            topics=tuple(
                TopicData(
                    topic_name=topic.topic_name,
                    partitions=tuple(
                        _partition(quorum, topic.topic_name, partition.partition_index)
                        for partition in topic.partitions
                    ),
                )
                for topic in request.topics
            ),
            nodes=self._nodes,
        )


def _partition(quorum: model.QuorumDescription, topic: str, partition: int) -> PartitionData:
    if (topic, partition) != (METADATA_TOPIC, 0):
        return PartitionData(
            partition_index=partition,
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            error_message=f"no such quorum: ask for partition 0 of {METADATA_TOPIC}",
            leader_id=-1,
            leader_epoch=-1,
            high_watermark=-1,
            current_voters=(),
            observers=(),
        )
    return PartitionData(
        partition_index=0,
        error_code=ErrorCode.NONE,
        leader_id=quorum.leader_id,
        leader_epoch=quorum.leader_epoch,
        high_watermark=quorum.high_watermark,
        current_voters=tuple(map(_member, quorum.voters)),
        observers=tuple(map(_member, quorum.observers)),
    )


def _member(member: model.QuorumMember) -> ReplicaState:
    return ReplicaState(
        replica_id=member.node_id,
        log_end_offset=member.log_end_offset,
        last_fetch_timestamp=member.last_fetch_timestamp_ms,
        last_caught_up_timestamp=member.last_caught_up_timestamp_ms,
    )
