"""The benchmark of the metadata's size runs three real controllers; here over few partitions."""

from __future__ import annotations

from pathlib import Path

from benchmarks.metadata_scale import measure


def test_every_measure_has_a_row_and_every_number_of_partitions_a_column(tmp_path: Path) -> None:
    report = measure(tmp_path, partitions=[100], failovers=1)
    figures = {row["partitions"]: row["100"] for row in report.rows}
    assert {"creation, s", "failover: p50 s", "one change: image, us", "one change: delta, us", "image, MiB"} <= {
        *figures
    }
    assert all(isinstance(figure, int | float) and figure >= 0 for figure in figures.values())
