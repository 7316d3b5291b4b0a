from __future__ import annotations

import time

import pytest

from chaos.workloads.patience import call_until_answered
from kraft.client import Unreachable


def test_a_call_is_made_again_until_it_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.workloads.patience._PAUSE_S", 0)
    outcomes: list[Exception | int] = [Unreachable("a:1", "refused"), Unreachable("b:2", "refused"), 7]

    def call() -> int:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    assert call_until_answered(call, time.monotonic() + 60) == 7


def test_the_last_error_is_raised_at_the_deadline() -> None:
    def call() -> int:
        raise Unreachable("a:1", "refused")

    with pytest.raises(Unreachable, match="a:1"):
        call_until_answered(call, time.monotonic() - 1)
