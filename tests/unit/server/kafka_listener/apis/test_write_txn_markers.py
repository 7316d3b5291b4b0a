from __future__ import annotations

import pytest

from kraft.model import transaction_partitions as values
from kraft.model.errors import ErrorCode
from kraft.model.partitions import PartitionName
from kraft.server.kafka_listener.apis import write_txn_markers
from kraft.server.kafka_listener.apis.write_txn_markers import WriteTxnMarkersApi
from kraft.wire.schema.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.unit.server.kafka_listener.apis.listener import answered, versions_of

TOPICS = (
    WritableTxnMarkerTopic(name="parcels", partition_indexes=(1, 0)),
    WritableTxnMarkerTopic(name="orders", partition_indexes=(2,)),
)


def marker(producer_id: int, topics: tuple[WritableTxnMarkerTopic, ...], version: int) -> WritableTxnMarker:
    return WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=2,
        transaction_result=producer_id == 7,
        topics=topics,
        coordinator_epoch=5,
        transaction_version=2 if version >= 2 else 0,
    )


async def test_a_large_request_is_written_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_txn_markers, "MARKERS_AT_ONCE", 2)
    sizes: list[int] = []

    async def write(request: values.WriteTxnMarkersRequest) -> values.WriteTxnMarkersResponse:
        sizes.append(len(request.markers))
        return values.WriteTxnMarkersResponse(
            markers=tuple(
                values.WrittenTxnMarker(partition_error_codes=(list(ErrorCode)[each.producer_id],) * 3)
                for each in request.markers
            )
        )

    request = WriteTxnMarkersRequest(markers=tuple(marker(number, TOPICS, 1) for number in range(5)))
    response = await answered(WriteTxnMarkersApi(write), request, 1, WriteTxnMarkersResponse)
    assert sizes == [2, 2, 1]
    assert [each.topics[0].partitions[0].error_code for each in response.markers] == list(ErrorCode)[:5]


@pytest.mark.parametrize("version", versions_of(WriteTxnMarkersRequest))
async def test_each_partition_of_each_marker_has_its_code_in_order(version: int) -> None:
    written: list[values.WriteTxnMarkersRequest] = []

    async def write(request: values.WriteTxnMarkersRequest) -> values.WriteTxnMarkersResponse:
        written.append(request)
        first = (ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return values.WriteTxnMarkersResponse(
            markers=tuple(values.WrittenTxnMarker(partition_error_codes=each) for each in (first, ()))
        )

    request = WriteTxnMarkersRequest(markers=(marker(7, TOPICS, version), marker(8, (), version)))
    response = await answered(WriteTxnMarkersApi(write), request, version, WriteTxnMarkersResponse)
    assert [
        (result.producer_id, topic.name, each.partition_index, each.error_code)
        for result in response.markers
        for topic in result.topics
        for each in topic.partitions
    ] == [(7, "parcels", 1, 0), (7, "parcels", 0, 47), (7, "orders", 2, 6)]
    assert [each.producer_id for each in response.markers] == [7, 8]
    first, second = written[0].markers
    assert first == values.TxnMarker(
        producer_id=7,
        producer_epoch=2,
        committed=True,
        coordinator_epoch=5,
        transaction_version=2 if version >= 2 else 0,
        partitions=tuple(
            PartitionName(topic=topic, partition=number)
            for topic, number in (("parcels", 1), ("parcels", 0), ("orders", 2))
        ),
    )
    assert (second.committed, second.partitions) == (False, ())
