"""A produced append that waits in its partition's queue. Thousands may wait, so each is few objects for the garbage
collector, which looks at all of them in one turn of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import Struct

from kraft.log.append_work import AppendOrigin, AppendResult, ProducedRecords
from kraft.log.format.record_batch import Buffer
from kraft.model.errors import Refusal
from kraft.server.handlers.refused_sequences import RefusedSequences
from kraft.server.loop.periods import loop_time_s
from kraft.server.replica.partition import Partition, ProduceOutcome
from kraft.server.replica.waiting_appends import WaitingClient


class Appended(Struct, frozen=True, kw_only=True):
    partition: Partition
    result: AppendResult
    replicated: ProduceOutcome


Ended = Appended | Refusal
"""Outcome of an append."""


class QueuedProduce(Struct, frozen=True, kw_only=True, eq=False):
    """An append in its partition's queue: not with the request or its records, which belong to the receive buffer."""

    append_to_log: Callable[[Partition, Buffer, ProducedRecords, int, AppendOrigin], Appended]
    refused: RefusedSequences
    partition: Partition
    place: tuple[str, int]
    sent: bytes
    acks: int
    origin: AppendOrigin
    client: WaitingClient | None
    outcome: asyncio.Future[Ended]

    def append(self, records: ProducedRecords) -> None:
        self._ended(self.append_to_log(self.partition, self.sent, records, self.acks, self.origin))

    def refuse(self, refusal: Refusal) -> None:
        self.refused.note(self.place, self.sent, refusal.error_code, loop_time_s())
        self._ended(refusal)

    def _ended(self, how: Ended) -> None:
        if not self.outcome.done():
            self.outcome.set_result(how)
        elif isinstance(how, Appended) and isinstance(how.replicated, asyncio.Future):
            # Its client has disconnected, or got the response that it timed out.
            how.replicated.cancel()
        if self.client is not None:
            self.client.ended()
