"""Pages of records: what strangers wrote into them is text, and what is asked for is checked."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kraft.console.asking import Panel
from kraft.console.forms import WrongInput, form_of
from kraft.console.pages.records import Record, Records, TailPage
from kraft.console.records.browsing import Found, held
from kraft.console.records.decoding import Decoded
from kraft.console.records.rows import Cell, HeaderCell, Row, pretty
from kraft.console.records.single import One
from kraft.console.records.wanted import Wanted, places_of, time_of, time_text, wanted_of
from tests.support.console_pages import EVIL, assert_shown_as_text

LINES = f"{EVIL}\n{EVIL}"


def row(**fields: Any) -> Row:
    cell = Cell(format=EVIL, text=LINES, size_bytes=7, cut=True, problem=EVIL)
    headers = [HeaderCell(name=EVIL, value=cell)]
    values = {"key": cell, "value": cell, "headers": headers, "headers_left_out": 2, "tags": [EVIL], "codec": EVIL}
    return Row(partition=0, offset=1, time=EVIL, timestamp_ms=1, **{**values, **fields})


def views() -> dict[str, list[Any]]:
    about: dict[str, Any] = {"topic": EVIL, "query": {"filter": EVIL, "key": EVIL, "text": EVIL}, "formats": [EVIL]}
    failed: Panel[Any] = Panel(problem=EVIL, code="NO_ANSWER")
    found = Found(
        rows=[row(), row(problem=EVIL), row(is_marker=True)],
        newest_first=True,
        partitions=[0],
        partitions_in_all=1,
        looked_at=2,
        fetched_bytes=3,
        notes=[EVIL],
        more={"filter": EVIL},
        is_masked=True,
    )
    record = {**about, "partition": 0, "offset": 1}
    return {
        "records.html": [Records(records=Panel(value=found), **about), Records(records=failed, **about)],
        "record.html": [
            *(Record(record=Panel(value=One(record=each, start=0, end=9)), **record) for each in found.rows),
            Record(record=failed, **record),
        ],
        "tail.html": [TailPage(may=Panel(value=True), **about), TailPage(may=failed, **about)],
    }


@pytest.mark.parametrize("template", views())
def test_what_strangers_wrote_is_shown_as_text(template: str) -> None:
    for view in views()[template]:
        assert_shown_as_text(template, view)


# --- what is asked for -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"partition": "x"}, "partition='x': give a number, a range such as 0-49, or nothing for all"),
        ({"partition": "5-3"}, "give a number, a range"),
        ({"partition": "9" * 30}, "give a number, a range"),
        ({"from": "middle"}, "from='middle': give one of newest, beginning, offset, time"),
        ({"from": "offset", "offset": "-1"}, "give a whole number from 0"),
        ({"from": "time", "time": "noon"}, "time='noon': give a time in UTC such as"),
        ({"from": "time", "time": "9999-12-31T23:59:59-23:59"}, "give a time in UTC"),
        ({"rows": "201"}, "give a whole number from 1 to 200"),
        ({"isolation": "none"}, "give committed or all"),
        ({"at": "0:x"}, "at says where an earlier page ended"),
        ({"at": ",".join(f"{each}:0" for each in range(60))}, "at says where an earlier page ended"),
        ({"filter": "value =="}, "the filter is wrong at its end"),
        ({"filter": "x" * 1_001}, "filter has 1,001 characters, and may have 1,000"),
        ({"text": "x" * 501}, "text has 501 characters"),
    ],
)
def test_what_cannot_be_asked_for_is_a_sentence(fields: dict[str, str], sentence: str) -> None:
    with pytest.raises(WrongInput) as caught:
        wanted_of(form_of(list(fields.items())))
    assert sentence in str(caught.value)


@given(
    st.builds(
        Wanted,
        partitions=st.none() | st.integers(0, 99).map(lambda each: (each, each + 3)),
        begin=st.sampled_from(["newest", "beginning"]),
        key=st.sampled_from(["", "a b", "ä"]),
        filter=st.sampled_from(["", "offset > 5"]),
        rows=st.integers(1, 200),
        committed=st.booleans(),
        at=st.none() | st.dictionaries(st.integers(0, 999), st.integers(0, 2**60), min_size=1, max_size=9),
    )
)
def test_an_address_asks_for_the_same_again(wanted: Wanted) -> None:
    assert wanted_of(form_of(list(wanted.query().items()))) == wanted


@given(st.integers(0, 253_402_300_799_999))
@example(2_170_436_661_627)
def test_times_are_read_as_they_are_written(time_ms: int) -> None:
    assert time_of(time_text(time_ms)) == time_ms


@given(st.text(max_size=30))
def test_any_place_is_read_or_refused(text: str) -> None:
    try:
        found = places_of(text)
    except WrongInput:
        found = None
    assert found is None or all(each >= 0 for each in found.values())


def test_json_keeps_its_numbers_when_it_is_set_in_lines() -> None:
    text = '{"id": 123456789012345678901234567890, "x": 1.10}'
    assert pretty(Decoded(format="json", text=text, value={})) == (
        '{\n  "id": 123456789012345678901234567890,\n  "x": 1.10\n}'
    )


def test_what_a_partition_holds_is_said_also_if_it_is_empty() -> None:
    assert held(3, 0, 1_200) == "partition 3 holds offsets 0 to 1,200, the last one excluded"
    assert held(3, 70, 70) == "partition 3 is empty, and its next offset is 70"
