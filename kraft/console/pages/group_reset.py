"""Resets the committed offsets of a group: a preview with what would be read again or skipped, and then the change."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec
from msgspec import Struct

from kraft.client import ErrorCode, GroupDescription, KraftError, Refusal, TopicPartition
from kraft.client.model.group_offsets import OFFSET_MAX
from kraft.client.model.offset_reset import (
    NewOffset,
    OffsetsBeforeReset,
    ResetFailed,
    ShiftBy,
    Target,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToTime,
    plan,
)
from kraft.console.asking import CHANGE_CLIENT_MS, CLIENT_MS, Asked, Panel
from kraft.console.forms import Changed, Done, Form, WrongInput
from kraft.console.pages.group import described_group
from kraft.console.pages.log_ends import log_ends
from kraft.model.list_offsets import EARLIEST_TIMESTAMP
from kraft.model.moments import parse_datetime, parse_duration
from kraft.model.printable import counted

if TYPE_CHECKING:
    from kraft.client import Admin

PARTITIONS_MAX: Final = 1_000
"""Partitions of one reset."""

TARGETS: Final = {
    "earliest": "the first record that is kept",
    "latest": "the end of the log",
    "offset": "an offset",
    "time": "a time, in UTC",
    "duration": "so long ago",
    "shift": "so many records on, or back with a minus",
}
"""Choices of the form, in words."""

NEEDED: Final = {
    "offset": "such as 1200",
    "time": "such as 2026-11-27T08:00, in UTC",
    "duration": "such as 90m, 2h, 3d or PT1H30M",
    "shift": "such as 100, or -100 to read a hundred records again",
}
"""What to give with a choice."""

FORM_BYTES_MAX: Final = 512 * 1024
"""Bytes of the form with its plan."""

WITHOUT_MEMBERS: Final = ("Empty", "Dead")

_JOINED: Final = "The group has members by now: stop its consumers first."

_SHORT: Final = re.compile(r"(\d{1,9})\s*([smhd])", re.ASCII | re.IGNORECASE)
_SPANS: Final = re.compile(r"\d{1,6}(?:\s*-\s*\d{1,6})?(?:\s*,\s*\d{1,6}(?:\s*-\s*\d{1,6})?)*", re.ASCII)


class ResetRow(Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    now: int | None
    """Committed offset; None: none is committed."""

    then: int
    again: int
    """Records that would be read again."""

    skipped: int
    """Records that would not be read."""

    note: str


class ResetPreview(Struct, frozen=True, kw_only=True):
    rows: list[ResetRow]
    again: int
    skipped: int
    plan: str
    """The rows, as the form carries them."""


class Reset(Struct, frozen=True, kw_only=True):
    group: str
    topics: Panel[list[str]]
    """Topics of which offsets are committed."""

    blocked: str
    """Why offsets cannot be reset now, and what to do."""

    preview: Panel[ResetPreview] | None
    """None: nothing was asked for yet."""

    @property
    def targets(self) -> Mapping[str, str]:
        return TARGETS

    @property
    def status(self) -> int:
        if self.preview is not None and self.preview.code == "INVALID_REQUEST":
            return 400
        return self.topics.status


Planned = dict[TopicPartition, tuple[int | None, int]]
"""Committed offset and new offset of each partition."""


async def reset_page(asked: Asked) -> Reset:
    name = asked.path["group"]
    topics, described = await asyncio.gather(
        asked.panel(lambda: _topics(asked.admin, name)), asked.panel(lambda: described_or_none(asked, name))
    )
    blocked = "" if described.value is None else blocked_by(described.value)
    if described.problem:
        topics = Panel(problem=described.problem, code=described.code)
    preview = None
    if asked.form.text("target") and not topics.problem and not blocked:
        preview = await _panel(asked, name)
    return Reset(group=name, topics=topics, blocked=blocked, preview=preview)


async def _panel(asked: Asked, name: str) -> Panel[ResetPreview]:
    try:
        target = target_of(asked.form, time.time_ns() // 1_000_000)
        numbers = numbers_of(asked.form.text("partitions"))
    except WrongInput as error:
        return Panel(problem=str(error), code="INVALID_REQUEST")

    def find() -> ResetPreview | WrongInput:
        try:
            return preview_of(planned(asked.admin, name, target, asked.form.text("topic"), numbers, CLIENT_MS // 2))
        except WrongInput as error:
            return error

    found = await asked.panel(find)
    if isinstance(found.value, WrongInput):
        return Panel(problem=str(found.value), code="INVALID_REQUEST")
    return Panel(value=found.value, problem=found.problem, code=found.code)


def _topics(admin: Admin, name: str) -> list[str]:
    return sorted({each.topic for each in admin.list_consumer_group_offsets(name, timeout_ms=CLIENT_MS)})


def described_or_none(asked: Asked, name: str) -> GroupDescription | None:
    """Return the group; None if there is none yet. Raises Refusal."""
    try:
        return described_group(asked, name)
    except Refusal as refusal:
        if refusal.error_code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return None


def blocked_by(group: GroupDescription) -> str:
    """Return why the group's offsets cannot be changed, and what to do; empty if they can."""
    if group.state in WITHOUT_MEMBERS:
        return ""
    return (
        f"The group has {counted(len(group.members), 'member')} (state {group.state}), and they commit their own "
        "offsets: stop its consumers first. One that died stays until its session ends."
    )


# --- what was asked for --------------------------------------------------------------------------------------------


def target_of(form: Form, now_ms: int) -> Target:
    """Return the target that the form names. Raises WrongInput."""
    target, value = form.text("target"), form.text("value")
    if target in NEEDED and not value:
        raise WrongInput(f"give {TARGETS[target]}: {NEEDED[target]}")
    try:
        match target:
            case "earliest":
                return ToEarliest()
            case "latest":
                return ToLatest()
            case "offset":
                return ToOffset(form.number("value", 0, OFFSET_MAX))
            case "shift":
                return ShiftBy(form.number("value", -OFFSET_MAX, OFFSET_MAX))
            case "time":
                return ToTime(parse_datetime(value))
            case "duration":
                return ToTime(max(0, now_ms - _duration_ms(value)))
            case _:
                raise WrongInput(f"target={target[:40]!r}: choose one of {', '.join(TARGETS)}")
    except ValueError as error:
        raise WrongInput(str(error)) from None


def _duration_ms(text: str) -> int:
    short = _SHORT.fullmatch(text)
    if short is None:
        return parse_duration(text)
    unit = short[2].upper()
    return parse_duration(f"P{short[1]}D" if unit == "D" else f"PT{short[1]}{unit}")


def numbers_of(text: str) -> frozenset[int] | None:
    """Return the partitions that `0-3, 7` names; None: all. Raises WrongInput."""
    if not text:
        return None
    if not _SPANS.fullmatch(text):
        raise WrongInput(f"partitions={text[:40]!r}: give numbers and ranges, such as 0-3, 7; nothing for all")
    found: set[int] = set()
    for span in text.split(","):
        first, _, last = span.partition("-")
        low, high = int(first), int(last or first)
        if high < low or high - low >= PARTITIONS_MAX:
            raise WrongInput(f"partitions={span.strip()!r}: give a range of at most {PARTITIONS_MAX:,}, upwards")
        found.update(range(low, high + 1))
    return frozenset(found)


def planned(
    admin: Admin, group: str, target: Target, topic: str, numbers: frozenset[int] | None, timeout_ms: int
) -> list[NewOffset]:
    """Return the new offset of each partition. Raises KraftError."""
    committed = {
        place: each.offset for place, each in admin.list_consumer_group_offsets(group, timeout_ms=timeout_ms).items()
    }
    places = _chosen(admin, committed, topic, numbers, timeout_ms)
    if isinstance(target, ShiftBy) and (new := [each for each in places if each not in committed]):
        raise WrongInput(f"{new[0]}: no offset is committed that could be shifted; choose another target")
    ends = log_ends(admin, places)
    for place in places:
        if isinstance(ends[place], str):
            raise WrongInput(f"{place}: {ends[place]}; choose other partitions, or try again later")
    starts = _offsets(admin, places, EARLIEST_TIMESTAMP, timeout_ms)
    at_time = _offsets(admin, places, target.timestamp_ms, timeout_ms) if isinstance(target, ToTime) else {}
    before = []
    for place in places:
        end, found = ends[place], at_time.get(place, -1)
        assert isinstance(end, int), "checked above"
        before.append(
            OffsetsBeforeReset(
                partition=place,
                committed=committed.get(place),
                log_start=starts[place],
                log_end=end,
                at_time=found if found >= 0 else None,
            )
        )
    try:
        return plan(target, before)
    except ResetFailed as error:
        raise WrongInput(str(error)) from None


def _chosen(
    admin: Admin,
    committed: Mapping[TopicPartition, int],
    topic: str,
    numbers: frozenset[int] | None,
    timeout_ms: int,
) -> list[TopicPartition]:
    """Return the partitions: of the topic, or all of which offsets are committed. Raises WrongInput."""
    if topic:
        found = admin.find_topics([topic], timeout_ms=timeout_ms).get(topic)
        if found is None:
            raise WrongInput(f"there is no topic {topic!r} that you may see: check its name")
        places = {TopicPartition(topic, each.partition_index) for each in found.partitions}
    elif numbers is not None:
        raise WrongInput("name the topic of the partitions, too")
    else:
        places = set(committed)
    if numbers is not None and (missing := numbers - {each.partition for each in places}):
        raise WrongInput(f"topic {topic!r} has no partition {min(missing)}")
    chosen = sorted(each for each in places if numbers is None or each.partition in numbers)
    if not chosen:
        raise WrongInput("the group has no committed offset: name a topic")
    if len(chosen) > PARTITIONS_MAX:
        raise WrongInput(
            f"these are {len(chosen):,} partitions: choose a topic, or partitions of it, so that there are at most "
            f"{PARTITIONS_MAX:,}; kraft groups reset-offsets has no such limit"
        )
    return chosen


def _offsets(
    admin: Admin, places: Sequence[TopicPartition], timestamp_ms: int, timeout_ms: int
) -> dict[TopicPartition, int]:
    """Return the offset at the time in each partition; -1 if all records are older. Raises the first error."""
    found = {}
    for place, outcome in admin.list_offsets(dict.fromkeys(places, timestamp_ms), timeout_ms=timeout_ms).items():
        if isinstance(outcome, KraftError):
            raise outcome
        found[place] = outcome.offset
    return found


def preview_of(new: Sequence[NewOffset]) -> ResetPreview:
    rows = []
    for each in new:
        moved = 0 if each.committed is None else each.offset - each.committed
        rows.append(
            ResetRow(
                topic=each.partition.topic,
                partition=each.partition.partition,
                now=each.committed,
                then=each.offset,
                again=max(0, -moved),
                skipped=max(0, moved),
                note=f"{each.note} {each.offset}" if each.note else "",
            )
        )
    return ResetPreview(
        rows=rows,
        again=sum(each.again for each in rows),
        skipped=sum(each.skipped for each in rows),
        plan=plan_text({each.partition: (each.committed, each.offset) for each in new}),
    )


# --- the change ----------------------------------------------------------------------------------------------------


def plan_text(offsets: Planned) -> str:
    by_topic: dict[str, list[tuple[int, int | None, int]]] = {}
    for place, (now, then) in offsets.items():
        by_topic.setdefault(place.topic, []).append((place.partition, now, then))
    return msgspec.json.encode(by_topic).decode()


def plan_in(text: str) -> Planned:
    """Return what the form carries of the preview. Raises WrongInput."""
    try:
        found = msgspec.json.decode(text, type=dict[str, list[tuple[int, int | None, int]]])
    except (msgspec.DecodeError, RecursionError):
        raise WrongInput("the plan cannot be read: look at the preview again") from None
    offsets = {TopicPartition(topic, each[0]): (each[1], each[2]) for topic, rows in found.items() for each in rows}
    if not 0 < len(offsets) <= PARTITIONS_MAX or not all(0 <= then <= OFFSET_MAX for _, then in offsets.values()):
        raise WrongInput(f"the plan has to name offsets of 1 to {PARTITIONS_MAX:,} partitions")
    return offsets


async def reset_offsets(asked: Asked) -> Done:
    """Write what the preview showed; without a plan, as scripts ask, what the fields say now. Raises KraftError."""
    name, form = asked.path["group"], asked.form

    def write() -> Planned:
        if form.text("plan"):
            offsets = plan_in(form.text("plan"))
        else:
            target, numbers = target_of(form, time.time_ns() // 1_000_000), numbers_of(form.text("partitions"))
            new = planned(asked.admin, name, target, form.text("topic"), numbers, CLIENT_MS)
            offsets = {each.partition: (each.committed, each.offset) for each in new}
        write_offsets(asked, name, offsets)
        return offsets

    offsets = await asked.change(write)
    return Done(
        where=f"/clusters/{asked.cluster.name}/groups/{quote(name, safe='')}",
        said=f"{counted(len(offsets), 'offset')} of group {name} {'was' if len(offsets) == 1 else 'were'} reset.",
        value=[
            {"topic": place.topic, "partition": place.partition, "before": now, "offset": then}
            for place, (now, then) in offsets.items()
        ],
    )


def write_offsets(asked: Asked, group: str, offsets: Planned) -> None:
    """Commit the offsets, if the group stands where it was seen. Raises KraftError."""
    admin = asked.admin
    described = described_or_none(asked, group)
    if described is not None and (blocked := blocked_by(described)):
        raise Refusal(ErrorCode.NON_EMPTY_GROUP, blocked)
    committed = admin.list_consumer_group_offsets(group, offsets, timeout_ms=CLIENT_MS)
    for place, (seen, _) in offsets.items():
        now = None if place not in committed else committed[place].offset
        if now != seen:
            raise Changed(
                f"The group has moved since: {place} stands at {'no offset' if now is None else now}, and stood at "
                f"{'no offset' if seen is None else seen} in the preview. Look at the preview again."
            )
    new = {place: then for place, (_, then) in offsets.items()}
    try:
        outcomes = admin.alter_consumer_group_offsets(group, new, timeout_ms=CHANGE_CLIENT_MS - 2 * CLIENT_MS)
    except Refusal as refusal:
        if refusal.error_code is ErrorCode.UNKNOWN_MEMBER_ID:
            raise Refusal(
                ErrorCode.NON_EMPTY_GROUP, "The group has members by now: stop its consumers first."
            ) from None
        raise
    check_all(outcomes, "reset")


def check_all(outcomes: Mapping[TopicPartition, Refusal | None], what: str) -> None:
    """Raise the first Refusal, which says how many there are."""
    failed = [each for each in outcomes.values() if each is not None]
    if failed:
        many = f"{len(failed):,} of {counted(len(outcomes), 'offset')} could not be {what}, the others were"
        raise Refusal(failed[0].error_code, f"{many}; the first: {failed[0].message}")
