"""Appends that wait: for work off the event loop, or behind an append to the same partition that does.

Nearly every append is done where its request is begun, while its records still lie in the receive buffer. When the log
raises AppendMustWait, the records are copied and join the queue of their partition, and so does whatever arrives behind
them, so that the order holds. One task a queue takes them out: it runs the work in a thread, then appends on the loop,
where whatever may have changed meanwhile (leadership, in-sync set, room on the disk, configuration) is checked as for
any append. When the partition's role ends, whatever waits is refused and not appended.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import structlog

from kraft.log.append_work import AppendMustWait, AppendWork, AwaitedChange, CheckedRecords, ProducedRecords
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.loop.budget import Beyond, Budget

log = structlog.get_logger()

WAITING_BYTES_MAX: Final = 32 << 20
"""Bound on the bytes of all waiting appends of a broker; one more is refused, and its producer tries again."""

APPEND_BYTES: Final = 2 << 10
"""Memory that a waiting append takes besides its records."""


class WaitingClient:
    """Counts appends of one client that wait. Nothing more of it is begun until there are none."""

    def __init__(self) -> None:
        self._count = 0
        self.go_on: Callable[[], None] = lambda: None
        """Called when there are none any more."""

    @property
    def has_to_wait(self) -> bool:
        return self._count > 0

    def began(self) -> None:
        self._count += 1

    def ended(self) -> None:
        self._count -= 1
        if not self._count:
            self.go_on()


@dataclass(slots=True, eq=False, kw_only=True)
class WaitingAppend:
    records: ProducedRecords
    """A copy: the receive buffer is used again."""

    work: AppendWork | AwaitedChange | None
    """To be done first; None for one that waits only for its turn."""

    until_s: float
    """Later it is refused: its producer has had, or gets, the answer that it was not its turn in time."""

    append: Callable[[ProducedRecords], None]
    """Called when it is its turn. Raises AppendMustWait and Refusal, and then nothing was appended."""

    refuse: Callable[[Refusal], None]
    """Called in place of `append`, or after it raised a Refusal."""


class AppendQueue:
    """The appends to one partition that wait, in the order in which they came."""

    def __init__(self) -> None:
        self.waiting: deque[WaitingAppend] = deque()
        self.is_worked_off = False
        """A task takes appends out."""

    @property
    def first(self) -> WaitingAppend | None:
        return self.waiting[0] if self.waiting else None

    def abandon(self, code: ErrorCode, reason: str) -> None:
        """Refuses all that wait: the partition's role has ended."""
        waiting, self.waiting = self.waiting, deque()
        for append in waiting:
            append.refuse(Refusal(code, reason))


class WaitingAppends:
    """Waiting appends of all partitions of a broker. Its one thread takes an append of each partition in turn."""

    def __init__(self, executor: Executor | None = None, bytes_max: int = WAITING_BYTES_MAX) -> None:
        self._executor = executor or ThreadPoolExecutor(1, thread_name_prefix="append-work")
        self._budget = Budget(bytes_max, Beyond.ALONE)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def waiting_bytes(self) -> int:
        return self._budget.held

    def check_room(self, size_bytes: int) -> None:
        """Raises Refusal while too many bytes wait already. One append of any size may wait."""
        if not self._budget.has_room(APPEND_BYTES + size_bytes):
            raise Refusal(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{self.waiting_bytes} bytes of records wait to be looked into before they are appended, "
                f"and no more than {self._budget.size_max} may",
            )

    def join(self, queue: AppendQueue, append: WaitingAppend) -> None:
        """Puts the append at the end of its partition's queue."""
        assert not isinstance(append.records, CheckedRecords), "records are checked in their turn"
        refuse, attempt = append.refuse, append.append

        def append_and_release(records: ProducedRecords) -> None:
            attempt(records)
            self._budget.release(append)

        def refuse_and_release(refusal: Refusal) -> None:
            self._budget.release(append)
            refuse(refusal)

        append.append, append.refuse = append_and_release, refuse_and_release
        self._budget.hold(append, APPEND_BYTES + len(append.records))
        queue.waiting.append(append)
        if not queue.is_worked_off:
            queue.is_worked_off = True
            task = asyncio.create_task(self._work_off(queue), name="waiting appends")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """To be called when every partition is closed, and so nothing waits any more."""
        for task in list(self._tasks):
            task.cancel()
        self._executor.shutdown(cancel_futures=True)

    async def _work_off(self, queue: AppendQueue) -> None:
        try:
            while (append := queue.first) is not None:
                refusal = await self._prepared(append)
                if queue.first is append:
                    self._append_first(queue, refusal)
                # Others have their turn: what waits behind may be done without any more waiting.
                await asyncio.sleep(0)
        finally:
            queue.is_worked_off = False

    async def _prepared(self, append: WaitingAppend) -> Refusal | None:
        """Runs the append's work in the thread; why it cannot be appended. It may be abandoned meanwhile."""
        loop = asyncio.get_running_loop()
        if append.work is not None and loop.time() < append.until_s:
            work, append.work = append.work, None
            try:
                if isinstance(work, AwaitedChange):
                    async with asyncio.timeout_at(append.until_s):
                        await work.wait()
                else:
                    append.records = await loop.run_in_executor(self._executor, work.run, append.records)
            except TimeoutError:
                # Told below.
                pass
            except Refusal as refusal:
                return refusal
            except Exception as error:  # noqa: BLE001  Whatever is in one batch, other producers do not notice.
                return _bug(error)
        if loop.time() >= append.until_s:
            return Refusal(ErrorCode.REQUEST_TIMED_OUT, "it was not its turn in time, and nothing was appended")
        return None

    def _append_first(self, queue: AppendQueue, refusal: Refusal | None) -> None:
        append = queue.waiting.popleft()
        try:
            if refusal is None:
                append.append(append.records)
        except AppendMustWait as wait:
            append.work = wait.work
            queue.waiting.appendleft(append)
            return
        except Refusal as found:
            refusal = found
        except Exception as error:  # noqa: BLE001  Whatever is in one batch, other producers do not notice.
            refusal = _bug(error)
        if refusal is not None:
            append.refuse(refusal)


def _bug(error: Exception) -> Refusal:
    log.error("internal error", task="waiting appends", exc_info=error)
    return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "internal error, see the broker's log")
