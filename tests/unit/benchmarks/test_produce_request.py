from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from benchmarks.produce_request import app


def test_the_report_has_the_cost_of_a_request_above_that_of_its_bytes(tmp_path: Path) -> None:
    arguments = ["--rounds", "1", "--requests", "20", "--directory", str(tmp_path), "--output", "json"]
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)["rows"]
    assert [(row["batch"], row["acks"]) for row in rows] == [
        (batch, acks) for batch in ("1 KiB", "16 KiB", "64 KiB") for acks in ("1", "all")
    ]
    assert all(row["us"] > 0 and row["bytes us"] > 0 for row in rows)
    assert list(tmp_path.iterdir()) == [], "it leaves nothing behind"
