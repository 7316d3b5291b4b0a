"""One group: its members with what they read, and how far it is behind in each partition."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from kraft.client import ErrorCode, GroupDescription, GroupMember, Refusal, TopicPartition
from kraft.console.asking import CLIENT_MS, ROWS_MAX, Asked, Paged, Panel, Wanted, as_far_as_known, wanted, with_rows
from kraft.console.pages.groups import OFFSET_TYPES, Lag, judged_by, knows_lags, lag_of
from kraft.console.pages.log_ends import End, log_ends
from kraft.console.sampling import Watched, moment
from kraft.health.group_history import Judged, state_of_group
from kraft.model.group_lags import UNKNOWN, GroupLag

if TYPE_CHECKING:
    from kraft.client import OffsetAndMetadata

RANGES_MAX: Final = 40
"""Ranges of partitions that are shown of a member."""

_KAFKAS_COMMANDS: Final = {"share": "kafka-share-groups.sh", "streams": "kafka-streams-groups.sh"}

Committed = Mapping[TopicPartition, "OffsetAndMetadata"]


class MemberRow(Struct, frozen=True, kw_only=True):
    member: str
    instance: str | None
    """Of a static member."""

    client: str
    host: str
    partitions: int
    assignment: str
    """Such as `orders: 0-3, 7`."""


class GroupFacts(Struct, frozen=True, kw_only=True):
    group: str
    state: str
    type: str
    assignor: str
    coordinator: int
    member_count: int
    members: list[MemberRow]
    """The first ones, if there are many."""


class LagRow(Struct, frozen=True, kw_only=True):
    """How far the group is behind in one partition. None: not known."""

    topic: str
    partition: int
    committed: int | None
    """None: nothing is committed yet."""

    end: int | None
    """Next offset of the log."""

    lag: int | None
    behind_ms: int | None = None
    """Age of the first record that waits."""

    is_at_least: bool = False
    """Whether the age may be higher."""

    status: str = ""
    """Burrow's state; empty: not known."""

    committed_ms: int | None = None
    """When the last commit was made, or seen; since 1970."""

    owner: str = ""
    """The member that reads the partition."""

    client: str = ""
    problem: str = ""


class Group(Struct, frozen=True, kw_only=True):
    group: Panel[GroupFacts]
    lags: Panel[Paged[LagRow]]
    total: Panel[Lag]
    """Of all partitions."""

    judged_by: str
    """Who says how far it is behind in time: `coordinator`, or `console` by its own samples."""

    @property
    def status(self) -> int:
        return self.group.status


async def group(asked: Asked) -> Group:
    name, shown = asked.path["group"], wanted(asked.query, ("partition",))
    described, committed = await asyncio.gather(
        asked.panel(lambda: described_group(asked, name)),
        asked.panel(lambda: asked.admin.list_consumer_group_offsets(name, timeout_ms=CLIENT_MS)),
    )
    if described.value is None:
        missing: Panel[GroupFacts] = Panel(problem=described.problem, code=described.code)
        return Group(group=missing, lags=Panel(), total=Panel(), judged_by=judged_by(asked))
    watched = asked.state.sampling.look(asked, name)
    facts = facts_of(described.value)
    if committed.value is None:
        unknown: Panel[Paged[LagRow]] = Panel(problem=committed.problem, code=committed.code)
        return Group(group=Panel(value=facts), lags=unknown, total=Panel(), judged_by=judged_by(asked))
    readers = {place: each for each in described.value.members for place in each.assignment}
    page = page_of(committed.value, readers, shown)
    places = [TopicPartition(each.topic, each.partition) for each in page.rows]
    ends, seen = await asyncio.gather(
        asked.panel(lambda: log_ends(asked.admin, places)), asked.panel(lambda: _seen(asked, name))
    )
    rows = [_with_end(each, ends) for each in page.rows]
    if seen.value is not None:
        rows, total = told(rows, seen.value), lag_of(seen.value)
        if page.pages == 1 and not page.search:
            # The coordinator's figure is some seconds old.
            total = replace(total, records=_records(rows))
    else:
        rows, total = judged(rows, watched, are_all=page.pages == 1 and not page.search)
    lags = Panel(value=replace(page, rows=rows))
    return Group(group=Panel(value=facts), lags=lags, total=Panel(value=total), judged_by=judged_by(asked))


def described_group(asked: Asked, name: str) -> GroupDescription:
    """Return the group with its members. Raises Refusal, which says of groups of other types what they are."""
    try:
        (found,) = asked.admin.describe_consumer_groups([name], timeout_ms=CLIENT_MS)
    except Refusal as refusal:
        if refusal.error_code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        for each in as_far_as_known(lambda: asked.admin.list_groups(timeout_ms=CLIENT_MS // 2))[0]:
            if each.group_id == name and each.type.lower() not in OFFSET_TYPES:
                raise Refusal(ErrorCode.UNSUPPORTED_VERSION, listed_only(name, each.type)) from None
        raise
    return found


def listed_only(name: str, kind: str) -> str:
    """Return what can be done with a group of Apache Kafka whose offsets no consumer commits."""
    command = _KAFKAS_COMMANDS.get(kind.lower())
    said = f"{name!r} is a {kind} group of Apache Kafka, which the console only lists"
    if command is None:
        return f"{said}: Apache Kafka's own commands show it"
    group = shlex.quote(name)
    return (
        f"{said}: {command} --bootstrap-server HOST:PORT --describe --group {group} shows it, and --delete deletes it"
    )


def _seen(asked: Asked, name: str) -> GroupLag | None:
    if not knows_lags(asked):
        return None
    (found,) = asked.admin.describe_group_lags([name], timeout_ms=CLIENT_MS)
    return found


def facts_of(description: GroupDescription) -> GroupFacts:
    return GroupFacts(
        group=description.group_id,
        state=description.state,
        type=description.type,
        assignor=description.assignor,
        coordinator=description.coordinator.node_id,
        member_count=len(description.members),
        members=[
            MemberRow(
                member=each.member_id,
                instance=each.group_instance_id,
                client=each.client_id,
                host=each.host,
                partitions=len(each.assignment),
                assignment=ranges(each.assignment),
            )
            for each in description.members[:ROWS_MAX]
        ],
    )


def ranges(places: Iterable[TopicPartition]) -> str:
    """Return `orders: 0-3, 7; users: 0` for sorted partitions, with an end if there are very many."""
    parts: list[str] = []
    count = 0
    for topic, of_topic in groupby(places, key=lambda each: each.topic):
        spans: list[list[int]] = []
        for each in of_topic:
            if spans and spans[-1][1] == each.partition - 1:
                spans[-1][1] = each.partition
            else:
                spans.append([each.partition, each.partition])
        count += len(spans)
        if count > RANGES_MAX:
            return "; ".join([*parts, "and more"])
        parts.append(f"{topic}: {', '.join(str(a) if a == b else f'{a}-{b}' for a, b in spans)}")
    return "; ".join(parts)


def page_of(committed: Committed, readers: Mapping[TopicPartition, GroupMember], shown: Wanted) -> Paged[LagRow]:
    """Return the rows of this page, without what their logs say: of what is committed, and of what is read."""
    places = [each for each in sorted({*committed, *readers}) if shown.matches(each.topic)]
    page = shown.shown(places, len({*committed, *readers}))
    rows = []
    for place in page.rows:
        offset, reader = committed.get(place), readers.get(place)
        rows.append(
            LagRow(
                topic=place.topic,
                partition=place.partition,
                committed=None if offset is None else offset.offset,
                end=None,
                lag=None,
                owner="" if reader is None else reader.group_instance_id or reader.member_id,
                client="" if reader is None else f"{reader.client_id} {reader.host}".strip(),
            )
        )
    return with_rows(page, rows)


def _with_end(row: LagRow, ends: Panel[dict[TopicPartition, End]]) -> LagRow:
    if ends.value is None:
        return replace(row, problem=ends.problem)
    end = ends.value[TopicPartition(row.topic, row.partition)]
    if isinstance(end, str):
        return replace(row, problem=end)
    # A log that was truncated or made anew may end before the offset.
    return replace(row, end=end, lag=None if row.committed is None else max(0, end - row.committed))


def told(rows: Sequence[LagRow], seen: GroupLag) -> list[LagRow]:
    """Return the rows with what the coordinator has seen."""
    by_place = {(each.topic, each.partition): each for each in seen.partitions}
    found = []
    for row in rows:
        each = by_place.get((row.topic, row.partition))
        if each is None:
            found.append(row)
            continue
        found.append(
            replace(
                row,
                behind_ms=0 if row.lag == 0 else None if each.behind_ms == UNKNOWN else each.behind_ms,
                is_at_least=each.is_at_least and row.lag != 0,
                status=each.state,
                committed_ms=each.commits[-1].timestamp_ms if each.commits else None,
            )
        )
    return found


def judged(rows: Sequence[LagRow], watched: Watched, *, are_all: bool) -> tuple[list[LagRow], Lag]:
    """Return the rows with what the console's samples say, and the group; with the records that wait, if known."""
    now = moment()
    outcomes: list[Judged] = []
    found = []
    for row in rows:
        place = TopicPartition(row.topic, row.partition)
        each = None if row.committed is None else watched.history.judged(place, row.committed, now)
        if each is None:
            found.append(row)
            continue
        outcomes.append(each)
        found.append(
            replace(
                row,
                behind_ms=0 if row.lag == 0 else each.behind.ms,
                is_at_least=each.behind.is_at_least and row.lag != 0,
                status=each.state.name,
                committed_ms=each.committed_ms,
            )
        )
    worst = max(found, key=lambda each: -1 if each.behind_ms is None else each.behind_ms, default=None)
    return found, Lag(
        records=_records(found) if are_all else None,
        behind_ms=worst.behind_ms if worst is not None and are_all else None,
        is_at_least=worst is not None and worst.is_at_least,
        status=state_of_group(each.state for each in outcomes).name if outcomes and are_all else "",
        partitions=sum(each.committed is not None for each in found),
    )


def _records(rows: Sequence[LagRow]) -> int | None:
    known = [each.lag for each in rows if each.lag is not None]
    return sum(known) if known else None
