"""DescribeAwaitedReplicas: the replicas that acks=all produces wait for, in words; also in those of their errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kraft.model.awaited_replicas import (
    AwaitedReplicas,
    AwaitingPartition,
    DescribeAwaitedReplicasRequest,
    DescribeAwaitedReplicasResponse,
)
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import Offset
from kraft.server.loop.turns import Turns
from kraft.server.replica.partition import Partition
from kraft.server.replica.partitions import Partitions

PARTITIONS_AT_ONCE: Final = 500
"""Partitions looked up before other tasks have their turn."""


class AwaitedReplicasHandler:
    def __init__(
        self,
        partitions: Partitions,
        in_words: Callable[[Partition, Offset], str] = lambda partition, required_offset: "",
    ) -> None:
        """`in_words` returns "waits for" and what records that end at the offset wait for; empty for nothing."""
        self._partitions = partitions
        self._in_words = in_words

    async def handle(self, request: DescribeAwaitedReplicasRequest) -> DescribeAwaitedReplicasResponse:
        turns, results = Turns(PARTITIONS_AT_ONCE), []
        for asked in request.partitions:
            results.append(AwaitedReplicas(topic=asked.topic, partition=asked.partition, awaited=self._awaited(asked)))
            await turns.done()
        return DescribeAwaitedReplicasResponse(partitions=results)

    def _awaited(self, asked: AwaitingPartition) -> str:
        held = self._partitions.find_by_name(asked.topic, asked.partition)
        if held is None or held.high_watermark >= held.log.log_end_offset:
            return ""
        # The oldest record that is not committed: a replica that lacks only later ones holds nobody up.
        return self._in_words(held, Offset(held.high_watermark + 1))

    def after_append(self, partition: Partition, last_offset: Offset) -> str:
        """Return the message for records that are appended, up to that offset, and not on every in-sync replica."""
        awaited = self._in_words(partition, Offset(last_offset + 1))
        return f"appended, and {awaited}" if awaited else ""

    def message(self, topic: str, partition: int, refusal: Refusal) -> str:
        """Return the refusal's message; if the ISR is below its minimum, with the replicas that it lacks."""
        held = self._partitions.find_by_name(topic, partition)
        if refusal.error_code is not ErrorCode.NOT_ENOUGH_REPLICAS or held is None or held.leader is None:
            return refusal.message
        if not held.leader.below_minimum_isr:
            # The code has other reasons, too, such as a verification of a transaction that has to be repeated.
            return refusal.message
        awaited = self._in_words(held, Offset(held.log.log_end_offset + 1))
        return f"{refusal.message}; the partition {awaited}" if awaited else refusal.message
