from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from benchmarks import record_codec as benchmark
from benchmarks.report import is_codec_compiled


@pytest.mark.skipif(
    not is_codec_compiled(), reason="the record codec is not compiled here: there is nothing to compare"
)
def test_the_report_compares_pure_and_compiled_at_both_sizes() -> None:
    # The exit code says whether the aim was reached, which a busy machine decides: it is not looked at here.
    result = CliRunner().invoke(benchmark.app, ["--rounds", "1", "--batch-kib", "4", "--output", "json"])
    report = json.loads(result.stdout)
    measured = {(row["task"], row["value bytes"]) for row in report["rows"]}
    assert measured == {
        (f"{way} {what}", size)
        for way in ("encode", "decode")
        for what in ("records", "columns")
        for size in (100, 1000)
    }
    assert all(row["pure ns"] > 0 and row["compiled ns"] > 0 and row["ratio"] > 0 for row in report["rows"])
    assert [row["aim"] for row in report["rows"] if row["aim"] is not None] == [4.0, 4.0]
    assert report["surroundings"]["record codec"] == "compiled"


def test_without_a_compiled_codec_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "is_codec_compiled", lambda: False)
    with pytest.raises(SystemExit, match="not compiled here"):
        benchmark.main()


def test_options_out_of_range_are_refused() -> None:
    result = CliRunner().invoke(benchmark.app, ["--rounds", "0"])
    assert result.exit_code == 2
    assert "--rounds" in result.stderr
