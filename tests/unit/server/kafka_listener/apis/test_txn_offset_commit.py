from __future__ import annotations

from typing import Any

import pytest

from kraft.coordinator.groups.commands import CommitTransactionOffsets
from kraft.model.committed_offsets import CommitPartition, CommitTopic, OffsetResults, PartitionResult, TopicResult
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import LeaderEpoch, Offset
from kraft.server.kafka_listener.apis.txn_offset_commit import TxnOffsetCommitApi
from kraft.wire.schema.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tests.unit.server.kafka_listener.apis.listener import answered

PARTITIONS = tuple(
    TxnOffsetCommitRequestPartition(partition_index=each, committed_offset=5, committed_metadata=None)
    for each in (0, 1)
)
TOPICS = (TxnOffsetCommitRequestTopic(name="orders", partitions=PARTITIONS),)


def request(version: int) -> TxnOffsetCommitRequest:
    member: dict[str, Any] = {"generation_id": 3, "member_id": "m", "group_instance_id": "i"} if version >= 3 else {}
    return TxnOffsetCommitRequest(
        transactional_id="t", group_id="g", producer_id=7, producer_epoch=2, topics=TOPICS, **member
    )


@pytest.mark.parametrize(
    ("version", "generation", "member_id", "instance_id", "adds"),
    [(0, -1, "", None, False), (3, 3, "m", "i", False), (4, 3, "m", "i", False), (5, 3, "m", "i", True)],
)
async def test_each_partition_has_a_result(
    version: int, generation: int, member_id: str, instance_id: str | None, adds: bool
) -> None:
    commands: list[CommitTransactionOffsets] = []

    async def handle(command: CommitTransactionOffsets) -> OffsetResults:
        commands.append(command)
        results = (PartitionResult(0, ErrorCode.NONE), PartitionResult(1, ErrorCode.OFFSET_METADATA_TOO_LARGE))
        return OffsetResults(topics=(TopicResult(name="orders", partitions=results),))

    response = await answered(TxnOffsetCommitApi(handle), request(version), version, TxnOffsetCommitResponse)
    assert [(each.partition_index, each.error_code) for each in response.topics[0].partitions] == [(0, 0), (1, 12)]
    asked = tuple(CommitPartition(partition=each, offset=Offset(5), leader_epoch=LeaderEpoch(-1)) for each in (0, 1))
    assert commands == [
        CommitTransactionOffsets(
            transactional_id="t",
            producer_id=7,
            producer_epoch=2,
            group_id="g",
            member_id=member_id,
            group_instance_id=instance_id,
            generation=generation,
            topics=(CommitTopic(name="orders", partitions=asked),),
            adds_partition=adds,
        )
    ]


@pytest.mark.parametrize(
    ("refused", "version", "code"),
    [
        (ErrorCode.ILLEGAL_GENERATION, 3, ErrorCode.ILLEGAL_GENERATION),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.TRANSACTION_ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 4, ErrorCode.TRANSACTION_ABORTABLE),
    ],
)
async def test_a_refusal_is_the_error_of_each_partition(refused: ErrorCode, version: int, code: ErrorCode) -> None:
    async def handle(command: CommitTransactionOffsets) -> OffsetResults:
        raise Refusal(refused, "no")

    response = await answered(TxnOffsetCommitApi(handle), request(version), version, TxnOffsetCommitResponse)
    assert [(each.partition_index, each.error_code) for each in response.topics[0].partitions] == [(0, code), (1, code)]
