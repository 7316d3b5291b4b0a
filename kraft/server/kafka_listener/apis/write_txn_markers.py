"""WriteTxnMarkers: refused to every caller of this listener.

A marker commits or aborts a transaction whatever its owner says. Coordinators send theirs over gRPC, as nodes that
proved to belong to the cluster. The answer is Kafka's for callers that may not act for the cluster.
"""

from __future__ import annotations

from kraft.model.errors import ErrorCode
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


def refuse_txn_markers(request: WriteTxnMarkersRequest, _: RequestContext) -> WriteTxnMarkersResponse:
    """Return CLUSTER_AUTHORIZATION_FAILED for each partition of each marker; nothing is written."""
    return WriteTxnMarkersResponse(
        markers=tuple(
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=tuple(
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=tuple(
                            WritableTxnMarkerPartitionResult(
                                partition_index=number, error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                            )
                            for number in topic.partition_indexes
                        ),
                    )
                    for topic in marker.topics
                ),
            )
            for marker in request.markers
        )
    )
