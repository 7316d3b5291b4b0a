"""Cases of the APIs for groups."""

from __future__ import annotations

from typing import Any, Final

from kraft.model.group_lags import DescribeGroupLagsRequest, DescribeGroupLagsResponse, GroupLag, PartitionLag
from kraft.server.handlers.group_lags import group_lag
from kraft.wire.schema import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    find_coordinator,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    txn_offset_commit,
)
from tests.unit.server.access.needs import (
    ANSWERED,
    DELETE,
    DESCRIBE,
    GROUP,
    NONE,
    NOTHING,
    OF_GROUP,
    READ,
    TOPIC,
    TOPIC_ID,
    TRANSACTION,
    WRITE,
    Case,
    of_topics,
    on_cluster,
    on_group,
    on_id,
    on_topic,
    whole,
)


def _fetched_offsets(request: offset_fetch.OffsetFetchRequest) -> offset_fetch.OffsetFetchResponse:
    one = offset_fetch.OffsetFetchResponsePartitions(
        partition_index=0, committed_offset=5, metadata="", error_code=NONE
    )
    return offset_fetch.OffsetFetchResponse(
        groups=tuple(
            offset_fetch.OffsetFetchResponseGroup(
                group_id=group.group_id,
                topics=tuple(
                    offset_fetch.OffsetFetchResponseTopics(name=topic.name, partitions=(one,))
                    for topic in (ALL_OFFSETS if group.topics is None else group.topics)
                ),
            )
            for group in request.groups
        )
    )


ALL_OFFSETS: Final = (offset_fetch.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=(0,)),)


def offset_fetch_of(topics: Any) -> offset_fetch.OffsetFetchRequest:
    return offset_fetch.OffsetFetchRequest(
        groups=(offset_fetch.OffsetFetchRequestGroup(group_id=GROUP, topics=topics),), require_stable=False
    )


def consumer_group(group_id: str) -> consumer_group_describe.DescribedGroup:
    topic = consumer_group_describe.TopicPartitions(topic_id=TOPIC_ID, topic_name=TOPIC, partitions=(0,))
    none = consumer_group_describe.Assignment(topic_partitions=())
    member = consumer_group_describe.Member(
        member_id="m",
        member_epoch=1,
        client_id="",
        client_host="",
        subscribed_topic_names=(TOPIC,),
        assignment=none,
        target_assignment=consumer_group_describe.Assignment(topic_partitions=(topic,)),
    )
    return consumer_group_describe.DescribedGroup(
        error_code=NONE,
        group_id=group_id,
        group_state="Stable",
        group_epoch=1,
        assignment_epoch=1,
        assignor_name="uniform",
        members=(member,),
    )


def _lag_of(group_id: str) -> GroupLag:
    one = PartitionLag(
        topic=TOPIC,
        partition=0,
        state="STOP",
        committed_offset=5,
        lag=3,
        behind_ms=1_000,
        is_at_least=False,
        completeness=1.0,
        commits=[],
    )
    return group_lag(group_id, [one])


GROUP_CASES: Final[dict[str, Case]] = {
    "FindCoordinator": Case(
        find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=(GROUP,)),
        lambda request: find_coordinator.FindCoordinatorResponse(
            coordinators=tuple(
                find_coordinator.Coordinator(key=each, node_id=1, host="h", port=1, error_code=NONE, error_message=None)
                for each in request.coordinator_keys
            )
        ),
        ((on_group(DESCRIBE),),),
        "DESCRIBE on the transactional id, for keys of that type",
    ),
    "JoinGroup": whole(OF_GROUP, on_group(READ)),
    "SyncGroup": whole(OF_GROUP, on_group(READ)),
    "Heartbeat": whole(OF_GROUP, on_group(READ)),
    "LeaveGroup": whole(OF_GROUP, on_group(READ)),
    "ConsumerGroupHeartbeat": Case(
        consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id="m", member_epoch=0, subscribed_topic_names=(TOPIC,)
        ),
        lambda _: ANSWERED,
        ((on_group(READ),), (on_topic(DESCRIBE),)),
        "of the topics that match a regular expression, the group gets those that the member may describe",
    ),
    "ListGroups": Case(
        NOTHING,
        lambda _: list_groups.ListGroupsResponse(
            error_code=NONE, groups=(list_groups.ListedGroup(group_id=GROUP, protocol_type="consumer"),)
        ),
        ((on_cluster(DESCRIBE, None), on_group(DESCRIBE, None)),),
        "groups that the client may not describe are left out",
    ),
    "DescribeGroups": Case(
        describe_groups.DescribeGroupsRequest(groups=(GROUP,)),
        lambda request: describe_groups.DescribeGroupsResponse(
            groups=tuple(
                describe_groups.DescribedGroup(
                    error_code=NONE, group_id=each, group_state="", protocol_type="", protocol_data="", members=()
                )
                for each in request.groups
            )
        ),
        ((on_group(DESCRIBE),),),
    ),
    "ConsumerGroupDescribe": Case(
        consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=(GROUP,), include_authorized_operations=False),
        lambda request: consumer_group_describe.ConsumerGroupDescribeResponse(
            groups=tuple(map(consumer_group, request.group_ids))
        ),
        ((on_group(DESCRIBE),), (on_topic(DESCRIBE),)),
        "a group is not shown if its members have topics that the client may not describe",
    ),
    "DescribeGroupLags": Case(
        DescribeGroupLagsRequest(group_ids=[GROUP]),
        lambda request: DescribeGroupLagsResponse(groups=[_lag_of(each) for each in request.group_ids]),
        ((on_group(DESCRIBE),), (on_topic(DESCRIBE, None),)),
        "partitions of topics that the client may not describe are left out",
    ),
    "DeleteGroups": Case(
        delete_groups.DeleteGroupsRequest(groups_names=(GROUP,)),
        lambda request: delete_groups.DeleteGroupsResponse(
            results=tuple(
                delete_groups.DeletableGroupResult(group_id=each, error_code=NONE) for each in request.groups_names
            )
        ),
        ((on_group(DELETE),),),
    ),
    "OffsetCommit": Case(
        offset_commit.OffsetCommitRequest(
            group_id=GROUP,
            member_id="",
            topics=(
                offset_commit.OffsetCommitRequestTopic(
                    name=TOPIC,
                    partitions=(
                        offset_commit.OffsetCommitRequestPartition(
                            partition_index=0, committed_offset=1, committed_metadata=None
                        ),
                    ),
                ),
            ),
        ),
        of_topics(
            (offset_commit.OffsetCommitResponseTopic, offset_commit.OffsetCommitResponsePartition),
            offset_commit.OffsetCommitResponse,
        ),
        ((on_group(READ),), (on_topic(READ),)),
    ),
    "TxnOffsetCommit": Case(
        txn_offset_commit.TxnOffsetCommitRequest(
            transactional_id=TRANSACTION,
            group_id=GROUP,
            producer_id=1,
            producer_epoch=0,
            topics=(
                txn_offset_commit.TxnOffsetCommitRequestTopic(
                    name=TOPIC,
                    partitions=(
                        txn_offset_commit.TxnOffsetCommitRequestPartition(
                            partition_index=0, committed_offset=1, committed_metadata=None
                        ),
                    ),
                ),
            ),
        ),
        of_topics(
            (txn_offset_commit.TxnOffsetCommitResponseTopic, txn_offset_commit.TxnOffsetCommitResponsePartition),
            txn_offset_commit.TxnOffsetCommitResponse,
        ),
        ((on_id(WRITE),), (on_group(READ),), (on_topic(READ),)),
    ),
    "OffsetFetch": Case(
        offset_fetch_of(ALL_OFFSETS),
        _fetched_offsets,
        ((on_group(DESCRIBE),), (on_topic(DESCRIBE),)),
        "of all topics of a group those are left out that the client may not describe",
    ),
    "OffsetDelete": Case(
        offset_delete.OffsetDeleteRequest(
            group_id=GROUP,
            topics=(
                offset_delete.OffsetDeleteRequestTopic(
                    name=TOPIC, partitions=(offset_delete.OffsetDeleteRequestPartition(partition_index=0),)
                ),
            ),
        ),
        of_topics(
            (offset_delete.OffsetDeleteResponseTopic, offset_delete.OffsetDeleteResponsePartition),
            offset_delete.OffsetDeleteResponse,
            error_code=NONE,
        ),
        ((on_group(DELETE),), (on_topic(READ),)),
    ),
}
