"""Cases of the APIs about the replicas of partitions."""

from __future__ import annotations

from typing import Final

from kraft.model.awaited_replicas import (
    AwaitedReplicas,
    AwaitingPartition,
    DescribeAwaitedReplicasRequest,
    DescribeAwaitedReplicasResponse,
)
from kraft.model.errors import ErrorCode
from kraft.wire.schema import delete_records, describe_producers, list_offsets, offset_for_leader_epoch
from tests.unit.server.access.needs import (
    ACTION,
    ALTER,
    DELETE,
    DESCRIBE,
    NOTHING,
    READ,
    TOPIC,
    Case,
    of_topics,
    on_cluster,
    on_topic,
    whole,
)

REPLICA_CASES: Final[dict[str, Case]] = {
    "ListOffsets": Case(
        list_offsets.ListOffsetsRequest(
            replica_id=-1,
            topics=(
                list_offsets.ListOffsetsTopic(
                    name=TOPIC, partitions=(list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1),)
                ),
            ),
        ),
        of_topics(
            (list_offsets.ListOffsetsTopicResponse, list_offsets.ListOffsetsPartitionResponse),
            list_offsets.ListOffsetsResponse,
        ),
        ((on_topic(DESCRIBE),),),
    ),
    "OffsetForLeaderEpoch": Case(
        offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            topics=(
                offset_for_leader_epoch.OffsetForLeaderTopic(
                    topic=TOPIC,
                    partitions=(offset_for_leader_epoch.OffsetForLeaderPartition(partition=0, leader_epoch=0),),
                ),
            )
        ),
        lambda request: offset_for_leader_epoch.OffsetForLeaderEpochResponse(
            topics=tuple(
                offset_for_leader_epoch.OffsetForLeaderTopicResult(topic=each.topic, partitions=())
                for each in request.topics
            )
        ),
        ((on_cluster(ACTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED), on_topic(DESCRIBE)),),
    ),
    "DeleteRecords": Case(
        delete_records.DeleteRecordsRequest(
            topics=(
                delete_records.DeleteRecordsTopic(
                    name=TOPIC, partitions=(delete_records.DeleteRecordsPartition(partition_index=0, offset=1),)
                ),
            ),
            timeout_ms=1,
        ),
        lambda request: delete_records.DeleteRecordsResponse(
            topics=tuple(
                delete_records.DeleteRecordsTopicResult(name=each.name, partitions=()) for each in request.topics
            )
        ),
        ((on_topic(DELETE),),),
    ),
    "DescribeProducers": Case(
        describe_producers.DescribeProducersRequest(
            topics=(describe_producers.TopicRequest(name=TOPIC, partition_indexes=(0,)),)
        ),
        lambda request: describe_producers.DescribeProducersResponse(
            topics=tuple(describe_producers.TopicResponse(name=each.name, partitions=()) for each in request.topics)
        ),
        ((on_topic(READ),),),
    ),
    "DescribeAwaitedReplicas": Case(
        DescribeAwaitedReplicasRequest(partitions=[AwaitingPartition(topic=TOPIC, partition=0)]),
        lambda request: DescribeAwaitedReplicasResponse(
            partitions=[
                AwaitedReplicas(topic=each.topic, partition=each.partition, awaited="waits for 2")
                for each in request.partitions
            ]
        ),
        ((on_topic(DESCRIBE, None),),),
        "nothing is said of topics that the client may not describe",
    ),
    "AlterReplicaLogDirs": whole(NOTHING, on_cluster(ALTER)),
    "DescribeLogDirs": whole(NOTHING, on_cluster(DESCRIBE)),
    "ElectLeaders": whole(NOTHING, on_cluster(ALTER)),
    "AlterPartitionReassignments": whole(NOTHING, on_cluster(ALTER)),
    "ListPartitionReassignments": whole(NOTHING, on_cluster(DESCRIBE)),
}
