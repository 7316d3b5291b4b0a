"""The benchmark runs one real voter; here it makes few proposals, and the figures mean nothing."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from benchmarks.quorum_loop_holds import app, measure


def test_a_disk_as_it_is_and_a_slow_one_have_a_row() -> None:
    report = measure(proposals=20, sync_ms=5)
    assert [row["disk"] for row in report.rows] == ["as it is", "+5 ms"]
    for row in report.rows:
        median_ms = row["commit p50 ms"]
        assert isinstance(median_ms, float)
        assert median_ms > 0


@pytest.mark.parametrize("option", [("--proposals", "0"), ("--proposals", "9"), ("--sync-ms", "-1")])
def test_options_out_of_range_are_refused(option: tuple[str, str]) -> None:
    result = CliRunner().invoke(app, option)
    assert result.exit_code == 2
    assert option[0] in result.stderr
