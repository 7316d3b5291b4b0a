"""A leader whose appends wait for a thread that the test holds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from kraft.log.record_checks import AT_ONCE_RECORDS_MAX
from kraft.model.errors import ErrorCode
from kraft.model.produce import ProducePartition, ProducePartitionResult, ProduceRequest, ProduceResponse
from kraft.server.replica.partition import Partition
from kraft.server.replica.waiting_appends import WaitingAppends, WaitingClient
from tests.support.server.produce_handlers import produce_handler
from tests.support.server.replicas import Broker, lead_begun, settle, values_in

COUNT = AT_ONCE_RECORDS_MAX + 1
COMPACT = ("compact",)


class HeldExecutor(Executor):
    """Does its work one by one when the test says so."""

    def __init__(self) -> None:
        self.submitted: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, work: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        self.submitted.append((done, lambda: work(*arguments, **named)))
        return done

    async def run_next(self) -> None:
        await settle()
        done, work = self.submitted.pop(0)
        try:
            done.set_result(work())
        except Exception as error:  # noqa: BLE001  As an executor does.
            done.set_exception(error)
        await settle()


class Waiting:
    """A broker with one compacted partition that it leads, and a thread that does what the test lets it do."""

    def __init__(self, directory: Path, bytes_max: int = 1 << 20, **configs: Any) -> None:
        self.broker = Broker(directory)
        self.thread = HeldExecutor()
        self.appends = WaitingAppends(self.thread, bytes_max)
        self.handler = produce_handler(self.broker.partitions, self.appends)
        self.partition = self.broker.open(**{"cleanup_policy": COMPACT, **configs})
        lead_begun(self.partition, epoch=1, isr=(1,))

    def produce(
        self, *batches: bytes, acks: int = 1, timeout_ms: int = 30_000, client: WaitingClient | None = None
    ) -> asyncio.Future[ProduceResponse | None]:
        partitions = [ProducePartition(topic="orders", partition=0, records=each) for each in batches]
        request = ProduceRequest(request_id=7, acks=acks, timeout_ms=timeout_ms, partitions=partitions)
        begun = self.handler.begin(request, client)
        assert isinstance(begun, Awaitable)
        return asyncio.ensure_future(begun)

    def produce_at_once(self, batch: bytes) -> ProducePartitionResult:
        (result,) = self._answer(batch).partitions
        return result

    def _answer(self, batch: bytes) -> ProduceResponse:
        partitions = [ProducePartition(topic="orders", partition=0, records=batch)]
        answer = self.handler.begin(ProduceRequest(request_id=7, acks=1, timeout_ms=9, partitions=partitions))
        assert isinstance(answer, ProduceResponse)
        return answer

    def values(self, partition: Partition | None = None) -> list[str]:
        return [value for value in values_in(partition or self.partition) if value]


def large(value: str, sequence: int = -1, count: int = COUNT, key: bytes | None = b"k") -> bytes:
    """More records than the event loop looks into; the first one has the value."""
    return of([value, *[""] * (count - 1)], sequence, key)


def small(value: str, sequence: int = -1, key: bytes | None = b"k") -> bytes:
    return of([value], sequence, key)


def of(values: list[str], sequence: int, key: bytes | None) -> bytes:
    records = [Record(at, 1_000, key, value.encode()) for at, value in enumerate(values)]
    if sequence < 0:
        return build_batch(records)
    return build_batch(records, producer_id=5, producer_epoch=0, base_sequence=sequence)


async def code_of(answer: Awaitable[ProduceResponse | None]) -> ErrorCode:
    response = await answer
    assert response is not None
    (result,) = response.partitions
    return result.error_code
