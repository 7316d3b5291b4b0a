"""The list of groups, and one group with its members and how far it is behind."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from kraft.client import GroupDescription, KraftError, TopicPartition
from kraft.console.asking import CLIENT_MS, Asked, Paged, Panel, Wanted, wanted
from kraft.model.list_offsets import LATEST_TIMESTAMP

if TYPE_CHECKING:
    from kraft.client import Admin, OffsetAndMetadata, OffsetAndTimestamp

SORTS: Final = ("name", "state")


class GroupRow(Struct, frozen=True, kw_only=True):
    group: str
    state: str
    type: str
    protocol: str


class Groups(Struct, frozen=True, kw_only=True):
    groups: Panel[Paged[GroupRow]]

    @property
    def status(self) -> int:
        return self.groups.status


class MemberRow(Struct, frozen=True, kw_only=True):
    member: str
    instance: str | None
    client: str
    host: str
    partitions: list[str]


class GroupFacts(Struct, frozen=True, kw_only=True):
    group: str
    state: str
    type: str
    assignor: str
    coordinator: int
    members: list[MemberRow]


class LagRow(Struct, frozen=True, kw_only=True):
    """How far the group is behind in one partition, in records; None: not known."""

    topic: str
    partition: int
    committed: int
    end: int | None
    lag: int | None
    problem: str = ""


class Lags(Struct, frozen=True, kw_only=True):
    total: int
    """Of the partitions whose lag is known."""

    partitions: Paged[LagRow]


class Group(Struct, frozen=True, kw_only=True):
    group: Panel[GroupFacts]
    lags: Panel[Lags]

    @property
    def status(self) -> int:
        return self.group.status


async def groups(asked: Asked) -> Groups:
    return Groups(groups=await asked.panel(lambda: _listed(asked.admin, wanted(asked.query, SORTS))))


def _listed(admin: Admin, asked_for: Wanted) -> Paged[GroupRow]:
    rows = [
        GroupRow(group=each.group_id, state=each.state, type=each.type, protocol=each.protocol_type)
        for each in admin.list_groups(timeout_ms=CLIENT_MS)
    ]
    found = [each for each in rows if asked_for.matches(each.group)]
    by_state = asked_for.sort == "state"
    return asked_for.shown(found, len(rows), lambda each: (each.state if by_state else "", each.group))


async def group(asked: Asked) -> Group:
    name, shown = asked.path["group"], wanted(asked.query, ("partition",))
    described, lags = await asyncio.gather(
        asked.panel(lambda: facts_of(asked.admin.describe_consumer_groups([name], timeout_ms=CLIENT_MS)[0])),
        asked.panel(lambda: _lags(asked.admin, name, shown)),
    )
    return Group(group=described, lags=lags)


def facts_of(description: GroupDescription) -> GroupFacts:
    return GroupFacts(
        group=description.group_id,
        state=description.state,
        type=description.type,
        assignor=description.assignor,
        coordinator=description.coordinator.node_id,
        members=[
            MemberRow(
                member=each.member_id,
                instance=each.group_instance_id,
                client=each.client_id,
                host=each.host,
                partitions=list(map(str, each.assignment)),
            )
            for each in description.members
        ],
    )


def _lags(admin: Admin, group: str, shown: Wanted) -> Lags:
    committed = admin.list_consumer_group_offsets(group, timeout_ms=CLIENT_MS // 2)
    ends: Mapping[TopicPartition, OffsetAndTimestamp | KraftError] = {}
    if committed:
        ends = admin.list_offsets(dict.fromkeys(committed, LATEST_TIMESTAMP), timeout_ms=CLIENT_MS // 2)
    return lags_of(committed, ends, shown)


def lags_of(
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    ends: Mapping[TopicPartition, OffsetAndTimestamp | KraftError],
    shown: Wanted,
) -> Lags:
    rows = []
    for place, offset in sorted(committed.items()):
        end = ends[place]
        is_known = not isinstance(end, KraftError)
        rows.append(
            LagRow(
                topic=place.topic,
                partition=place.partition,
                committed=offset.offset,
                end=end.offset if not isinstance(end, KraftError) else None,
                # A log that was truncated or made anew may end before the offset.
                lag=max(0, end.offset - offset.offset) if not isinstance(end, KraftError) else None,
                problem="" if is_known else str(end),
            )
        )
    return Lags(total=sum(each.lag or 0 for each in rows), partitions=shown.shown(rows, len(rows)))
