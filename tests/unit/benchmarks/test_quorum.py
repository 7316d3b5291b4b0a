"""The benchmark of the quorum runs three real voters; here it makes few commits, and the figures mean nothing."""

from __future__ import annotations

from pathlib import Path

from benchmarks.quorum import measure


def test_every_window_has_a_row_beside_the_disk_and_the_trial(tmp_path: Path) -> None:
    report = measure(tmp_path, payload_bytes=200, commits=40, windows=(64,))
    assert [row["what"] for row in report.rows] == [
        "fdatasync, sequential: the disk alone",
        "commits, sequential",
        "commits, window 64",
    ]
    assert report.rows[-1]["per s, trial figures, another day"] == 18_000
    for row in report.rows:
        p50_ms, p99_ms = row["p50 ms"], row["p99 ms"]
        assert isinstance(p50_ms, float)
        assert isinstance(p99_ms, float)
        assert 0 < p50_ms <= p99_ms
    assert not (tmp_path / "syncs").exists()
