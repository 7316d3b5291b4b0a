"""The leaders of partitions, as the sender of markers asks them."""

from __future__ import annotations

import asyncio

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId, TopicPartition
from kraft.rpc.peers import Unreachable
from kraft.server.handlers.txn_markers import marked, marker_result
from kraft.wire.schema.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse


class MarkerLeaders:
    """The brokers that are asked to write markers. All are written, unless the test says otherwise."""

    def __init__(self) -> None:
        self.requests: list[tuple[int, WriteTxnMarkersRequest]] = []
        self.codes: dict[TopicPartition, ErrorCode] = {}
        self.failures: dict[int, Unreachable | Refusal] = {}
        self.takes_s: dict[int, float] = {}
        """How long a broker takes to answer, or to be found unreachable."""
        self.holds: asyncio.Event | None = None
        """While it is not set, no request is answered."""

    async def write(self, broker_id: BrokerId, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        self.requests.append((broker_id, request))
        await asyncio.sleep(self.takes_s.get(broker_id, 0))
        if self.holds is not None:
            await self.holds.wait()
        if broker_id in self.failures:
            raise self.failures[broker_id]
        return WriteTxnMarkersResponse(
            markers=tuple(
                marker_result(marker, (self.codes.get(each, ErrorCode.NONE) for each in marked(marker)))
                for marker in request.markers
            )
        )

    def asked(self) -> list[tuple[int, int]]:
        """Return broker and partition of every marker that was sent, in order."""
        return [
            (broker_id, partition.partition)
            for broker_id, request in self.requests
            for marker in request.markers
            for partition in marked(marker)
        ]
