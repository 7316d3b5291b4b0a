"""The state of a group in one partition, judged by its last commits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

from kraft.model.ids import Offset


class LagState(Enum):
    """Burrow's states, with its numbers: a higher one is worse."""

    NOTFOUND = 0
    """There is no such group."""

    OK = 1
    WARN = 2
    """It reads, and its lag does not shrink."""

    ERR = 3
    """Of a group: a partition is in one of the states below."""

    STOP = 4
    """It has not committed for longer than its last commits took, and records wait."""

    STALL = 5
    """It commits the same offset again and again, and records wait."""

    REWIND = 6
    """It committed an offset below an earlier one."""


class Commit(NamedTuple):
    """One commit of a group for a partition."""

    offset: Offset
    timestamp_ms: int
    lag: int | None
    """Records that waited behind it, by the end of the log that was known then; None: none was known yet."""


def state_of(commits: Sequence[Commit], lag: int, now_ms: int, *, was_at_end: bool, window_ms: int) -> LagState:
    """Return the state by the commits of the window, oldest first, and the lag of now.

    `was_at_end` says whether the last commit was the end of the log a short time ago: such a group has not stopped. A
    single commit tells neither a trend nor how often the group commits: it has stopped after `window_ms`. To Burrow it
    has stopped at once, and so have many groups after each start of Burrow.
    """
    if lag <= 0 or not commits:
        return LagState.OK
    if _has_stopped(commits, now_ms, window_ms) and not was_at_end:
        return LagState.STOP
    if len(commits) == 1 or any(each.lag == 0 for each in commits):
        return LagState.OK
    if any(later.offset < earlier.offset for earlier, later in pairwise(commits)):
        return LagState.REWIND
    if all(later.offset == earlier.offset for earlier, later in pairwise(commits)):
        return LagState.STALL
    lags = [each.lag for each in commits if each.lag is not None]
    if all(later >= earlier for earlier, later in pairwise(lags)):
        return LagState.WARN
    return LagState.OK


def state_of_group(partitions: Iterable[LagState]) -> LagState:
    """Return the worst state of the partitions; what is worse than ERR is ERR."""
    worst = max((each.value for each in partitions), default=LagState.OK.value)
    return LagState(min(worst, LagState.ERR.value))


def _has_stopped(commits: Sequence[Commit], now_ms: int, window_ms: int) -> bool:
    first, last = commits[0].timestamp_ms, commits[-1].timestamp_ms
    return now_ms - last > (window_ms if len(commits) == 1 else last - first)
