from __future__ import annotations

import json

import pytest

from benchmarks import wire_codec as benchmark


def test_the_report_compares_three_codecs_over_six_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark.main(["--rounds", "1", "--output", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["task"] for row in rows] == [
        "decode Produce",
        "decode Produce of 1 MiB",
        "encode Produce answer",
        "encode Fetch answer",
        "encode Metadata answer",
        "decode Metadata answer",
    ]
    assert all(row[f"{codec} us"] > 0 for row in rows for codec in ("ours", "kio", "kafka-python"))


def test_options_out_of_range_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        benchmark.main(["--rounds", "0"])
    assert "at least 1" in capsys.readouterr().err
