from __future__ import annotations

from pathlib import Path

import pytest

from kraft.model.errors import ErrorCode
from kraft.wire.api_keys import ApiKey
from kraft.wire.schema.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.support.server.broker_nodes import broker
from tests.unit.server.kafka_listener.apis.listener import answered, versions_of


@pytest.mark.parametrize("version", versions_of(WriteTxnMarkersRequest))
async def test_clients_of_kafkas_listener_may_not_write_markers(tmp_path: Path, version: int) -> None:
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
    api = broker(tmp_path, "fsync", stopped_cleanly=True).apis.kafka_apis("PLAINTEXT")[ApiKey.WRITE_TXN_MARKERS]
    response = await answered(api, request, version, WriteTxnMarkersResponse)
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
