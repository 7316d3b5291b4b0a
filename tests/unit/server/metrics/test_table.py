"""The table of metrics: each is there once, and the page for operators has all of them."""

from __future__ import annotations

from kraft.server.metrics.table import SECTIONS
from tests.unit.server.metrics.metrics_page import MARK, PAGE, tables


def test_no_two_metrics_have_a_series_of_the_same_name() -> None:
    names = [name for section in SECTIONS for metric in section.metrics for name in metric.series]
    assert len(set(names)) == len(names)


def test_the_page_has_every_metric() -> None:
    _, _, found = PAGE.read_text().partition(MARK)
    assert found == tables(), "write it again with: python -m tests.unit.server.metrics.metrics_page"
