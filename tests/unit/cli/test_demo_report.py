from __future__ import annotations

import io
import json

from msgspec.structs import replace
from rich.console import Console

from kraft.cli.demo.delays import DelayCell, Delays
from kraft.cli.demo.outage import OutageFigures
from kraft.cli.demo.report import DemoReport, print_report, to_json
from kraft.client import TopicPartition

MAY, JUNE = DelayCell("UA", 5), DelayCell("UA", 6)
FOUR = Delays(flights=4, distinct_flights=4, departed=4, delay_total_min=2, delay_average_min=0.5)
NONE_LEFT = Delays(flights=1, distinct_flights=1, departed=0, delay_total_min=0, delay_average_min=None)
GOOD = DemoReport(
    expected={MAY: FOUR, JUNE: NONE_LEFT},
    counted={JUNE: NONE_LEFT, MAY: FOUR},
    acknowledged=5,
    stored=5,
    flights_per_s=2.5,
    publishing_s=2.0,
    total_s=30.0,
    outage=OutageFigures(
        node_id=2,
        partition=TopicPartition("flights", 4),
        elected_after_s=3.0,
        unacknowledged_s=3.5,
        in_sync_after_s=6.0,
    ),
)


def printed(report: DemoReport) -> str:
    text = io.StringIO()
    print_report(report, Console(file=text, width=200))
    return text.getvalue()


def test_without_a_fault_the_last_line_is_an_equation() -> None:
    assert GOOD.faults() == []
    lines = printed(GOOD).splitlines()
    assert lines[-1] == "Flights in the file and counted by Spark: 5 = 5"
    assert lines[-2] == "Duplicates: 0, lost: 0; total time: 30 s"
    assert "flights-4 got a new leader 3.00 s after the kill of node 2;" in lines[-3]
    assert "2 of 2" in lines[-4]


def test_a_duplicate_is_a_fault_and_its_group_is_printed_in_full() -> None:
    twice = replace(FOUR, flights=5, departed=5, delay_total_min=4, delay_average_min=0.8)
    report = replace(GOOD, counted={MAY: twice, JUNE: NONE_LEFT}, stored=6)
    assert report.faults() == ["6 flights counted", "1 duplicates", "1 groups differ"]
    text = printed(report)
    assert "UA in month 5: the file has 4 flights (4 distinct), 4 departed" in text
    assert "UA in month 5: Spark has    5 flights (4 distinct), 5 departed" in text
    assert "5 ≠ 6" in text


def test_a_loss_is_a_fault() -> None:
    report = replace(GOOD, counted={MAY: FOUR}, stored=4, acknowledged=4)
    assert report.faults() == ["4 of 5 flights acknowledged", "4 flights counted", "1 lost", "1 groups differ"]


def test_a_duplicate_that_only_the_log_shows_is_a_fault() -> None:
    assert replace(GOOD, stored=6).faults() == ["1 duplicates"]


def test_a_group_that_nobody_expects_is_a_fault() -> None:
    report = replace(GOOD, counted={**GOOD.counted, DelayCell("ZZ", 1): NONE_LEFT})
    assert "1 groups differ" in report.faults()
    assert "ZZ" in printed(report)


def test_programs_get_the_same_figures() -> None:
    document = json.loads(to_json(GOOD))
    assert document["flights"] == document["flights_counted"] == document["flights_stored"] == 5
    assert (document["duplicates"], document["lost"], document["faults"], document["differences"]) == (0, 0, [], [])
    assert document["outage"]["partition"] == "flights-4"
    assert document["table"][0]["file"] == document["table"][0]["spark"]
