from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from spark_connector import worker_memory


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    called: list[str] = []
    monkeypatch.setattr(worker_memory, "_is_settled", False)
    monkeypatch.setattr(gc, "collect", lambda: called.append("collect"))
    monkeypatch.setattr(gc, "freeze", lambda: called.append("freeze"))
    return called


def test_what_is_loaded_is_settled_once_after_the_first_task_that_ends(calls: list[str]) -> None:
    left_early = worker_memory.settled(iter("ab"))
    assert next(left_early) == "a"
    left_early.close()  # type: ignore[attr-defined]  # It is a generator.
    assert calls == []
    assert list(worker_memory.settled(iter("ab"))) == ["a", "b"]
    assert calls == ["collect", "freeze"]
    assert list(worker_memory.settled(iter("c"))) == ["c"]
    assert calls == ["collect", "freeze"]


def test_a_task_that_fails_settles_nothing(calls: list[str]) -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        list(worker_memory.settled(failing()))
    assert calls == []


def test_a_later_collection_has_next_to_nothing_to_look_at() -> None:
    program = (
        "import gc\n"
        "from spark_connector import worker_memory\n"
        "list(worker_memory.settled(iter('a')))\n"
        "print(gc.get_freeze_count() > 20_000, len(gc.get_objects()) < 2_000)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "True True\n", done
