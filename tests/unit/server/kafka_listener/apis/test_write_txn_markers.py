from __future__ import annotations

import pytest

from kraft.model.errors import ErrorCode
from kraft.server.kafka_listener.apis.write_txn_markers import refuse_txn_markers
from kraft.wire.schema.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.unit.server.kafka_listener.apis.listener import answered, versions_of


@pytest.mark.parametrize("version", versions_of(WriteTxnMarkersRequest))
async def test_each_partition_of_each_marker_is_refused_in_order(version: int) -> None:
    topics = (
        WritableTxnMarkerTopic(name="parcels", partition_indexes=(1, 0)),
        WritableTxnMarkerTopic(name="orders", partition_indexes=(2,)),
    )
    markers = tuple(
        WritableTxnMarker(
            producer_id=producer_id, producer_epoch=2, transaction_result=True, topics=topics, coordinator_epoch=5
        )
        for producer_id in (7, 8)
    )
    request = WriteTxnMarkersRequest(markers=markers)
    response = await answered(refuse_txn_markers, request, version, WriteTxnMarkersResponse)
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert [
        (result.producer_id, topic.name, each.partition_index, each.error_code)
        for result in response.markers
        for topic in result.topics
        for each in topic.partitions
    ] == [
        (producer_id, topic, number, refused)
        for producer_id in (7, 8)
        for topic, number in (("parcels", 1), ("parcels", 0), ("orders", 2))
    ]
