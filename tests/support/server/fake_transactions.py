"""The coordinator of transactions, as the coordinator of groups asks it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from kraft.model.errors import Refusal
from kraft.model.ids import TopicPartition


class Asked(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partition: TopicPartition
    adds: bool


class FakeTransactions:
    """Says yes, unless the test gives a refusal."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.refusal: Refusal | None = None
        self.meanwhile: Callable[[], Awaitable[None]] | None = None
        """What happens before the answer."""

    async def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partition: TopicPartition, *, adds: bool
    ) -> None:
        self.asked.append(Asked(transactional_id, producer_id, producer_epoch, partition, adds))
        if self.meanwhile is not None:
            await self.meanwhile()
        if self.refusal is not None:
            raise self.refusal
