"""Log lines about groups: what they say, and that many members or groups do not make many of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from kraft.coordinator.group_events import (
    DeletedByClient,
    GroupEvent,
    MemberAway,
    MemberGone,
    MemberJoined,
    MemberReplaced,
    OffsetsExpired,
    RebalanceCompleted,
    RebalanceStarted,
)
from kraft.coordinator.shard_batches import Happening
from kraft.model.groups import MANY_REBALANCES
from kraft.server.coordinator import group_log
from kraft.server.coordinator.group_log import LINES_MAX, PERIOD_MS, SAME_LINES_MAX, TEXT_MAX, GroupLog
from kraft.server.coordinator.rebalance_counts import RebalanceCounts
from kraft.server.loop.backlog import Backlog

GROUP = "billing"

Lines = list[MutableMapping[str, Any]]


@pytest.fixture
def lines() -> Iterator[Lines]:
    with capture_logs() as captured:
        yield captured


class Reporter:
    """A log, and the clocks that it depends on."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.leader_epoch = 1
        self.log = self.new_log()

    def new_log(self, slice_s: float | None = None) -> GroupLog:
        backlog = Backlog() if slice_s is None else Backlog(slice_s=slice_s)
        return GroupLog(backlog, lambda: self.now_ms, RebalanceCounts(lambda: self.now_ms))

    async def report(self, *events: GroupEvent) -> None:
        self.log.report(self.leader_epoch, [Happening(event, self.now_ms, True) for event in events])
        for _ in range(len(events) + 1):
            await asyncio.sleep(0)


def joined(member_id: str = "m", group_id: str = GROUP, instance_id: str | None = None) -> MemberJoined:
    return MemberJoined(
        group_id=group_id, member_id=member_id, instance_id=instance_id, client_id="app", client_host="/10.0.0.1"
    )


def gone(member_id: str = "m", *, has_left: bool = False) -> MemberGone:
    why = "no heartbeat within its session timeout"
    return MemberGone(group_id=GROUP, member_id=member_id, instance_id=None, reason=why, has_left=has_left)


def started(group_id: str = GROUP, *, is_classic: bool = False, is_restart: bool = False) -> RebalanceStarted:
    return RebalanceStarted(
        group_id=group_id, epoch=4, is_classic=is_classic, reason="member m joined", members=3, is_restart=is_restart
    )


def completed(group_id: str = GROUP, *, is_classic: bool = False, partitions: int | None = 12) -> RebalanceCompleted:
    return RebalanceCompleted(group_id=group_id, epoch=5, is_classic=is_classic, members=3, partitions=partitions)


def said(lines: Lines) -> list[dict[str, Any]]:
    return [dict(line) for line in lines]


async def test_a_rebalance_is_a_line_at_its_start_and_one_at_its_end(lines: Lines) -> None:
    reporter = Reporter()
    await reporter.report(joined(instance_id="one"), started())
    reporter.now_ms += 3_012
    await reporter.report(completed())
    told = {"group": GROUP, "log_level": "info"}
    assert said(lines) == [
        {
            "event": "group member joined",
            **told,
            "member": "m",
            "instance": "one",
            "client": "app",
            "host": "/10.0.0.1",
        },
        {"event": "group rebalance started", **told, "epoch": 4, "members": 3, "reason": "member m joined"},
        {
            "event": "group rebalance completed",
            **told,
            "epoch": 5,
            "members": 3,
            "partitions": 12,
            "took_ms": 3_012,
            "joined": 1,
            "left": 0,
        },
    ]


async def test_offsets_that_expire_and_groups_that_end_with_them_have_a_line(lines: Lines) -> None:
    reporter = Reporter()
    await reporter.report(
        OffsetsExpired(group_id=GROUP, offsets=7, is_removed=False),
        OffsetsExpired(group_id="old", offsets=2, is_removed=True),
        DeletedByClient(group_id="gone"),
    )
    why = "it has no members and no offsets any more"
    assert said(lines) == [
        {"event": "group offsets expired", "log_level": "info", "group": GROUP, "offsets": 7},
        {"event": "group removed", "log_level": "info", "group": "old", "offsets": 2, "reason": why},
        {"event": "group removed", "log_level": "info", "group": "gone", "reason": "a client has deleted it"},
    ]


async def test_of_many_groups_that_expire_no_more_than_a_number_of_lines_is_written(lines: Lines) -> None:
    reporter = Reporter()
    await reporter.report(
        *(OffsetsExpired(group_id=str(each), offsets=1, is_removed=True) for each in range(LINES_MAX + 50))
    )
    assert len(lines) == LINES_MAX + 1
    assert not reporter.log._groups


async def test_a_classic_group_has_generations(lines: Lines) -> None:
    await Reporter().report(started(is_classic=True), completed(is_classic=True, partitions=None))
    start, end = said(lines)
    assert (start["old_generation"], end["generation"]) == (4, 5)
    assert "partitions" not in end


async def test_members_that_leave_are_removed_are_away_or_replaced_have_lines_of_their_own(lines: Lines) -> None:
    await Reporter().report(
        gone("a", has_left=True),
        gone("b"),
        MemberAway(group_id=GROUP, member_id="c", instance_id="one"),
        MemberReplaced(group_id=GROUP, member_id="d", instance_id="one", replaced_id="c"),
    )
    assert [(line["event"], line["member"]) for line in lines] == [
        ("group member left", "a"),
        ("group member removed", "b"),
        ("group member away", "c"),
        ("group member replaced", "d"),
    ]
    assert lines[1]["reason"] == "no heartbeat within its session timeout"
    assert lines[3]["replaced"] == "c"


async def test_the_time_of_a_rebalance_counts_from_its_first_start(lines: Lines) -> None:
    reporter = Reporter()
    await reporter.report(started(is_classic=True))
    reporter.now_ms += 1_000
    await reporter.report(started(is_classic=True, is_restart=True))
    reporter.now_ms += 500
    await reporter.report(completed(is_classic=True))
    assert [line["event"] for line in lines][1] == "group rebalance restarted"
    assert lines[-1]["took_ms"] == 1_500


async def test_a_rebalance_that_another_coordinator_began_has_no_time(lines: Lines) -> None:
    await Reporter().report(completed())
    assert "took_ms" not in lines[0]


async def test_a_rebalance_that_ended_elsewhere_does_not_count_for_the_next(lines: Lines) -> None:
    reporter = Reporter()
    await reporter.report(joined(), started())
    reporter.leader_epoch += 2
    await reporter.report(completed())
    assert "took_ms" not in lines[-1]
    assert lines[-1]["joined"] == 0


async def test_a_clock_that_was_set_back_makes_no_negative_time(lines: Lines) -> None:
    reporter = Reporter()
    await reporter.report(started())
    reporter.now_ms -= 500
    await reporter.report(completed())
    assert lines[-1]["took_ms"] == 0


async def test_of_many_members_the_first_have_lines_and_all_are_counted(lines: Lines) -> None:
    reporter = Reporter()
    count = 10_000
    members = [joined(f"m-{number}") for number in range(count)]
    await reporter.report(members[0], started(), *members[1:], *(gone(each.member_id) for each in members), completed())
    assert Counter(line["event"] for line in lines) == {
        "group member joined": SAME_LINES_MAX,
        "group member removed": SAME_LINES_MAX,
        "group rebalance started": 1,
        "group rebalance completed": 1,
    }
    assert (lines[-1]["joined"], lines[-1]["left"]) == (count, count)
    await reporter.report(joined(), started(), completed())
    assert lines[-3]["event"] == "group member joined", "each rebalance has lines"


async def test_of_many_groups_no_more_than_a_number_of_lines_is_written_in_a_period(lines: Lines) -> None:
    reporter = Reporter()
    for number in range(LINES_MAX):
        group_id = f"group-{number}"
        await reporter.report(started(group_id), completed(group_id))
    assert len(lines) == LINES_MAX + 1
    assert lines[-1] == {"event": "group lines paused", "reason": "600 within 60 s", "log_level": "info"}
    reporter.now_ms += PERIOD_MS
    await reporter.report(started())
    assert (lines[-1]["event"], lines[-1]["lines_not_logged"]) == ("group rebalance started", LINES_MAX)
    await reporter.report(completed())
    assert "lines_not_logged" not in lines[-1]


async def test_lines_are_written_in_several_turns_of_the_loop(lines: Lines) -> None:
    reporter = Reporter()
    reporter.log = reporter.new_log(slice_s=0)
    reporter.log.report(1, [Happening(joined(f"m-{each}", f"group-{each}"), 0, True) for each in range(100)])
    assert lines == []
    await asyncio.sleep(0)
    first = len(lines)
    reporter.log.report(1, [Happening(started(), 0, True)])
    await asyncio.sleep(0)
    assert (first, len(lines)) == (group_log.EVENTS_AT_ONCE, 2 * group_log.EVENTS_AT_ONCE)
    for _ in range(10):
        await asyncio.sleep(0)
    assert lines[-1]["event"] == "group rebalance started", "lines keep their order"


async def test_long_texts_are_cut(lines: Lines) -> None:
    await Reporter().report(joined("m" * 30_000))
    assert lines[0]["member"] == "m" * TEXT_MAX + "..."


async def test_groups_that_are_coordinated_elsewhere_now_are_forgotten(
    lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_log, "GROUPS_MAX", 2)
    reporter = Reporter()
    await reporter.report(started("first"), started("second"), started("third"), completed("first"), completed("third"))
    assert ["took_ms" in line for line in lines[-2:]] == [False, True]


async def test_a_restart_whose_start_another_coordinator_saw_is_a_start(lines: Lines) -> None:
    reporter = Reporter()
    await reporter.report(started(is_classic=True, is_restart=True))
    reporter.now_ms += 500
    await reporter.report(completed(is_classic=True))
    assert [line["event"] for line in lines] == ["group rebalance started", "group rebalance completed"]
    assert lines[-1]["took_ms"] == 500


async def test_an_error_in_a_line_does_not_end_the_lines_after_it(
    lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    reporter, failures = Reporter(), list[dict[str, Any]]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    with monkeypatch.context() as broken:
        broken.setattr(group_log, "_short", lambda fact: 1 // 0)
        await reporter.report(started())
    await reporter.report(completed())
    assert [line["event"] for line in lines] == ["group rebalance completed"]
    assert len(failures) == 1


async def test_a_group_that_rebalances_again_and_again_is_warned_of_once(lines: Lines) -> None:
    reporter = Reporter()
    for _ in range(3 * MANY_REBALANCES):
        await reporter.report(started(), completed())
    (warning,) = [each for each in lines if each["log_level"] == "warning"]
    assert warning["event"] == "group rebalances again and again"
    assert (warning["group"], warning["rebalances"], warning["latest_reason"]) == (
        GROUP,
        MANY_REBALANCES,
        "member m joined",
    )
