from __future__ import annotations

from kraft.model.committed_offsets import DeleteOffsets, DeleteTopic, OffsetResults, PartitionResult, TopicResult
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.kafka_listener.apis.offset_delete import OffsetDeleteApi
from kraft.wire.schema.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from tests.unit.server.kafka_listener.apis.listener import answered


async def test_each_partition_has_a_result_unless_the_request_is_refused() -> None:
    async def handle(command: DeleteOffsets) -> OffsetResults:
        if command.group_id != "g":
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, "there is none")
        assert command.topics == (DeleteTopic("orders", (0, 1)),)
        results = (PartitionResult(0, ErrorCode.NONE), PartitionResult(1, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC))
        return OffsetResults(topics=(TopicResult(name="orders", partitions=results),))

    partitions = tuple(OffsetDeleteRequestPartition(partition_index=each) for each in (0, 1))
    topics = (OffsetDeleteRequestTopic(name="orders", partitions=partitions),)
    api = OffsetDeleteApi(handle)
    response = await answered(api, OffsetDeleteRequest(group_id="g", topics=topics), 0, OffsetDeleteResponse)
    assert response.error_code == 0
    assert [(each.partition_index, each.error_code) for each in response.topics[0].partitions] == [(0, 0), (1, 86)]
    response = await answered(api, OffsetDeleteRequest(group_id="none", topics=topics), 0, OffsetDeleteResponse)
    assert (response.error_code, response.topics) == (69, ())
