"""Pages of groups: rows of tables from what brokers say, and templates that are given what strangers wrote."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from kraft.client import ErrorCode, GroupMember, OffsetAndMetadata, TopicPartition
from kraft.console.asking import Panel, Wanted
from kraft.console.pages.group import Group, GroupFacts, LagRow, MemberRow, listed_only, page_of, ranges, told
from kraft.console.pages.groups import GroupRow, Groups, Lag, lag_of, lag_order
from kraft.model.group_lags import GroupLag, PartitionLag, SeenCommit
from tests.support.console_pages import EVIL, assert_shown_as_text, failed, paged


def views() -> list[tuple[str, Any]]:
    row = GroupRow(group=EVIL, state=EVIL, type=EVIL, protocol=EVIL)
    member = MemberRow(member=EVIL, instance=EVIL, client=EVIL, host=EVIL, partitions=1, assignment=EVIL)
    facts = GroupFacts(
        group=EVIL, state=EVIL, type=EVIL, assignor=EVIL, coordinator=1, member_count=2, members=[member]
    )
    lag = LagRow(
        topic=EVIL, partition=0, committed=1, end=None, lag=None, status=EVIL, owner=EVIL, client=EVIL, problem=EVIL
    )
    lags, total = Panel(value=paged(lag)), Panel(value=Lag(records=1, behind_ms=2, is_at_least=True, status=EVIL))
    return [
        ("groups.html", Groups(groups=failed(), members=failed(), lags=failed(), judged_by="console")),
        *(
            (
                "groups.html",
                Groups(
                    groups=Panel(value=paged(row)), missing=EVIL, members=members, lags=of_rows, judged_by="console"
                ),
            )
            for members, of_rows in [
                (Panel(value={EVIL: 1}), Panel(value={EVIL: Lag(problem=EVIL)})),
                (failed(), failed()),
                (Panel(value={}), Panel(value={EVIL: Lag(status=EVIL)})),
            ]
        ),
        ("group.html", Group(group=Panel(value=facts), lags=lags, total=total, judged_by="coordinator")),
        ("group.html", Group(group=Panel(value=facts), lags=failed(), total=Panel(), judged_by="console")),
        ("group.html", Group(group=failed(), lags=failed(), total=Panel(), judged_by="console")),
    ]


@pytest.mark.parametrize(("template", "view"), views())
def test_what_strangers_named_is_shown_as_text(template: str, view: Any) -> None:
    assert_shown_as_text(template, view)


def seen(partition: int, lag: int, behind_ms: int, *, is_at_least: bool = False, state: str = "OK") -> PartitionLag:
    return PartitionLag(
        topic="orders",
        partition=partition,
        state=state,
        committed_offset=5,
        lag=lag,
        behind_ms=behind_ms,
        is_at_least=is_at_least,
        completeness=1.0,
        commits=[SeenCommit(offset=5, timestamp_ms=1_000, lag=lag)],
    )


def group_lag(*partitions: PartitionLag, code: ErrorCode = ErrorCode.NONE, state: str = "ERR") -> GroupLag:
    return GroupLag(group_id="g", error_code=code, error_message="moving", state=state, partitions=list(partitions))


def test_a_group_is_as_far_behind_as_its_oldest_record_that_waits() -> None:
    lag = lag_of(group_lag(seen(0, 7, 900, is_at_least=True), seen(1, -1, -1), seen(2, 3, 100)))
    assert lag == Lag(records=10, behind_ms=900, is_at_least=True, status="ERR", partitions=3)


def test_a_group_of_which_nothing_is_known_says_why() -> None:
    assert lag_of(group_lag(code=ErrorCode.GROUP_ID_NOT_FOUND)).status == "NOTFOUND"
    assert lag_of(group_lag(code=ErrorCode.COORDINATOR_NOT_AVAILABLE)).problem == "moving"
    assert lag_of(group_lag(seen(0, -1, -1))) == Lag(status="ERR", partitions=1)


def test_a_member_without_a_commit_has_a_row_and_only_a_page_of_rows_is_made() -> None:
    places = [TopicPartition("orders", number) for number in range(5_000)]
    committed = dict.fromkeys(places[1:], OffsetAndMetadata(3))
    member = GroupMember(member_id="m-1", group_instance_id=None, client_id="c", host="/h", assignment=(places[0],))
    page = page_of(committed, {places[0]: member}, Wanted())
    assert (len(page.rows), page.pages, page.total) == (200, 25, 5_000)
    assert page.rows[0] == LagRow(
        topic="orders", partition=0, committed=None, end=None, lag=None, owner="m-1", client="c /h"
    )
    assert page.rows[1].committed == 3
    assert page_of(committed, {}, Wanted(search="users")).rows == []


def test_a_row_has_what_its_coordinator_saw_and_nothing_waits_where_the_lag_is_zero_now() -> None:
    rows = [
        LagRow(topic="orders", partition=each, committed=5, end=9, lag=lag) for each, lag in ((0, 4), (1, 0), (2, 1))
    ]
    first, second, third = told(rows, group_lag(seen(0, 4, 70, state="STOP"), seen(1, 4, 70, is_at_least=True)))
    assert (first.behind_ms, first.status, first.committed_ms) == (70, "STOP", 1_000)
    assert (second.behind_ms, second.is_at_least) == (0, False)
    assert (third.behind_ms, third.status) == (None, "")


def test_an_assignment_is_told_in_ranges() -> None:
    places = [TopicPartition("a", each) for each in (0, 1, 2, 5)] + [TopicPartition("b", 7)]
    assert ranges(places) == "a: 0-2, 5; b: 7"
    assert ranges([]) == ""
    scattered = [TopicPartition("c", each) for each in range(0, 200, 2)]
    assert ranges([*places, *scattered]) == "a: 0-2, 5; b: 7; and more"


def test_groups_are_ordered_by_lag_and_those_whose_lag_is_not_known_come_first() -> None:
    lags = {"slow": Lag(records=70), "quick": Lag(records=0), "also-slow": Lag(records=70), "hidden": Lag(problem="no")}
    rows = [GroupRow(group=name, state="", type="", protocol="") for name in (*lags, "share")]
    found = [each.group for each in sorted(rows, key=partial(lag_order, lags))]
    assert found == ["hidden", "share", "quick", "also-slow", "slow"]


def test_a_group_of_a_type_that_is_only_listed_names_the_command_for_it() -> None:
    said = listed_only("my group", "Share")
    assert "kafka-share-groups.sh --bootstrap-server HOST:PORT --describe --group 'my group'" in said
    assert "Apache Kafka's own commands" in listed_only("new", "Queue")
