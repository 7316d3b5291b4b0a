"""Result of the demo: both tables side by side, and the figures that must be equal or zero."""

from __future__ import annotations

import json
from collections.abc import Iterator

from msgspec import Struct, to_builtins
from msgspec.structs import asdict
from rich.console import Console
from rich.table import Table as RichTable

from kraft.cli.demo import delays
from kraft.cli.demo.delays import Delays, Difference, Table
from kraft.cli.demo.outage import OutageFigures


class DemoReport(Struct, frozen=True, kw_only=True):
    """Figures of one run. `stored` is the sum of the partitions' end offsets."""

    expected: Table
    counted: Table
    acknowledged: int
    stored: int
    flights_per_s: float
    publishing_s: float
    total_s: float
    outage: OutageFigures

    @property
    def published(self) -> int:
        """Number of flights to publish."""
        return delays.total(self.expected.values()).flights

    @property
    def flights_counted(self) -> int:
        return delays.total(self.counted.values()).flights

    @property
    def duplicates(self) -> int:
        """Duplicates in Spark's table, or in the log, where they may not have been read yet."""
        return max(delays.duplicates(self.counted), self.stored - self.published, 0)

    @property
    def lost(self) -> int:
        return max(delays.lost(self.expected, self.counted), self.published - self.stored)

    @property
    def differences(self) -> list[Difference]:
        return delays.compare(self.expected, self.counted)

    def faults(self) -> list[str]:
        """Return a phrase for each wrong figure; none if all are right."""
        figures = (
            (self.acknowledged == self.published, f"{self.acknowledged:,} of {self.published:,} flights acknowledged"),
            (self.flights_counted == self.published, f"{self.flights_counted:,} flights counted"),
            (self.duplicates == 0, f"{self.duplicates:,} duplicates"),
            (self.lost == 0, f"{self.lost:,} lost"),
            (not self.differences, f"{len(self.differences)} groups differ"),
        )
        return [fault for is_right, fault in figures if not is_right]


def print_report(report: DemoReport, console: Console) -> None:
    console.print(_side_by_side(report))
    for difference in report.differences:
        group = difference.group
        console.print(f"[red]{group.carrier} in month {group.month}: the file has {_in_full(difference.expected)}")
        console.print(f"[red]{group.carrier} in month {group.month}: Spark has    {_in_full(difference.counted)}")
    for line in _lines(report):
        console.print(line)


def to_json(report: DemoReport) -> str:
    """Return the report for programs: every figure that people see, and both tables in full."""
    document = {
        "flights": report.published,
        "flights_acknowledged": report.acknowledged,
        "flights_stored": report.stored,
        "flights_counted": report.flights_counted,
        "duplicates": report.duplicates,
        "lost": report.lost,
        "groups": len(report.expected),
        "differences": to_builtins(report.differences),
        "faults": report.faults(),
        "outage": asdict(report.outage) | {"partition": str(report.outage.partition)},
        "flights_per_s": report.flights_per_s,
        "publishing_s": report.publishing_s,
        "total_s": report.total_s,
        "table": [
            {"carrier": group.carrier, "month": group.month, "file": asdict(expected), "spark": asdict(counted)}
            for group, expected in report.expected.items()
            for counted in [report.counted.get(group, delays.NOTHING)]
        ],
    }
    return json.dumps(document, indent=2)


def _side_by_side(report: DemoReport) -> RichTable:
    table = RichTable(title="Flights and their average departure delay in minutes")
    table.add_column("\nairline")
    for side in ("in the file", "by Spark"):
        table.add_column(f"flights\n{side}", justify="right")
        table.add_column(f"delay\n{side}", justify="right")
    table.add_column("months\nequal", justify="right")
    for row in _rows(report):
        table.add_row(*row)
    return table


def _rows(report: DemoReport) -> Iterator[list[str]]:
    differing = {difference.group for difference in report.differences}
    for carrier in sorted({group.carrier for group in report.expected.keys() | report.counted.keys()}):
        expected = delays.of_carrier(report.expected, carrier)
        counted = delays.of_carrier(report.counted, carrier)
        groups = expected.keys() | counted.keys()
        sides = [_cells(delays.total(side.values())) for side in (expected, counted)]
        yield [carrier, *sides[0], *sides[1], f"{len(groups - differing)} of {len(groups)}"]


def _cells(side: Delays) -> tuple[str, str]:
    average = side.delay_average_min
    return f"{side.flights:,}", "-" if average is None else f"{average:.3f}"


def _in_full(side: Delays) -> str:
    return (
        f"{side.flights} flights ({side.distinct_flights} distinct), {side.departed} departed, "
        f"delays of {side.delay_total_min} min, {side.delay_average_min} on average"
    )


def _lines(report: DemoReport) -> Iterator[str]:
    groups = report.expected.keys() | report.counted.keys()
    outage = report.outage
    yield f"Published in {report.publishing_s:.1f} s, outage included: {report.flights_per_s:,.0f} flights/s"
    yield f"Equal groups of airline and month: {len(groups) - len(report.differences)} of {len(groups)}"
    yield (
        f"{outage.partition} got a new leader {outage.elected_after_s:.2f} s after the kill of node {outage.node_id}; "
        f"longest time without an acknowledged flight: {outage.unacknowledged_s:.2f} s"
    )
    yield f"Duplicates: {report.duplicates:,}, lost: {report.lost:,}; total time: {report.total_s:.0f} s"
    sign = "=" if report.flights_counted == report.published else "≠"
    yield f"Flights in the file and counted by Spark: [bold]{report.published:,} {sign} {report.flights_counted:,}"
