from __future__ import annotations

import time

import pytest

from spark_connector.patience import Patience


def test_what_is_settled_is_returned_at_once() -> None:
    assert Patience(settle_s=60.0, poll_s=60.0).settled(lambda: 5, lambda seen: seen == 5) == 5


def test_what_does_not_settle_is_returned_as_it_was_seen_last() -> None:
    seen = iter(range(100))
    assert Patience(settle_s=0.0, poll_s=0.0).settled(lambda: next(seen), lambda _: False) == 0


def test_it_looks_again_until_then(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    seen = iter([1, 2, 3, 4])
    assert Patience(settle_s=60.0, poll_s=0.5).settled(lambda: next(seen), lambda each: each == 3) == 3
    assert pauses == [0.5, 0.5]
