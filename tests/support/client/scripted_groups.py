"""Requests about groups, as a broker of the fake cluster answers them. A test sets states, members and offsets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.find_coordinator import CoordinatorType
from kraft.model.ids import TopicPartition
from kraft.wire.codec import encode
from kraft.wire.schema import consumer_group_describe as consumer
from kraft.wire.schema import describe_groups as classic
from kraft.wire.schema import offset_fetch as offsets
from kraft.wire.schema.consumer_protocol import ConsumerProtocolAssignment
from kraft.wire.schema.consumer_protocol import TopicPartition as AssignedTopic
from kraft.wire.schema.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from kraft.wire.schema.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kraft.wire.schema.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from kraft.wire.schema.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kraft.wire.schema.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from tests.support.client.coordinators import found
from tests.support.client.offset_answers import commit_response, deletion_response

if TYPE_CHECKING:
    from tests.support.client.fake_cluster import FakeCluster

NO_GROUP = ErrorCode.GROUP_ID_NOT_FOUND


@dataclass
class ScriptedGroup:
    type: str = "consumer"
    state: str = "Empty"
    protocol_type: str = "consumer"
    assignor: str = "uniform"
    readers: dict[str, list[TopicPartition]] = field(default_factory=dict)
    """Partitions by member."""
    instance_ids: dict[str, str] = field(default_factory=dict)
    """Instance ids of static members."""
    classic_members: set[str] = field(default_factory=set)
    """Members of a consumer group that use the classic protocol."""
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    refused: dict[TopicPartition, ErrorCode] = field(default_factory=dict)
    """Partitions whose commits and deletions are refused."""
    joins_before_commits: bool = False
    """A member joins between a description and the next commit."""


class ScriptedGroups:
    def __init__(self, cluster: FakeCluster, broker_id: int) -> None:
        self._cluster = cluster
        self._broker_id = broker_id

    def find_coordinator(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        if request.key_type == CoordinatorType.TRANSACTION and self._cluster.transactions is not None:
            return self._cluster.transactions.find_coordinator(request)
        if self._cluster.groups is not None:
            return self._cluster.groups.find_coordinator(request)
        coordinators = []
        for key in request.coordinator_keys:
            broker_id = scripted_coordinator(self._cluster, key)
            coordinators.append(found(key, broker_id, f"broker-{broker_id}"))
        return FindCoordinatorResponse(coordinators=tuple(coordinators))

    def list_groups(self, request: ListGroupsRequest) -> ListGroupsResponse:
        listed = [
            ListedGroup(
                group_id=group_id, protocol_type=each.protocol_type, group_state=each.state, group_type=each.type
            )
            for group_id, each in self._cluster.scripted_groups.items()
            if scripted_coordinator(self._cluster, group_id) == self._broker_id
            and (not request.states_filter or each.state in request.states_filter)
            and (not request.types_filter or each.type in request.types_filter)
        ]
        return ListGroupsResponse(error_code=ErrorCode.NONE, groups=tuple(listed))

    def describe_groups(self, request: classic.DescribeGroupsRequest) -> classic.DescribeGroupsResponse:
        return classic.DescribeGroupsResponse(groups=tuple(map(self._classic, request.groups)))

    def _classic(self, group_id: str) -> classic.DescribedGroup:
        group = self._own(group_id)
        is_found = group is not None and group.type == "classic"
        found_group = (
            group if group is not None and is_found else ScriptedGroup(protocol_type="", assignor="", state="")
        )
        return classic.DescribedGroup(
            error_code=ErrorCode.NONE if is_found else NO_GROUP,
            error_message=None if is_found else f"no group {group_id}",
            group_id=group_id,
            group_state=found_group.state,
            protocol_type=found_group.protocol_type,
            protocol_data=found_group.assignor,
            members=tuple(
                classic.DescribedGroupMember(
                    member_id=member_id,
                    group_instance_id=found_group.instance_ids.get(member_id),
                    client_id="a client",
                    client_host="/10.0.0.1",
                    member_metadata=b"",
                    member_assignment=_assignment(assigned),
                )
                for member_id, assigned in found_group.readers.items()
            ),
        )

    def consumer_group_describe(
        self, request: consumer.ConsumerGroupDescribeRequest
    ) -> consumer.ConsumerGroupDescribeResponse:
        return consumer.ConsumerGroupDescribeResponse(groups=tuple(map(self._consumer, request.group_ids)))

    def _consumer(self, group_id: str) -> consumer.DescribedGroup:
        group = self._own(group_id)
        is_found = group is not None and group.type == "consumer"
        found_group = group if group is not None and is_found else ScriptedGroup(assignor="", state="")
        members = tuple(
            consumer.Member(
                member_id=member_id,
                instance_id=found_group.instance_ids.get(member_id),
                member_epoch=6,
                client_id="a client",
                client_host="/10.0.0.1",
                subscribed_topic_names=tuple({each.topic for each in assigned}),
                assignment=self._partitions(assigned),
                target_assignment=self._partitions(assigned[:1]),
                member_type=int(member_id not in found_group.classic_members),
            )
            for member_id, assigned in found_group.readers.items()
        )
        return consumer.DescribedGroup(
            error_code=ErrorCode.NONE if is_found else NO_GROUP,
            error_message=None if is_found else f"no group {group_id}",
            group_id=group_id,
            group_state=found_group.state,
            group_epoch=8,
            assignment_epoch=7,
            assignor_name=found_group.assignor,
            members=members,
        )

    def _partitions(self, partitions: Iterable[TopicPartition]) -> consumer.Assignment:
        return consumer.Assignment(
            topic_partitions=tuple(
                consumer.TopicPartitions(
                    topic_id=self._cluster.topic_id(each.topic), topic_name=each.topic, partitions=(each.partition,)
                )
                for each in partitions
            )
        )

    def delete_groups(self, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(results=tuple(map(self._delete, request.groups_names)))

    def _delete(self, group_id: str) -> DeletableGroupResult:
        group = self._own(group_id)
        code = NO_GROUP if group is None else ErrorCode.NON_EMPTY_GROUP if group.readers else ErrorCode.NONE
        if code is ErrorCode.NONE:
            del self._cluster.scripted_groups[group_id]
        return DeletableGroupResult(group_id=group_id, error_code=code)

    # --- committed offsets -------------------------------------------------------------------------------------

    def offset_fetch(self, request: offsets.OffsetFetchRequest) -> offsets.OffsetFetchResponse:
        return offsets.OffsetFetchResponse(groups=tuple(map(self._fetched, request.groups)))

    def _fetched(self, asked: offsets.OffsetFetchRequestGroup) -> offsets.OffsetFetchResponseGroup:
        assert asked.topics is None, "commands ask for all offsets of a group"
        group = self._own(asked.group_id) or ScriptedGroup()
        topics = tuple(
            offsets.OffsetFetchResponseTopics(
                name=partition.topic,
                partitions=(
                    offsets.OffsetFetchResponsePartitions(
                        partition_index=partition.partition, committed_offset=offset, metadata="note", error_code=0
                    ),
                ),
            )
            for partition, offset in group.offsets.items()
        )
        return offsets.OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics)

    def offset_commit(self, request: OffsetCommitRequest) -> OffsetCommitResponse:
        assert (request.member_id, request.generation_id_or_member_epoch) == ("", -1)
        group = self._cluster.scripted_groups.setdefault(
            request.group_id, ScriptedGroup(type="classic", protocol_type="")
        )
        if group.readers or group.joins_before_commits:
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, "the group has members")
        for topic in request.topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                if partition not in group.refused:
                    group.offsets[partition] = each.committed_offset
        return commit_response(request, group.refused)

    def offset_delete(self, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        group = self._own(request.group_id)
        if group is None:
            raise Refusal(NO_GROUP, f"no group {request.group_id}")
        for topic in request.topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                if partition not in group.refused:
                    group.offsets.pop(partition, None)
        return deletion_response(request, group.refused)

    def _own(self, group_id: str) -> ScriptedGroup | None:
        if scripted_coordinator(self._cluster, group_id) != self._broker_id:
            raise Refusal(ErrorCode.NOT_COORDINATOR, f"broker {self._broker_id} does not coordinate {group_id}")
        return self._cluster.scripted_groups.get(group_id)


def scripted_coordinator(cluster: FakeCluster, key: str) -> int:
    """The id of the broker that coordinates a group or a transactional id."""
    return len(key) % len(cluster.brokers) + 1


def _assignment(partitions: Iterable[TopicPartition]) -> bytes:
    topics = tuple(AssignedTopic(topic=each.topic, partitions=(each.partition,)) for each in partitions)
    return b"\0\1" + b"".join(encode(ConsumerProtocolAssignment(assigned_partitions=topics), 1))
