"""WriteTxnMarkers: write the markers that end transactions. Coordinators use gRPC; this is for operators' tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Final

from kraft.model import transaction_partitions as values
from kraft.model.partitions import PartitionName
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

MARKERS_AT_ONCE: Final = 500
"""Markers of a request that are converted and written together."""


class WriteTxnMarkersApi:
    def __init__(
        self, write: Callable[[values.WriteTxnMarkersRequest], Awaitable[values.WriteTxnMarkersResponse]]
    ) -> None:
        self._write = write

    async def __call__(self, request: WriteTxnMarkersRequest, call: RequestContext) -> WriteTxnMarkersResponse:
        markers, results = iter(request.markers), list[WritableTxnMarkerResult]()
        while piece := tuple(islice(markers, MARKERS_AT_ONCE)):
            written = await self._write(values.WriteTxnMarkersRequest(markers=tuple(map(_marker, piece))))
            results += map(_result, piece, written.markers)
        return WriteTxnMarkersResponse(markers=tuple(results))


def _marker(marker: WritableTxnMarker) -> values.TxnMarker:
    return values.TxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        committed=marker.transaction_result,
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
        partitions=tuple(
            PartitionName(topic=topic.name, partition=number)
            for topic in marker.topics
            for number in topic.partition_indexes
        ),
    )


def _result(marker: WritableTxnMarker, result: values.WrittenTxnMarker) -> WritableTxnMarkerResult:
    codes = iter(result.partition_error_codes)
    return WritableTxnMarkerResult(
        producer_id=marker.producer_id,
        topics=tuple(
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=tuple(
                    WritableTxnMarkerPartitionResult(partition_index=number, error_code=next(codes))
                    for number in topic.partition_indexes
                ),
            )
            for topic in marker.topics
        ),
    )
