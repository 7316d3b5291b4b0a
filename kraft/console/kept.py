"""Answers that cost a cluster much, kept for a few seconds: whoever asks again, or at the same time, gets the same."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, Final, TypeVar

T = TypeVar("T")

KEPT_MAX: Final = 200
"""Answers at the same time; the one that nobody asked for the longest time is forgotten first."""


class _Answer:
    def __init__(self) -> None:
        self.asking = Lock()
        self.value: Any = None
        self.until_ms = -1


class Kept:
    """Answers by key, which has the cluster and the user: another user may not see them."""

    def __init__(self, now_ms: Callable[[], int], most: int = KEPT_MAX) -> None:
        self._now_ms = now_ms
        self._most = most
        self._lock = Lock()
        self._answers: OrderedDict[Hashable, _Answer] = OrderedDict()

    def get(self, key: Hashable, for_ms: int, ask: Callable[[], T]) -> T:
        """Return the answer, asked anew if it is older. Blocks; what the function raises is not kept."""
        with self._lock:
            answer = self._answers.setdefault(key, _Answer())
            self._answers.move_to_end(key)
            while len(self._answers) > self._most:
                self._answers.popitem(last=False)
        with answer.asking:
            if self._now_ms() >= answer.until_ms:
                answer.value = ask()
                answer.until_ms = self._now_ms() + for_ms
            value: T = answer.value
            return value
