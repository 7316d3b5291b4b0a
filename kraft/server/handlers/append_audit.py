"""AppendAudit: appends audit lines of brokers to a partition of `__audit` that this broker leads.

Clients cannot write to the topic: nobody adds a line of what did not happen.
"""

from __future__ import annotations

from typing import Final

from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from kraft.metadata.topic_names import AUDIT_TOPIC
from kraft.model.append_audit import AppendAuditRequest, AppendAuditResponse
from kraft.model.callbacks import NowMs
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.produce import ACKS_ALL, ProducePartition, ProduceRequest
from kraft.server.handlers.produce import ProduceHandler

REPLICATED_MS_MAX: Final = 5_000
"""Time in which the in-sync replicas have to have the lines."""


class AppendAuditHandler:
    def __init__(self, produce: ProduceHandler, wall_ms: NowMs) -> None:
        """`produce` appends to topics that only brokers write, too."""
        self._produce = produce
        self._wall_ms = wall_ms

    async def append(self, request: AppendAuditRequest) -> AppendAuditResponse:
        """Return when the lines are replicated. Raises Refusal INVALID_REQUEST for a request without any."""
        if not request.records:
            raise Refusal(ErrorCode.INVALID_REQUEST, "there are no lines to append")
        now_ms = self._wall_ms()
        batch = build_batch(
            [
                Record(offset=at, timestamp_ms=now_ms, key=each.key, value=each.value)
                for at, each in enumerate(request.records)
            ]
        )
        response = await self._produce.handle(
            ProduceRequest(
                request_id=0,
                acks=ACKS_ALL,
                timeout_ms=REPLICATED_MS_MAX,
                partitions=[ProducePartition(topic=AUDIT_TOPIC, partition=request.partition, records=batch)],
            )
        )
        assert response is not None, "with acks=all there is one"
        (result,) = response.partitions
        return AppendAuditResponse(error_code=ErrorCode(result.error_code), error_message=result.error_message)
