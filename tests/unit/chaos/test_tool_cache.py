from __future__ import annotations

import threading
from pathlib import Path

import pytest

from chaos import tool_cache
from chaos.tool_cache import made_once


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "kraft"


def test_what_is_there_is_not_made_again(cache: Path) -> None:
    def fail(path: Path) -> None:
        raise AssertionError(f"{path} is made again")

    assert made_once("tool", Path.touch) == cache / "tool"
    assert made_once("tool", fail) == cache / "tool"
    assert sorted(path.name for path in cache.iterdir()) == ["tool", "tool.lock"]


def test_those_who_ask_while_it_is_made_wait_for_it() -> None:
    is_making, may_finish = threading.Event(), threading.Event()
    made: list[str] = []

    def make(path: Path) -> None:
        made.append(threading.current_thread().name)
        is_making.set()
        assert may_finish.wait(30)
        path.mkdir()

    first = threading.Thread(target=made_once, args=("tool", make), name="first")
    second = threading.Thread(target=made_once, args=("tool", make), name="second")
    first.start()
    assert is_making.wait(30)
    second.start()
    # Long enough to notice one that does not wait; one that does passes however slow the machine is.
    second.join(0.2)
    assert second.is_alive()
    may_finish.set()
    first.join(30)
    second.join(30)
    assert made == ["first"]


def test_what_was_not_finished_is_not_there_and_the_next_one_tries_again(cache: Path) -> None:
    def fail(path: Path) -> None:
        path.write_text("half")
        raise TimeoutError

    with pytest.raises(TimeoutError):
        made_once("tool", fail)
    assert [path.name for path in cache.iterdir()] == ["tool.lock"]
    assert made_once("tool", Path.mkdir).is_dir()


def test_without_a_cache_of_the_users_the_source_tree_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(tool_cache, "_ROOT", tmp_path)
    assert made_once("tool", Path.mkdir) == tmp_path / ".tools" / "tool"
