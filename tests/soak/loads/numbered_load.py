"""A program that sends numbers without pause through whatever happens, and knows which of them were acknowledged."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Set
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from kraft.client import KraftError, Producer, RecordMetadata, Unreachable
from tests.support.records import read_all
from tests.support.working_thread import WorkingThread

_SETTINGS: Final[dict[str, Any]] = {
    "acks": "all",
    # Small batches, so that a kill meets several of them under way.
    "batch_size": 16_384,
    "linger_ms": 1,
    # This measures when a node accepts records again, not a client's backoff.
    "retry_backoff_max_ms": 200,
}
_CLIENT_ERRORS: Final = (KraftError, Unreachable, TimeoutError)
_STOP_DEADLINE_S: Final = 150.0
_POLL_S: Final = 0.002
_BURST: Final = 8
_BURST_PAUSE_S: Final = 0.001


class NumberedLoad(WorkingThread):
    """A context manager: one idempotent producer with acks=all, sending 0, 1, 2, ... from a thread of its own.

    Numbers are spread over the partitions. `burst` of them go out at once, then comes a pause of `burst_pause_s`. At
    most `unacknowledged_max` are in flight; more wait. `on_acknowledged` is called for each, in any thread.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        *,
        partitions: int = 1,
        value_bytes: int = 500,
        burst: int = _BURST,
        burst_pause_s: float = _BURST_PAUSE_S,
        unacknowledged_max: int = 1_000,
        on_acknowledged: Callable[[int], None] = lambda _: None,
        **settings: Any,
    ) -> None:
        super().__init__("numbered load", _STOP_DEADLINE_S)
        self.sent = 0
        """Numbers below were handed to the client."""
        self.errors: Counter[str] = Counter()
        """The client's errors, by number."""
        self._topic = topic
        self._partitions = partitions
        self._value_bytes = value_bytes
        self._producer = Producer(bootstrap_servers, **_SETTINGS | settings)
        self._acknowledged: set[int] = set()
        self._guard = threading.Lock()
        self._burst = burst
        self._burst_pause_s = burst_pause_s
        self._unacknowledged_max = unacknowledged_max
        self._on_acknowledged = on_acknowledged
        self._unacknowledged = 0
        self._running = threading.Event()
        self._running.set()

    @property
    def acknowledged(self) -> Set[int]:
        """All numbers acknowledged so far."""
        with self._guard:
            return set(self._acknowledged)

    @property
    def acknowledged_count(self) -> int:
        with self._guard:
            return len(self._acknowledged)

    def resume(self) -> None:
        """Begin to send."""
        self._running.set()

    def pause(self, deadline_s: float = 30.0) -> None:
        """Stop sending, and return once every number is acknowledged or has failed. Raises TimeoutError."""
        self._running.clear()
        until_s = time.monotonic() + deadline_s
        while self._is_under_way():
            self.check()
            if time.monotonic() > until_s:
                raise TimeoutError(f"{self._unacknowledged} records have no outcome after {deadline_s:.0f} s")
            time.sleep(_POLL_S)

    def wait_for_acknowledgements(self, count: int, deadline_s: float = 30.0) -> float:
        """Wait for that many more acknowledgements; return how many seconds it took. Raises TimeoutError."""
        began_s, least = time.monotonic(), self.acknowledged_count + count
        while self.acknowledged_count < least:
            self.check()
            if time.monotonic() - began_s > deadline_s:
                raise TimeoutError(f"nothing was acknowledged within {deadline_s:.0f} s")
            time.sleep(_POLL_S)
        return time.monotonic() - began_s

    # --- the thread -------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while not self._stopping.is_set():
            if not self._running.wait(0.05):
                continue
            for _ in range(self._burst):
                self._send(self.sent)
            # The load has a rate, so that a run of many faults ends with a log that can be compared.
            time.sleep(self._burst_pause_s)

    def _send(self, number: int) -> None:
        while self._unacknowledged >= self._unacknowledged_max:
            if self._stopping.is_set():
                return
            time.sleep(_POLL_S)
        with self._guard:
            self.sent = number + 1
            self._unacknowledged += 1
        value = (b"%d" % number).ljust(self._value_bytes)
        try:
            future = self._producer.send(self._topic, value, partition=number % self._partitions)
        except _CLIENT_ERRORS as error:
            self._end(number, error)
        else:
            future.add_done_callback(partial(self._note, number))

    def _note(self, number: int, future: Future[RecordMetadata]) -> None:
        self._end(number, future.exception())

    def _end(self, number: int, error: BaseException | None) -> None:
        with self._guard:
            self._unacknowledged -= 1
            if error is None:
                self._acknowledged.add(number)
            else:
                self.errors[type(error).__name__] += 1
        if error is None:
            self._on_acknowledged(number)

    def _is_under_way(self) -> bool:
        with self._guard:
            return self._unacknowledged > 0

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)
        self._producer.close(timeout_ms=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The content of a topic, compared with the numbers acknowledged before it was read."""

    acknowledged: int
    read: int
    lost: tuple[int, ...]
    """Numbers that were acknowledged and are not there."""

    repeated: tuple[int, ...]
    """Numbers that are there more than once, acknowledged or not."""

    @property
    def is_exact(self) -> bool:
        return not self.lost and not self.repeated

    def __str__(self) -> str:
        return (
            f"{self.acknowledged:,} acknowledged, {len(self.lost)} lost, {len(self.repeated)} repeated"
            + (f"; the first lost: {self.lost[:5]}" if self.lost else "")
            + (f"; the first repeated: {self.repeated[:5]}" if self.repeated else "")
        )


def compare(bootstrap_servers: str, topic: str, load: NumberedLoad) -> Contents:
    """Read the whole topic up to its current ends; the load may continue."""
    acknowledged = load.acknowledged
    found = read_all(bootstrap_servers, topic)
    return Contents(
        acknowledged=len(acknowledged),
        read=found.total(),
        lost=tuple(sorted(number for number in acknowledged if number not in found)),
        repeated=tuple(sorted(number for number, times in found.items() if times > 1)),
    )
