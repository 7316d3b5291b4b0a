"""The benchmarks of the partition log run, and say what they are to say; their figures are not judged here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks.partition_log import app


def run(*arguments: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, [*arguments, "--output", "json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    said: dict[str, Any] = json.loads(done.stdout)
    return said


@pytest.mark.parametrize(
    ("arguments", "rows"),
    [
        (("append", "--rounds", "1", "--round-mib", "1"), 6),
        (("recovery", "--times", "1", "--log-mib", "1"), 4),
        (("lookup", "--lookups", "100", "--large-mib", "2", "--small-mib", "1"), 2),
    ],
)
def test_a_benchmark_prints_its_rows_with_target_durability_and_surroundings(
    arguments: tuple[str, ...], rows: int, tmp_path: Path
) -> None:
    said = run(*arguments, "--directory", str(tmp_path))
    assert len(said["rows"]) == rows
    assert all(set(row) == set(said["rows"][0]) for row in said["rows"])
    assert any(row["met"] is not None for row in said["rows"])
    assert said["durability"]
    assert {"commit", "cores", "python", "crc32c"} <= set(said["surroundings"])
    assert list(tmp_path.iterdir()) == [], "it leaves nothing behind"
