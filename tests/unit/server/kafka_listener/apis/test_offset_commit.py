from __future__ import annotations

import pytest

from kraft.coordinator.groups.commands import CommitOffsets
from kraft.model.committed_offsets import CommitPartition, OffsetResults, PartitionResult, TopicResult
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import LeaderEpoch, Offset
from kraft.server.kafka_listener.apis.offset_commit import OffsetCommitApi
from kraft.wire.schema.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tests.support.cluster_images import ORDERS
from tests.unit.server.kafka_listener.apis.listener import answered, topic_named, versions_of

BY_ID_FROM = 10


def request(version: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(
        partition_index=1,
        committed_offset=5,
        committed_metadata="note",
        committed_leader_epoch=4 if version >= 6 else -1,
    )
    by_id = version >= BY_ID_FROM
    topic = topic_named(OffsetCommitRequestTopic, by_id, "orders", ORDERS, "name", partitions=(partition,))
    return OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=3,
        member_id="m",
        topics=(topic,),
        retention_time_ms=60_000 if version <= 4 else -1,
    )


@pytest.mark.parametrize("version", versions_of(OffsetCommitRequest))
async def test_offsets_are_committed_by_name_or_by_id(version: int) -> None:
    by_id = version >= BY_ID_FROM
    commands: list[CommitOffsets] = []

    async def commit(command: CommitOffsets) -> OffsetResults:
        commands.append(command)
        (topic,) = command.topics
        results = (PartitionResult(1, ErrorCode.OFFSET_METADATA_TOO_LARGE),)
        return OffsetResults(topics=(TopicResult(name=topic.name, topic_id=topic.topic_id, partitions=results),))

    response = await answered(OffsetCommitApi(commit), request(version), version, OffsetCommitResponse)
    (command,) = commands
    assert (command.group_id, command.member_id, command.generation, command.api_version) == ("g", "m", 3, version)
    assert command.retention_time_ms == (60_000 if version <= 4 else None)
    (topic,) = command.topics
    assert (topic.name, topic.topic_id) == (("", ORDERS) if by_id else ("orders", None))
    epoch = LeaderEpoch(4 if version >= 6 else -1)
    assert topic.partitions == (CommitPartition(partition=1, offset=Offset(5), leader_epoch=epoch, metadata="note"),)
    (result,) = response.topics
    assert (result.name, result.topic_id == ORDERS) == (("", True) if by_id else ("orders", False))
    assert [(each.partition_index, each.error_code) for each in result.partitions] == [(1, 12)]


async def test_a_refusal_is_the_result_of_each_partition() -> None:
    async def refuse(_: CommitOffsets) -> OffsetResults:
        raise Refusal(ErrorCode.ILLEGAL_GENERATION, "no")

    response = await answered(OffsetCommitApi(refuse), request(9), 9, OffsetCommitResponse)
    assert [each.error_code for topic in response.topics for each in topic.partitions] == [22]
