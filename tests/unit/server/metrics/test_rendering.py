"""Values become text that Prometheus' own parsers read back."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open_metrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from kraft.server.metrics.metric import counter, gauge, histogram, summary
from kraft.server.metrics.rendering import OPEN_METRICS, PART_BYTES, TEXT, TextFormat, format_of, render
from kraft.server.metrics.snapshot import Snapshot, Values, take
from tests.support.turn_counter import TurnCounter

SIZE: Final = gauge("kraft_size_bytes", "Bytes with \\ and\na line.", "topic", "partition")
EVENTS: Final = counter("kraft_events", "Events.")
WAITS: Final = summary("kraft_wait_seconds", "Waits.", "request")
TIMES: Final = histogram("kraft_time_seconds", "Times.", tuple(float(bound) for bound in range(1, 24)), "request")

NAMES: Final = ("plain", 'quote " in it', "back\\slash", "two\nlines", "ümlaut {}", "")


def _snapshot() -> Snapshot:
    snapshot = Snapshot()
    for name in NAMES:
        for partition in range(30):
            snapshot.add(SIZE, partition * 1_000, name, str(partition))
    snapshot.add(EVENTS, 7)
    for name in ("Produce", "Fetch"):
        snapshot.add_summary(WAITS, 3, 0.25, name)
        snapshot.add_histogram(TIMES, [5, 0, *[0] * 20, 2, 1], 12.5, name)
    return snapshot


def _text(values: Values, form: TextFormat) -> str:
    return b"".join(asyncio.run(render(values, form))).decode()


@pytest.mark.parametrize("form", [TEXT, OPEN_METRICS], ids=["text", "open metrics"])
def test_what_is_written_is_what_prometheus_reads(form: TextFormat) -> None:
    text = _text(_snapshot().values, form)
    found = {family.name: family for family in (read_open_metrics if form.is_open_metrics else read_text)(text)}
    sizes = {(each.labels["topic"], each.labels["partition"]): each.value for each in found["kraft_size_bytes"].samples}
    assert sizes == {(name, str(partition)): partition * 1_000 for name in NAMES for partition in range(30)}
    assert [(each.name, each.value) for each in found["kraft_events"].samples] == [("kraft_events_total", 7)]
    waits = [(each.name, each.labels["request"], each.value) for each in found["kraft_wait_seconds"].samples]
    assert waits == [
        (f"kraft_wait_seconds_{suffix}", name, value)
        for name in ("Produce", "Fetch")
        for suffix, value in (("count", 3), ("sum", 0.25))
    ]
    buckets = {(each.labels["request"], each.labels["le"]): each.value for each in _samples(found, "_bucket")}
    assert [buckets["Fetch", le] for le in ("1.0", "2.0", "22.0", "23.0", "+Inf")] == [5, 5, 5, 7, 8]
    assert len(buckets) == 2 * 24
    assert [each.value for each in _samples(found, "_count")] == [8, 8]
    assert [each.value for each in _samples(found, "_sum")] == [12.5, 12.5]
    assert {name: family.type for name, family in found.items()} == {
        "kraft_size_bytes": "gauge",
        "kraft_events": "counter",
        "kraft_wait_seconds": "summary",
        "kraft_time_seconds": "histogram",
    }


def _samples(found: dict[str, Any], suffix: str) -> list[Any]:
    return [each for each in found["kraft_time_seconds"].samples if each.name.endswith(suffix)]


def test_help_and_type_of_many_series_are_said_once() -> None:
    for form in (TEXT, OPEN_METRICS):
        text = _text(_snapshot().values, form)
        assert text.count("# TYPE kraft_size_bytes gauge\n") == 1
        assert text.count("# HELP kraft_size_bytes ") == 1
        assert text.endswith("# EOF\n") is form.is_open_metrics


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", TEXT),
        ("*/*", TEXT),
        ("text/plain;version=0.0.4", TEXT),
        ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", OPEN_METRICS),
    ],
)
def test_a_scraper_gets_a_format_that_it_reads(accept: str, form: TextFormat) -> None:
    assert format_of(accept) is form


def test_nothing_is_an_empty_text() -> None:
    assert _text({}, TEXT) == ""
    assert _text({}, OPEN_METRICS) == "# EOF\n"


def test_values_are_freed_while_the_text_is_made() -> None:
    values = _snapshot().values
    asyncio.run(render(values, TEXT))
    assert values == {}


def test_others_have_turns_while_a_long_text_is_made() -> None:
    snapshot = Snapshot()
    for number in range(5_000):
        snapshot.add(SIZE, number, "orders", str(number))

    async def turns() -> int:
        async with TurnCounter() as counter:
            await render(snapshot.values, TEXT)
        return counter.turns

    assert asyncio.run(turns()) > 10


async def test_others_have_a_turn_after_each_part_of_a_snapshot() -> None:
    async def collect(snapshot: Snapshot) -> None:
        snapshot.add(EVENTS, 1)

    async with TurnCounter() as counter:
        await take([collect] * 5)
    assert counter.turns >= 5


def test_a_long_text_is_in_parts_of_whole_lines() -> None:
    snapshot = Snapshot()
    for number in range(20_000):
        snapshot.add(SIZE, number, "orders", str(number))
    parts = asyncio.run(render(snapshot.values, TEXT))
    assert len(parts) > 3
    assert max(map(len, parts)) < 2 * PART_BYTES
    (family,) = read_text(b"".join(parts).decode())
    assert [each.value for each in family.samples] == list(range(20_000))
