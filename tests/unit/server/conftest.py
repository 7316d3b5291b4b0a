"""Fixtures of more than one file: those of replicas that move between log directories."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft.model.ids import LogDirectory
from kraft.server.replica.log_directories import as_log_directory
from tests.support.server.moving import Mover, WatchedDisk


@pytest.fixture
def disk() -> WatchedDisk:
    return WatchedDisk()


@pytest.fixture
def paths(tmp_path: Path) -> Iterator[list[LogDirectory]]:
    """Log directories. What movers opened in there is closed in the end."""
    made = [tmp_path / name for name in "abc"]
    for path in made:
        path.mkdir()
    yield [as_log_directory(path) for path in made]
    Mover.close_all()


@pytest.fixture
def mover(disk: WatchedDisk, paths: list[LogDirectory]) -> Mover:
    return Mover(disk, paths)
