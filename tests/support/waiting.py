"""Waiting for a state of a cluster. There is no signal for it, so these poll until a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from kraft.client import Admin

DEADLINE_S: Final = 60.0
POLL_S: Final = 0.05


def until(holds: Callable[[], bool], what: str | Callable[[], object], deadline_s: float = DEADLINE_S) -> None:
    """Poll until a condition holds. Raises TimeoutError that says what was found instead."""
    until_s = time.monotonic() + deadline_s
    while not holds():
        if time.monotonic() > until_s:
            raise TimeoutError(f"after {deadline_s:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(POLL_S)


def until_in_sync(admin: Admin, topic: str, deadline_s: float = DEADLINE_S) -> None:
    """Wait until every replica of every partition is in sync. Raises TimeoutError."""

    def are_in_sync() -> bool:
        (described,) = admin.describe_topics([topic])
        return all(len(each.isr) == len(each.replicas) for each in described.metadata.partitions)

    until(are_in_sync, f"not every replica of {topic} is in sync", deadline_s)
