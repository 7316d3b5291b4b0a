"""The replicas that acks=all produces wait for, in the words of their errors."""

from __future__ import annotations

from collections.abc import Callable

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import Offset
from kraft.server.replica.partition import Partition
from kraft.server.replica.partitions import Partitions


class AwaitedReplicas:
    def __init__(
        self,
        partitions: Partitions,
        in_words: Callable[[Partition, Offset], str] = lambda partition, required_offset: "",
    ) -> None:
        """`in_words` returns "waits for" and what records that end at the offset wait for; empty for nothing."""
        self._partitions = partitions
        self._in_words = in_words

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
