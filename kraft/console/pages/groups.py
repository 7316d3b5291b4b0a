"""The list of groups: state, members, and how far the groups of this page of the table are behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from kraft.client import ErrorCode, GroupDescription, KraftError, OffsetAndMetadata, TopicPartition
from kraft.console.asking import CLIENT_MS, Asked, Paged, Panel, Wanted, as_far_as_known, wanted, without_value
from kraft.console.pages.log_ends import End, log_ends
from kraft.health.facts import PROBE_MS
from kraft.model.group_lags import UNKNOWN, GroupLag

if TYPE_CHECKING:
    from kraft.client import Admin

SORTS: Final = ("name", "state", "type", "lag")

OFFSET_TYPES: Final = ("classic", "consumer")
"""Types of groups that commit offsets, and whose members the client describes."""

PARTITIONS_MAX: Final = 20_000
"""Partitions whose ends are asked for, for one page of the table."""

NO_OFFSETS: Final = "NOTFOUND"
"""Burrow's state of a group that has committed nothing."""


class GroupRow(Struct, frozen=True, kw_only=True):
    group: str
    state: str
    type: str
    protocol: str


class Lag(Struct, frozen=True, kw_only=True):
    """How far a group is behind. None: not known."""

    records: int | None = None
    """Of all its partitions whose lag is known."""

    behind_ms: int | None = None
    """Age of the oldest record that waits."""

    is_at_least: bool = False
    """Whether the age may be higher."""

    status: str = ""
    """Burrow's state; empty: not known."""

    partitions: int = 0
    """Of which offsets are committed."""

    problem: str = ""


class Groups(Struct, frozen=True, kw_only=True):
    groups: Panel[Paged[GroupRow]]
    missing: str = ""
    """Brokers that did not answer: the groups that they coordinate are not in the list."""

    members: Panel[dict[str, int]]
    """By group, those of this page of the table; a group that cannot be described is left out."""

    lags: Panel[dict[str, Lag]]
    """Likewise."""

    judged_by: str
    """Who says how far they are behind in time: their coordinators, or the console by its own samples."""

    @property
    def status(self) -> int:
        return self.groups.status


class _Found(Struct, frozen=True, kw_only=True):
    rows: list[GroupRow]
    """Those that the search finds."""

    total: int
    missing: str


async def groups(asked: Asked) -> Groups:
    asked_for = wanted(asked.query, SORTS)
    if asked_for.sort == "lag":
        listed, missing, lags = await _by_lag(asked, asked_for)
        shown = _with_offsets(listed)
        members = await asked.panel(lambda: _members(asked.admin, shown))
    else:
        found = await asked.panel(lambda: _found(asked.admin, asked_for))
        listed, missing = _page(found, partial(_order, asked_for.sort), asked_for)
        shown = _with_offsets(listed)
        members, lags = await asyncio.gather(
            asked.panel(lambda: _members(asked.admin, shown)), asked.panel(lambda: lags_of_groups(asked, shown))
        )
    if lags.value is not None and not knows_lags(asked):
        lags = Panel(value={name: _with_samples(asked, name, each) for name, each in lags.value.items()})
    return Groups(groups=listed, missing=missing, members=members, lags=lags, judged_by=judged_by(asked))


def _with_offsets(listed: Panel[Paged[GroupRow]]) -> list[str]:
    return [each.group for each in (listed.value.rows if listed.value else []) if each.type.lower() in OFFSET_TYPES]


async def _by_lag(asked: Asked, asked_for: Wanted) -> tuple[Panel[Paged[GroupRow]], str, Panel[dict[str, Lag]]]:
    """Return the page of groups by their lag, who did not tell of groups, and the lags of those that it has.

    All groups that the search finds have to be asked about. If that cannot be done, they are in the order of their
    names, and the panel of lags says why.
    """
    found = await asked.panel(lambda: _found(asked.admin, asked_for))
    names = [each.group for each in (found.value.rows if found.value else ()) if each.type.lower() in OFFSET_TYPES]
    lags = await asked.panel(lambda: lags_of_groups(asked, names))
    page, missing = _page(found, partial(lag_order, lags.value or {}), asked_for)
    if lags.value is not None and page.value is not None:
        here = {each.group for each in page.value.rows}
        lags = Panel(value={name: each for name, each in lags.value.items() if name in here})
    return page, missing, lags


def lag_order(lags: Mapping[str, Lag], group: GroupRow) -> tuple[int, str]:
    """Return where a group is among others: those whose lag is not known are before those that have none."""
    lag = lags.get(group.group)
    return -1 if lag is None or lag.records is None else lag.records, group.group


def _with_samples(asked: Asked, name: str, lag: Lag) -> Lag:
    known = asked.state.sampling.known(asked.cluster.name, asked.whom, name)
    if known is None or lag.problem:
        return lag
    behind = known.behind
    return replace(lag, behind_ms=behind.ms, is_at_least=behind.is_at_least, status=known.state.name)


def _found(admin: Admin, asked_for: Wanted) -> _Found:
    groups, missing = as_far_as_known(lambda: admin.list_groups(timeout_ms=PROBE_MS))
    rows = [
        GroupRow(group=each.group_id, state=each.state, type=each.type, protocol=each.protocol_type) for each in groups
    ]
    return _Found(rows=[each for each in rows if asked_for.matches(each.group)], total=len(rows), missing=missing)


def _page(
    found: Panel[_Found], key: Callable[[GroupRow], tuple[str | int, str]], asked_for: Wanted
) -> tuple[Panel[Paged[GroupRow]], str]:
    if found.value is None:
        return without_value(found), ""
    return Panel(value=asked_for.shown(found.value.rows, found.value.total, key)), found.value.missing


def _order(sort: str, group: GroupRow) -> tuple[str, str]:
    return {"state": group.state, "type": group.type}.get(sort, ""), group.group


def _members(admin: Admin, shown: Sequence[str]) -> dict[str, int]:
    described = admin.describe_many_groups(shown, timeout_ms=CLIENT_MS) if shown else {}
    return {name: len(each.members) for name, each in described.items() if isinstance(each, GroupDescription)}


def lags_of_groups(asked: Asked, shown: Sequence[str]) -> dict[str, Lag]:
    """Return how far groups are behind: what their coordinators saw, or by Kafka's protocol what offsets say now."""
    if not shown:
        return {}
    if knows_lags(asked):
        return {each.group_id: lag_of(each) for each in asked.admin.describe_group_lags(shown, timeout_ms=CLIENT_MS)}
    committed = asked.admin.list_offsets_of_many_groups(shown, timeout_ms=CLIENT_MS // 2)
    places = {place for each in committed.values() if not isinstance(each, KraftError) for place in each}
    if len(places) > PARTITIONS_MAX:
        problem = f"these groups read {len(places):,} partitions, too many for one look: search for less"
        return dict.fromkeys(shown, Lag(problem=problem))
    ends = log_ends(asked.admin, places)
    return {name: _by_offsets(outcome, ends) for name, outcome in committed.items()}


def judged_by(asked: Asked) -> str:
    return "coordinator" if knows_lags(asked) else "console"


def knows_lags(asked: Asked) -> bool:
    """Return whether brokers say how far groups are behind in time: Kafka's protocol has no request for it."""
    return asked.cluster.wire_protocol != "kafka"


def lag_of(group: GroupLag) -> Lag:
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return Lag(status=NO_OFFSETS)
    if group.error_code != ErrorCode.NONE:
        return Lag(problem=group.error_message)
    known = [each.lag for each in group.partitions if each.lag != UNKNOWN]
    last = max(group.partitions, key=lambda each: each.behind_ms, default=None)
    return Lag(
        records=sum(known) if known else None,
        behind_ms=None if last is None or last.behind_ms == UNKNOWN else last.behind_ms,
        is_at_least=last is not None and last.is_at_least,
        status=group.state,
        partitions=len(group.partitions),
    )


def _by_offsets(
    committed: Mapping[TopicPartition, OffsetAndMetadata] | KraftError, ends: Mapping[TopicPartition, End]
) -> Lag:
    if isinstance(committed, KraftError):
        return Lag(problem=str(committed))
    if not committed:
        return Lag(status=NO_OFFSETS)
    # A log that was truncated or made anew may end before the offset.
    known = [max(0, end - each.offset) for place, each in committed.items() if isinstance(end := ends[place], int)]
    return Lag(records=sum(known) if known else None, partitions=len(committed))
