from __future__ import annotations

import json

from typer.testing import CliRunner

from benchmarks import wire_codec as benchmark


def test_the_report_compares_three_codecs_over_six_tasks() -> None:
    result = CliRunner().invoke(benchmark.app, ["--rounds", "1", "--output", "json"])
    rows = json.loads(result.stdout)["rows"]
    assert [row["task"] for row in rows] == [
        "decode Produce",
        "decode Produce of 1 MiB",
        "encode Produce answer",
        "encode Fetch answer",
        "encode Metadata answer",
        "decode Metadata answer",
    ]
    assert all(row[f"{codec} us"] > 0 for row in rows for codec in ("ours", "kio", "kafka-python"))


def test_options_out_of_range_are_refused() -> None:
    result = CliRunner().invoke(benchmark.app, ["--rounds", "0"])
    assert result.exit_code == 2
    assert "--rounds" in result.stderr
