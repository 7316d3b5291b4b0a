"""Workers of `kraft mirror` as processes, and what its commands say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.command_line import Running, run, running

QUICK = {
    "refresh.topics.interval.seconds": "1",
    "sync.group.offsets.interval.seconds": "1",
    "offset.flush.interval.ms": "100",
    "tasks.max": "2",
}
"""Looks often, so that a test need not wait."""


def mirror_file(path: Path, clusters: dict[str, str], pairs: dict[str, dict[str, str]], **more: str) -> Path:
    """Write a mirror's file: the settings of clusters by key with the alias, and those of pairs."""
    aliases = dict.fromkeys(key.partition(".")[0] for key in clusters)
    lines = {"clusters": ", ".join(aliases), **clusters, **QUICK, **more}
    for pair, settings in pairs.items():
        lines |= {f"{pair}.enabled": "true", **{f"{pair}.{key}": value for key, value in settings.items()}}
    path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    return path


@contextmanager
def mirroring(file: Path, worker: str) -> Iterator[Running]:
    """Run a worker beside the block, at whose end it is killed."""
    with running("kraft", "mirror", "start", "-c", file, "--worker", worker) as process:
        yield process


def status(file: Path) -> list[dict[str, Any]]:
    done = run("mirror", "status", "-c", file, "--output", "json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def topics_of(file: Path) -> dict[str, dict[str, Any]]:
    """Return the status of each topic of the file's only pair."""
    (pair,) = status(file)
    return {each["topic"]: each for each in pair["topics"]}


def verified(file: Path) -> list[dict[str, Any]]:
    done = run("mirror", "verify", "-c", file, "--output", "json")
    assert done.stdout, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found
