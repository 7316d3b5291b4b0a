"""Appends that wait for work off the event loop, or behind another waiting append to the same partition.

Nearly every append is done as soon as its request arrives, with its records still in the receive buffer. When the log
raises AppendMustWait, the records are copied into the queue of their partition, and so are those of later requests, to
keep the order. One task per queue takes them out: it runs the work in a thread, then appends on the loop, with the same
checks as for any append (leadership, in-sync replicas, room on the disk, configuration). When the partition's role
ends, the waiting appends are refused.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Hashable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import structlog

from kraft.log.append_work import AppendMustWait, AppendWork, AwaitedChange, CheckedRecords, ProducedRecords
from kraft.model.callbacks import Callback
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.loop.budget import BeyondBudget, Budget
from kraft.server.loop.threads import shut_down

log = structlog.get_logger()

WAITING_BYTES_MAX: Final = 32 << 20
"""Limit on the bytes of all waiting appends of a broker; further ones are refused, and their producers retry."""

APPEND_BYTES: Final = 2 << 10
"""Memory of a waiting append besides its records."""


class WaitingClient:
    """Counts the waiting appends of one client. Its next request is handled when there are none."""

    def __init__(self) -> None:
        self._count = 0
        self.go_on: Callback = lambda: None
        """Called when the count is back to 0."""

    @property
    def has_to_wait(self) -> bool:
        return self._count > 0

    def began(self) -> None:
        self._count += 1

    def ended(self) -> None:
        self._count -= 1
        if not self._count:
            self.go_on()


OnRefusal = Callable[[Refusal], None]


@dataclass(slots=True, eq=False, kw_only=True)
class WaitingAppend:
    records: ProducedRecords
    """A copy, because the receive buffer is reused."""

    work: AppendWork | AwaitedChange | None
    """Work to be done first; None for an append that only waits for its turn."""

    deadline_s: float
    """After this time it is refused: its producer's request has timed out."""

    append: Callable[[ProducedRecords], None]
    """Called in the append's turn. Raises AppendMustWait or Refusal if nothing was appended."""

    refuse: OnRefusal
    """Called instead of `append`, or after `append` raised a Refusal."""

    counted_in: Budget | None = None
    """What its memory counts in, once it has joined a queue."""

    # Methods, not functions made by `join`: thousands may wait, and the garbage collector looks at each object.

    def carry_out(self) -> None:
        """Append. Raises AppendMustWait or Refusal if nothing was appended."""
        self.append(self.records)
        self._release()

    def give_up(self, refusal: Refusal) -> None:
        self._release()
        self.refuse(refusal)

    def _release(self) -> None:
        if self.counted_in is not None:
            self.counted_in.release(self)


class AppendQueue:
    """Waiting appends to one partition, in order of arrival."""

    def __init__(self) -> None:
        self.waiting: deque[WaitingAppend] = deque()
        self.is_draining = False
        """True while a task takes appends out."""

    @property
    def first(self) -> WaitingAppend | None:
        return self.waiting[0] if self.waiting else None

    def abandon(self, code: ErrorCode, reason: str) -> None:
        """Refuse all waiting appends, because the partition's role has ended."""
        waiting, self.waiting = self.waiting, deque()
        for append in waiting:
            append.give_up(Refusal(code, reason))


class WaitingAppends:
    """Waiting appends of all partitions of a broker. One thread does their work, one append per partition in turn."""

    def __init__(self, executor: Executor | None = None, bytes_max: int = WAITING_BYTES_MAX) -> None:
        self._executor = executor or ThreadPoolExecutor(1, thread_name_prefix="append-work")
        self._budget = Budget(bytes_max, BeyondBudget.ALONE)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def budget(self) -> Budget:
        """What limits their memory."""
        return self._budget

    @property
    def waiting_bytes(self) -> int:
        return self._budget.held

    def check_room(self, size_bytes: int) -> None:
        """Raise Refusal if too many bytes wait already. One append of any size may always wait."""
        if not self._budget.has_room(APPEND_BYTES + size_bytes):
            raise Refusal(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{self.waiting_bytes} bytes of records wait to be appended, and the limit is "
                f"{self._budget.size_max}; retry later",
            )

    @contextmanager
    def holding(self, size_bytes: int) -> Iterator[None]:
        """Count records that wait elsewhere to be appended. Raises Refusal as `check_room`."""
        claimant = object()
        self.hold(claimant, size_bytes)
        try:
            yield
        finally:
            self.release(claimant)

    def hold(self, claimant: Hashable, size_bytes: int) -> None:
        """Count records that wait elsewhere, until `release`. Raises Refusal as `check_room`."""
        self.check_room(size_bytes)
        self._budget.hold(claimant, APPEND_BYTES + size_bytes)

    def release(self, claimant: Hashable) -> None:
        self._budget.release(claimant)

    def start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Start a task that appends, and that `close` cancels."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def join(self, queue: AppendQueue, append: WaitingAppend) -> None:
        """Put the append at the end of its partition's queue."""
        assert not isinstance(append.records, CheckedRecords), "records are checked in their turn"
        append.counted_in = self._budget
        self._budget.hold(append, APPEND_BYTES + len(append.records))
        queue.waiting.append(append)
        if not queue.is_draining:
            queue.is_draining = True
            self.start(self._drain(queue), "waiting appends")

    async def close(self) -> None:
        """Stop the tasks and the thread. Call it when every partition is closed, so that nothing waits."""
        for task in list(self._tasks):
            task.cancel()
        await shut_down(self._executor, drops_waiting=True)

    async def _drain(self, queue: AppendQueue) -> None:
        try:
            while (append := queue.first) is not None:
                refusal = await self._prepared(append)
                if queue.first is append:
                    self._append_first(queue, refusal)
                # Other tasks get a turn: the appends behind this one may not need to wait.
                await asyncio.sleep(0)
        finally:
            queue.is_draining = False

    async def _prepared(self, append: WaitingAppend) -> Refusal | None:
        """Run the append's work in the thread. Return the refusal, if any. It may be abandoned meanwhile."""
        loop = asyncio.get_running_loop()
        if append.work is not None and loop.time() < append.deadline_s:
            work, append.work = append.work, None
            try:
                if isinstance(work, AwaitedChange):
                    async with asyncio.timeout_at(append.deadline_s):
                        await work.wait()
                else:
                    append.records = await loop.run_in_executor(self._executor, work.run, append.records)
            except TimeoutError:
                # Refused below.
                pass
            except Refusal as refusal:
                return refusal
            except Exception as error:  # noqa: BLE001  One batch must not affect other producers.
                return internal_error(error)
        if loop.time() >= append.deadline_s:
            return Refusal(ErrorCode.REQUEST_TIMED_OUT, "the request timed out before the records were appended")
        return None

    def _append_first(self, queue: AppendQueue, refusal: Refusal | None) -> None:
        append = queue.waiting.popleft()
        try:
            if refusal is None:
                append.carry_out()
        except AppendMustWait as wait:
            append.work = wait.work
            queue.waiting.appendleft(append)
            return
        except Refusal as found:
            refusal = found
        except Exception as error:  # noqa: BLE001  One batch must not affect other producers.
            refusal = internal_error(error)
        if refusal is not None:
            append.give_up(refusal)


def internal_error(error: Exception) -> Refusal:
    """Log an error of ours in an append, and return the refusal that its producer gets."""
    log.error("internal error", task="waiting appends", exc_info=error)
    return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "internal error, see the broker's log")
