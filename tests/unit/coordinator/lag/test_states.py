from __future__ import annotations

from typing import Final

import pytest

from kraft.coordinator.lag.states import Commit, LagState, state_of, state_of_group
from kraft.model.ids import Offset

NOW_MS: Final = 1_000_000
STEP_MS: Final = 10_000

MOVING: Final = (100, 200, 300, 400)
"""Offsets of a group that reads."""


def committed(
    offsets: tuple[int, ...], lags: tuple[int | None, ...], *, last_ms_ago: int = STEP_MS // 2
) -> list[Commit]:
    """Commits ten seconds apart, the last of them so long ago."""
    last_ms = NOW_MS - last_ms_ago
    return [
        Commit(Offset(offset), last_ms - STEP_MS * (len(offsets) - 1 - at), lag)
        for at, (offset, lag) in enumerate(zip(offsets, lags, strict=True))
    ]


AS_LONG_MS: Final = STEP_MS * (len(MOVING) - 1)
"""Time from the first to the last of these commits."""


@pytest.mark.parametrize(
    ("commits", "lag", "was_at_end", "state"),
    [
        pytest.param([], 50, False, LagState.OK, id="nothing seen yet"),
        pytest.param(committed((100,), (5,), last_ms_ago=10 * STEP_MS), 9, False, LagState.OK, id="one commit"),
        pytest.param(committed((100,), (5,), last_ms_ago=10 * STEP_MS + 1), 9, False, LagState.STOP, id="one, long"),
        pytest.param(committed(MOVING, (9, 9, 9, 9)), 0, False, LagState.OK, id="all is read now"),
        pytest.param(committed(MOVING, (9, 0, 9, 9)), 9, False, LagState.OK, id="all was read once"),
        pytest.param(committed(MOVING, (9, 8, 9, 9)), 9, False, LagState.OK, id="the lag shrank once"),
        pytest.param(committed(MOVING, (5, 6, 7, 8)), 9, False, LagState.WARN, id="the lag grows"),
        pytest.param(committed(MOVING, (5, 5, 5, 5)), 5, False, LagState.WARN, id="the lag stays"),
        pytest.param(committed(MOVING, (None, None, 5, 5)), 5, False, LagState.WARN, id="early ends are not known"),
        pytest.param(committed(MOVING, (9, None, 5, 5)), 5, False, LagState.OK, id="it shrank beside one not known"),
        pytest.param(committed((100,) * 4, (5, 6, 7, 8)), 9, False, LagState.STALL, id="the same offset"),
        pytest.param(committed((100,) * 4, (0, 6, 7, 8)), 9, False, LagState.OK, id="the same, at the end at first"),
        pytest.param(committed((300, 100, 200, 300), (5, 6, 7, 8)), 9, False, LagState.REWIND, id="an earlier offset"),
        pytest.param(
            committed(MOVING, (9, 9, 9, 9), last_ms_ago=AS_LONG_MS), 9, False, LagState.WARN, id="silent no longer"
        ),
        pytest.param(
            committed(MOVING, (9, 9, 9, 9), last_ms_ago=AS_LONG_MS + 1), 9, False, LagState.STOP, id="silent longer"
        ),
        pytest.param(
            committed(MOVING, (0, 0, 0, 0), last_ms_ago=AS_LONG_MS + 1), 9, False, LagState.STOP, id="silent after it"
        ),
        pytest.param(
            committed(MOVING, (0, 0, 0, 0), last_ms_ago=AS_LONG_MS + 1), 9, True, LagState.OK, id="at the end lately"
        ),
        pytest.param(
            committed((300, 100), (5, 6), last_ms_ago=3 * STEP_MS), 9, False, LagState.STOP, id="silence, a rewind"
        ),
    ],
)  # fmt: skip
def test_a_state_follows_from_the_last_commits(
    commits: list[Commit], lag: int, was_at_end: bool, state: LagState
) -> None:
    assert state_of(commits, lag, NOW_MS, was_at_end=was_at_end, window_ms=10 * STEP_MS) is state


@pytest.mark.parametrize(
    ("partitions", "state"),
    [
        ((), LagState.OK),
        ((LagState.OK, LagState.OK), LagState.OK),
        ((LagState.OK, LagState.WARN), LagState.WARN),
        ((LagState.WARN, LagState.STALL), LagState.ERR),
        ((LagState.REWIND,), LagState.ERR),
    ],
)
def test_a_group_is_as_its_worst_partition_and_never_worse_than_err(
    partitions: tuple[LagState, ...], state: LagState
) -> None:
    assert state_of_group(partitions) is state
