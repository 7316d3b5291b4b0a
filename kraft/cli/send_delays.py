"""Reports why records of `kraft produce` are not stored yet."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Final

from kraft.cli.printing import Say

if TYPE_CHECKING:
    from kraft.client import Delay, Producer
    from kraft.model.ids import TopicPartition

REPORT_AFTER_MS: Final = 5_000

_POLL_S: Final = 1.0
_END_DEADLINE_S: Final = 5.0
_NUMBER: Final = re.compile(r"\d+")


class SendDelays:
    """Reports the longest delay of a producer once it is too long, and again when its partition or reason changes."""

    def __init__(self, producer: Producer, say: Say) -> None:
        self._producer = producer
        self._say = say
        self._reported: tuple[TopicPartition, str] | None = None
        self._ended = threading.Event()
        # The command's own thread waits for input, for memory, or for the last records.
        self._thread = threading.Thread(target=self._watch, name="send delays", daemon=True)

    def __enter__(self) -> SendDelays:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(_END_DEADLINE_S)

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def report(self, delay: Delay | None) -> None:
        if delay is None or delay.waited_ms < REPORT_AFTER_MS:
            self._reported = None
            return
        # Numbers such as free bytes change with every attempt.
        reported = (delay.partition, _NUMBER.sub("", delay.reason))
        if reported != self._reported:
            self._reported = reported
            self._say(f"Records for {delay.partition} wait to be stored: {delay.reason}")

    def _watch(self) -> None:
        while not self._ended.wait(_POLL_S):
            self.report(self._producer.longest_delay())
