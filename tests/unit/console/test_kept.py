"""Answers that are kept: asked once for a while, by key, and never for a failure."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from kraft.console.kept import KEPT_MAX, Kept


def test_an_answer_is_asked_anew_when_its_time_is_over_and_for_another_key() -> None:
    now_ms, asked = [0], list[str]()
    kept = Kept(lambda: now_ms[0])

    def answer(user: str) -> str:
        def ask() -> str:
            asked.append(user)
            return f"{user} {len(asked)}"

        return kept.get(("prod", user), 1_000, ask)

    assert [answer("a"), answer("a"), answer("b")] == ["a 1", "a 1", "b 2"]
    now_ms[0] = 1_000
    assert [answer("a"), answer("b")] == ["a 3", "b 4"]


def test_a_failure_is_not_kept() -> None:
    kept = Kept(lambda: 0)
    with pytest.raises(ZeroDivisionError):
        kept.get("key", 1_000, lambda: 1 // 0)
    assert kept.get("key", 1_000, lambda: 7) == 7


def test_who_asks_at_the_same_time_waits_for_the_same_answer() -> None:
    kept, may_answer, asked = Kept(lambda: 0), threading.Event(), list[int]()

    def ask() -> int:
        asked.append(1)
        may_answer.wait(20)
        return len(asked)

    with ThreadPoolExecutor(8) as threads:
        answers = [threads.submit(kept.get, "key", 1_000, ask) for _ in range(8)]
        may_answer.set()
        assert [each.result(20) for each in answers] == [1] * 8


def test_answers_are_bounded() -> None:
    kept = Kept(lambda: 0)
    for key in range(KEPT_MAX + 1):
        kept.get(key, 1_000, lambda: "old")
    assert kept.get(KEPT_MAX, 1_000, lambda: "new") == "old"
    assert kept.get(0, 1_000, lambda: "new") == "new"
