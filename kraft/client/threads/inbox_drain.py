"""Empties a producer's inbox on the event loop: looks topics up, and queues the records."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from typing import Final, TypeAlias

from kraft.client.aio.memory_wait import MemoryWait
from kraft.client.aio.producer import Producer
from kraft.client.model.errors import ClientClosed
from kraft.client.threads.inbox import Inbox, RecordSpan

log = logging.getLogger("kraft.client")

RUNS_AT_ONCE: Final = 100
"""Runs queued before other tasks of the event loop have their turn: those of consumers, whose heartbeats must not wait,
are among them."""

_Sought: TypeAlias = tuple[str, int | None]
"""A topic that is looked up, or one partition of a topic, which may be new."""


class InboxDrain:
    """A task that takes records out of the inbox while there are any, and tasks that look topics up.

    Records of a topic that is being looked up are parked, so that those of other topics go past them; so are records
    for a partition that the topic does not have yet.
    """

    def __init__(self, inbox: Inbox, producer: Producer) -> None:
        self._inbox = inbox
        self._producer = producer
        self._taken: deque[RecordSpan | asyncio.Future[None]] = deque()
        """What is to be queued next, and futures that end when it is their turn."""
        self._parked: dict[_Sought, deque[RecordSpan]] = {}
        self._lookups: dict[_Sought, asyncio.Task[set[_Sought]]] = {}
        """The tasks that end when what was parked is queued, has failed, or waits for what is in the result."""
        self._found: set[str] = set()
        self._warned: set[str] = set()
        """Topics whose failed look-up was logged."""
        self._memory = MemoryWait()
        self._passed = 0
        """The number of records that were queued, parked or failed."""
        self._waits: deque[tuple[int, asyncio.Future[None]]] = deque()
        """Futures that end once so many records have passed, in this order."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> asyncio.Task[None]:
        """Begin to empty the inbox, unless that is under way."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="producer inbox")
        return self._task

    async def wait(
        self, timeout_ms: int | None = None, topic: str | None = None, last_partition: int | None = None
    ) -> bool:
        """Wait until the records now in the inbox are in their batches, or those of one topic.

        Of a topic, only partitions up to the last one are waited for if they are missing, none without it. Records that
        threads go on to send are not waited for. Return False if the timeout passes first.
        """
        loop = asyncio.get_running_loop()
        until_s = None if timeout_ms is None else loop.time() + timeout_ms / 1000
        passed: asyncio.Future[None] = loop.create_future()
        self._waits.append((self._inbox.put_so_far, passed))
        # Started also for a record whose thread has not called the event loop yet.
        waited: list[asyncio.Future[None]] = [self.start(), passed]
        done, _ = await asyncio.wait(waited, timeout=_left_s(loop, until_s), return_when=asyncio.FIRST_COMPLETED)
        late = not done
        sought = set(self._lookups)
        while not late and (lookups := self._lookups_of(sought, topic, last_partition)):
            ended, still_running = await asyncio.wait(lookups, timeout=_left_s(loop, until_s))
            late = bool(still_running)
            sought = {further for task in ended if not task.cancelled() for further in task.result()}
        return not late

    def _lookups_of(
        self, sought: set[_Sought], topic: str | None, last_partition: int | None
    ) -> list[asyncio.Task[set[_Sought]]]:
        return [
            task
            for (name, number), task in self._lookups.items()
            if (name, number) in sought
            and (topic is None or (topic == name and (number is None or _is_at_most(number, last_partition))))
        ]

    def cancel(self) -> None:
        """Stop, because the producer is closed; `fail_rest` fails what is left."""
        for task in (self._task, *self._lookups.values()):
            if task is not None:
                task.cancel()

    def fail_rest(self) -> None:
        """Fail the records that are left after the inbox was closed."""
        parked, self._parked = self._parked, {}
        rest = [each for each in self._taken if isinstance(each, RecordSpan)]
        self._taken.clear()
        rest += [span for spans in parked.values() for span in spans]
        while rest := rest or self._inbox.take():
            self._fail(rest, _closed())
            rest = []

    # --- inside -----------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while self._taken or self._take():
            for _ in range(RUNS_AT_ONCE):
                if not self._taken:
                    break
                await self._pass(self._taken.popleft())
            # Lets the other tasks run, however fast threads send.
            await asyncio.sleep(0)

    def _take(self) -> bool:
        self._memory = MemoryWait()
        self._taken.extend(self._inbox.take())
        return bool(self._taken)

    async def _pass(self, span: RecordSpan | asyncio.Future[None]) -> None:
        if isinstance(span, asyncio.Future):
            if not span.done():
                span.set_result(None)
        elif (sought := self._sought(span)) is not None:
            self._park(span, sought)
        else:
            await self._queue(span)

    def _sought(self, span: RecordSpan) -> _Sought | None:
        """Return what has to be found before the records can be queued."""
        if span.topic not in self._found:
            return span.topic, None
        if span.partition is None:
            return None
        place = span.topic, span.partition
        # Behind those that are parked, also if the partition was found by another look-up meanwhile.
        return place if place in self._parked or self._producer.lacks(span.topic, span.partition) else None

    async def _queue(self, span: RecordSpan) -> None:
        try:
            await self._producer.submit(
                span.topic, span.records, span.partition, span.receipt, span.transaction, self._memory
            )
        except asyncio.CancelledError:
            span.receipt.failed(_closed())
            raise
        except Exception as error:  # noqa: BLE001  The records' futures carry it to the sender.
            span.receipt.failed(error)
            self._producer.record_not_queued(error, span.transaction)
        finally:
            self._inbox.ended(span)
            self._count(span)

    def _park(self, span: RecordSpan, sought: _Sought) -> None:
        if sought not in self._parked:
            self._parked[sought] = deque()
            name = f"topic {span.topic}" if sought[1] is None else f"partition {span.topic}-{span.partition}"
            self._lookups[sought] = asyncio.get_running_loop().create_task(self._look_up(sought), name=name)
        self._parked[sought].append(span)
        self._inbox.park(span)
        self._count(span)

    async def _look_up(self, sought: _Sought) -> set[_Sought]:
        """Wait for metadata. The records that were parked before a look-up that failed share its error.

        Return what some of the records wait for next: partitions that the topic, now found, does not have.
        """
        topic, partition = sought
        try:
            await self._producer.find_topic(topic, partition)
        except Exception as error:  # noqa: BLE001  The records' futures carry it to the sender.
            if topic not in self._warned:
                # The sender may never look at its futures.
                self._warned.add(topic)
                log.warning("records not sent: %s", error)
            self._lookup_ended(sought)
            self._fail(self._unparked(sought), error)
            return set()
        self._found.add(topic)
        queued: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        parked = self._unparked(sought)
        self._passed -= sum(len(span.records) for span in parked)
        # Before what was taken since, which may be of the same topic.
        self._taken.extendleft([queued, *reversed(parked)])
        self.start()
        await queued
        self._lookup_ended(sought)
        return {further for span in parked if (further := self._sought(span)) is not None}

    def _lookup_ended(self, sought: _Sought) -> None:
        # Of a topic that was created again with fewer partitions, the next look-up may have begun.
        if self._lookups[sought] is asyncio.current_task():
            del self._lookups[sought]

    def _unparked(self, sought: _Sought) -> deque[RecordSpan]:
        spans = self._parked.pop(sought)
        for span in spans:
            self._inbox.unpark(span)
        return spans

    def _fail(self, spans: Iterable[RecordSpan], error: Exception) -> None:
        for span in spans:
            self._inbox.ended(span)
            span.receipt.failed(error)
            self._producer.record_not_queued(error, span.transaction)

    def _count(self, span: RecordSpan) -> None:
        self._passed += len(span.records)
        while self._waits and self._waits[0][0] <= self._passed:
            _, passed = self._waits.popleft()
            if not passed.done():
                passed.set_result(None)


def _is_at_most(number: int, last: int | None) -> bool:
    return isinstance(last, int) and number <= last


def _left_s(loop: asyncio.AbstractEventLoop, until_s: float | None) -> float | None:
    return None if until_s is None else max(0, until_s - loop.time())


def _closed() -> ClientClosed:
    return ClientClosed("the producer was closed before its records were stored")
