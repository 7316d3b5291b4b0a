"""The table of metrics: each is there once, and the page for operators has all of them."""

from __future__ import annotations

from kraft.server.metrics.exceptions import NOT_SERVED
from kraft.server.metrics.table import SECTIONS
from tests.support.dashboards import asked_for
from tests.unit.server.metrics.metrics_page import MARK, PAGE, tables


def test_no_two_metrics_have_a_series_of_the_same_name() -> None:
    names = [name for section in SECTIONS for metric in section.metrics for name in metric.series]
    assert len(set(names)) == len(names)


def test_the_page_has_every_metric() -> None:
    _, _, found = PAGE.read_text().partition(MARK)
    assert found == tables(), "write it again with: python -m tests.unit.server.metrics.metrics_page"


def test_every_series_that_dashboards_ask_for_is_served_or_a_named_exception() -> None:
    served = {name for section in SECTIONS for metric in section.metrics for name in metric.series}
    assert asked_for() - served == NOT_SERVED.keys()
    assert not served & NOT_SERVED.keys()


def test_names_are_kafkas_prometheus_or_ours() -> None:
    names = [metric.name for section in SECTIONS for metric in section.metrics]
    assert [name for name in names if not name.startswith(("kafka_", "kraft_", "process_"))] == []
    # Kafka has no name for what only Kraft has.
    ours = [metric for section in SECTIONS for metric in section.metrics if metric.name.startswith("kraft_")]
    assert [metric.name for metric in ours if metric.jmx and metric.name != "kraft_groups"] == []


def test_each_help_is_a_sentence() -> None:
    helps = [metric.help for section in SECTIONS for metric in section.metrics]
    assert [text for text in helps if not (text[0].isupper() or text[0].isdigit()) or not text.endswith(".")] == []
