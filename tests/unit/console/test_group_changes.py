"""Forms about groups and transactions: what is typed, the plan that they carry, and pages full of strangers' words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kraft.client import TopicPartition
from kraft.client.model.offset_reset import NewOffset, ShiftBy, ToEarliest, ToLatest, ToOffset, ToTime
from kraft.console.asking import Panel
from kraft.console.forms import WrongInput, form_of
from kraft.console.pages.group_changes import GroupChange, HeldByGroup, StaticMember
from kraft.console.pages.group_history import History, Point, points_of
from kraft.console.pages.group_reset import (
    Reset,
    ResetPreview,
    ResetRow,
    numbers_of,
    plan_in,
    plan_text,
    preview_of,
    target_of,
)
from kraft.console.pages.hanging import Abort, HangingFound, HangingRow, HangingTransactions
from kraft.console.pages.transactions import (
    Begun,
    ProducerRow,
    Producers,
    Transaction,
    TransactionFacts,
    TransactionRow,
    Transactions,
)
from kraft.health.group_history import Series, TopicSeries
from tests.support.console_pages import EVIL, assert_shown_as_text, failed, paged

NOON_MS = 1_795_608_000_000


def test_a_target_is_read_from_the_form() -> None:
    found = [
        target_of(form_of([("target", target), ("value", value)]), NOON_MS)
        for target, value in (
            ("earliest", ""),
            ("latest", "ignored"),
            ("offset", "7"),
            ("shift", "-7"),
            ("time", "1970-01-02"),
            ("duration", "90m"),
            ("duration", "PT1H30M"),
            ("duration", "2 D"),
        )
    ]
    assert found == [
        ToEarliest(),
        ToLatest(),
        ToOffset(7),
        ShiftBy(-7),
        ToTime(86_400_000),
        ToTime(NOON_MS - 5_400_000),
        ToTime(NOON_MS - 5_400_000),
        ToTime(NOON_MS - 2 * 86_400_000),
    ]


@pytest.mark.parametrize(
    ("target", "value", "told"),
    [
        ("", "", "choose one of earliest"),
        ("sideways", "1", "choose one of earliest"),
        ("offset", "", "give an offset"),
        ("offset", "-1", "whole number from 0"),
        ("shift", "1.5", "whole number"),
        ("time", "noon", "is not a date and time"),
        ("duration", "soon", "is not a duration"),
    ],
)
def test_what_is_no_target_is_told_in_a_sentence(target: str, value: str, told: str) -> None:
    with pytest.raises(WrongInput, match=told):
        target_of(form_of([("target", target), ("value", value)]), NOON_MS)


def test_partitions_are_numbers_and_ranges() -> None:
    assert numbers_of("") is None
    assert numbers_of("0-2, 7") == frozenset({0, 1, 2, 7})
    for wrong in ("x", "1-", "5-3", "0-5000", "-1", "1,,2"):
        with pytest.raises(WrongInput):
            numbers_of(wrong)


def test_the_form_carries_what_the_preview_showed() -> None:
    places = [TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("a b", 0)]
    new = [
        NewOffset(partition=places[0], committed=5, offset=2),
        NewOffset(partition=places[1], committed=None, offset=3, note="above the log; using"),
        NewOffset(partition=places[2], committed=1, offset=9),
    ]
    preview = preview_of(new)
    assert (preview.again, preview.skipped) == (3, 8)
    assert preview.rows[1].note == "above the log; using 3"
    offsets = {places[0]: (5, 2), places[1]: (None, 3), places[2]: (1, 9)}
    assert plan_in(preview.plan) == offsets
    assert plan_in(plan_text(offsets)) == offsets


@pytest.mark.parametrize(
    "plan",
    [
        "",
        "{}",
        "[]",
        "x",
        '{"orders": 1}',
        '{"orders": [[0, 1]]}',
        '{"orders": [[0, 1, -1]]}',
        "[" * 5_000,
        json.dumps({"orders": [[number, None, 0] for number in range(1_001)]}),
    ],
)
def test_a_plan_that_no_preview_made_is_refused(plan: str) -> None:
    with pytest.raises(WrongInput):
        plan_in(plan)


def test_the_table_of_a_history_has_the_last_points_first() -> None:
    line = TopicSeries(topic="orders", committed=[1, None], end=[2, 5], lag=[1, None])
    points = points_of(Series(times_ms=[10, 20], topics=[line], left_out=0))
    assert [(each.at_ms, each.end, each.lag) for each in points] == [(20, 5, None), (10, 2, 1)]
    many = Series(times_ms=list(range(100)), topics=[], left_out=0)
    assert points_of(many) == []


def views() -> list[tuple[str, Any]]:
    """Return views in which each text is an attack."""
    return [*_of_groups(), *_of_transactions()]


def _of_groups() -> list[tuple[str, Any]]:
    row = ResetRow(topic=EVIL, partition=0, now=None, then=1, again=0, skipped=1, note=EVIL)
    preview = Panel(value=ResetPreview(rows=[row], again=0, skipped=1, plan=EVIL))
    member = StaticMember(instance=EVIL, client=EVIL, host=EVIL, partitions=1)
    held = HeldByGroup(topics={EVIL: 1}, static_members=[member], type=EVIL, members=1, blocked="")
    blocked = HeldByGroup(topics={}, static_members=[], type=EVIL, members=1, blocked=EVIL)
    lines = Series(times_ms=[1], topics=[TopicSeries(topic=EVIL, committed=[1], end=[2], lag=[None])], left_out=1)
    point = Point(at_ms=1, topic=EVIL, committed=1, end=None, lag=1)
    topics = Panel(value=[EVIL])
    changes = [
        (f"group_{name}.html", GroupChange(group=EVIL, held=each))
        for name in ("offsets", "members", "delete")
        for each in (Panel(value=held), Panel(value=blocked), failed())
    ]
    return [
        *changes,
        ("group_reset.html", Reset(group=EVIL, topics=topics, blocked="", preview=preview)),
        ("group_reset.html", Reset(group=EVIL, topics=topics, blocked="", preview=failed())),
        ("group_reset.html", Reset(group=EVIL, topics=topics, blocked=EVIL, preview=None)),
        ("group_reset.html", Reset(group=EVIL, topics=failed(), blocked="", preview=None)),
        ("group_history.html", History(group=EVIL, series=failed(), problem="", every_s=10, table=[])),
        (
            "group_history.html",
            History(group=EVIL, series=Panel(value=lines), problem=EVIL, every_s=9, table=[point]),
        ),
    ]


def _of_transactions() -> list[tuple[str, Any]]:
    begun = Begun(start_ms=10**18, open_ms=5, timeout_ms=1, partitions=3)
    one = TransactionRow(transactional_id=EVIL, state=EVIL, producer_id=1, coordinator=1)
    facts = TransactionFacts(
        transactional_id=EVIL, state=EVIL, producer_id=1, producer_epoch=0, coordinator=1, begun=begun, places=[EVIL]
    )
    producer = ProducerRow(
        producer_id=1, producer_epoch=1, coordinator_epoch=-1, last_sequence=-1, last_write_ms=1, start_offset=0
    )
    hanging = HangingRow(
        topic=EVIL,
        partition=0,
        transactional_id=EVIL,
        producer_id=1,
        producer_epoch=1,
        coordinator_epoch=1,
        start_offset=0,
        last_write_ms=1,
        holds_readers=True,
    )
    found = HangingFound(hanging=[hanging], open=1, searched=1, failed=1, first_failure=EVIL)
    return [
        ("transactions.html", Transactions(transactions=failed(), begun=failed(), show="all")),
        (
            "transactions.html",
            Transactions(transactions=Panel(value=paged(one)), missing=EVIL, begun=failed(), show="open"),
        ),
        (
            "transactions.html",
            Transactions(transactions=Panel(value=paged(one)), begun=Panel(value={EVIL: begun}), show="all"),
        ),
        ("transaction.html", Transaction(transactional_id=EVIL, transaction=Panel(value=facts))),
        ("transaction.html", Transaction(transactional_id=EVIL, transaction=failed())),
        ("producers.html", Producers(topic=EVIL, partition=EVIL, producers=Panel(value=[producer]))),
        ("producers.html", Producers(topic=EVIL, partition=EVIL, producers=failed())),
        ("producers.html", Producers(topic=EVIL, partition=EVIL, producers=None)),
        ("hanging.html", HangingTransactions(topic=EVIL, minutes=EVIL, found=Panel(value=found))),
        ("hanging.html", HangingTransactions(topic=EVIL, minutes=EVIL, found=failed())),
        ("hanging.html", HangingTransactions(topic=EVIL, minutes=EVIL, found=None)),
        ("abort.html", Abort(name=EVIL, transaction=Panel(value=hanging), objection="")),
        ("abort.html", Abort(name=EVIL, transaction=Panel(value=hanging), objection=EVIL)),
        ("abort.html", Abort(name=EVIL, transaction=failed(), objection="")),
    ]


@pytest.mark.parametrize(("template", "view"), views())
def test_what_strangers_named_is_shown_as_text(template: str, view: Any) -> None:
    assert_shown_as_text(template, view, form=form_of([(name, EVIL) for name in ("value", "topic", "partitions")]))
