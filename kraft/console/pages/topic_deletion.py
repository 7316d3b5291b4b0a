"""The deletion of a topic: what hangs on it first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from kraft.client import KraftError, ListedGroup, TopicPartition
from kraft.console.asking import CHANGE_CLIENT_MS, CLIENT_MS, Asked, Panel, as_far_as_known
from kraft.console.forms import Changed, Done, WrongInput
from kraft.console.pages.topic_figures import offsets_of, sizes_of
from kraft.console.pages.topics import PLACES_MAX
from kraft.health.facts import PROBE_MS
from kraft.metadata.acl_filters import AclFilter
from kraft.metadata.topic_names import INTERNAL_TOPICS, OFFSETS_TOPIC
from kraft.model.access import Operation, PatternType, PermissionType, ResourceType
from kraft.model.ids import uuid_to_text

if TYPE_CHECKING:
    from kraft.client import Admin
    from kraft.metadata.acls import AclEntry
    from kraft.metadata.described_topics import TopicDescription

GROUPS_MAX: Final = 1_000
"""Groups that are asked for what they have to do with the topic."""

GROUPS_S: Final = 2.3
"""How long they are asked: what has been found by then is shown."""

GROUPS_AT_ONCE: Final = 500
"""Groups asked together, in several requests: coordinators answer one while the console reads another."""

_LEAST_MS: Final = 100

_WITHOUT_MEMBERS: Final = frozenset({"Empty", "Dead"})


class Doomed(Struct, frozen=True, kw_only=True):
    topic: str
    topic_id: str
    partitions: int
    replication_factor: int
    internal: bool
    lost: str
    """What else is lost with an internal topic; empty for others."""

    records: int | None
    """None: not known."""

    records_problem: str
    size_bytes: int | None
    silent: list[int] = []
    """Brokers that did not answer for the sizes of their replicas, which are not counted."""


class GroupOfTopic(Struct, frozen=True, kw_only=True):
    group: str
    state: str
    committed: int
    """Partitions of the topic with a committed offset."""

    members: int
    """Members that read the topic now."""


class GroupsOfTopic(Struct, frozen=True, kw_only=True):
    groups: list[GroupOfTopic]
    asked: int
    total: int
    unanswered: int
    """Groups of those asked that could not be asked, as this user may not see them or their coordinator is away."""

    missing: str = ""
    """Brokers that did not answer: the groups that they coordinate are not known."""


class AclOfTopic(Struct, frozen=True, kw_only=True):
    principal: str
    operation: str
    permission: str
    pattern: str
    is_own: bool
    """Whether it names just this topic, and stays for the next one of the name."""


class TopicDeletion(Struct, frozen=True, kw_only=True):
    topic: Panel[Doomed]
    groups: Panel[GroupsOfTopic]
    acls: Panel[list[AclOfTopic]]

    @property
    def status(self) -> int:
        return self.topic.status


async def deletion(asked: Asked) -> TopicDeletion:
    name = asked.path["topic"]
    topic, groups, acls = await asyncio.gather(
        asked.panel(lambda: _doomed(asked.admin, name)),
        asked.panel(lambda: groups_of(asked.admin, name)),
        asked.panel(lambda: acls_of(asked.admin, name)),
    )
    return TopicDeletion(topic=topic, groups=groups, acls=acls)


def _doomed(admin: Admin, name: str) -> Doomed:
    description = admin.describe_topics([name], timeout_ms=CLIENT_MS // 3)[0]
    metadata = description.metadata
    places = [TopicPartition(name, each.partition_index) for each in metadata.partitions][:PLACES_MAX]
    records, problem = None, ""
    try:
        offsets = offsets_of(admin, places)
        known = [each for each in offsets.values() if each.start is not None and each.end is not None]
        records = sum((each.end or 0) - (each.start or 0) for each in known)
        if len(known) < len(metadata.partitions):
            problem = f"of {len(known):,} partitions of {len(metadata.partitions):,}"
    except KraftError as error:
        problem = str(error)
    try:
        sizes = sizes_of(admin.describe_log_directories(partitions=places, timeout_ms=CLIENT_MS // 3))
        size, silent = sizes.by_topic.get(name, 0), sizes.silent
    except KraftError:
        size, silent = None, []
    is_internal = metadata.is_internal or name in INTERNAL_TOPICS
    lost = "all groups with their committed offsets" if name == OFFSETS_TOPIC else "what brokers keep in it"
    return Doomed(
        topic=name,
        topic_id=_id(description),
        partitions=len(metadata.partitions),
        replication_factor=max((len(each.replica_nodes) for each in metadata.partitions), default=0),
        internal=is_internal,
        lost=lost if is_internal else "",
        records=records,
        records_problem=problem,
        size_bytes=size,
        silent=silent,
    )


def _id(description: TopicDescription) -> str:
    topic_id = description.metadata.topic_id
    return "" if topic_id.int == 0 else uuid_to_text(topic_id)


# --- what hangs on it ------------------------------------------------------------------------------------------------


def groups_of(admin: Admin, topic: str) -> GroupsOfTopic:
    """Return the groups that have committed offsets of the topic, or members that read it, as far as time allows."""
    until_s = time.monotonic() + GROUPS_S
    listed, missing = as_far_as_known(lambda: admin.list_groups(timeout_ms=PROBE_MS))
    # Those with members first: they are who would notice.
    listed.sort(key=lambda each: each.state in _WITHOUT_MEMBERS)
    found: list[GroupOfTopic] = []
    asked = unanswered = 0
    for begin in range(0, min(len(listed), GROUPS_MAX), GROUPS_AT_ONCE):
        some = listed[begin : min(begin + GROUPS_AT_ONCE, GROUPS_MAX)]
        left_ms = round((until_s - time.monotonic()) * 1_000)
        if left_ms < _LEAST_MS:
            break
        try:
            rows = _rows(admin, some, topic, left_ms)
        except KraftError:
            rows = []
        asked += len(some)
        unanswered += len(some) - len(rows)
        found += (each for each in rows if each.committed or each.members)
    return GroupsOfTopic(
        groups=sorted(found, key=lambda each: each.group),
        asked=asked,
        total=len(listed),
        unanswered=unanswered,
        missing=missing,
    )


def _rows(admin: Admin, groups: Sequence[ListedGroup], topic: str, left_ms: int) -> list[GroupOfTopic]:
    """Return what each group has to do with the topic; those that do not answer are left out."""
    committed = admin.list_offsets_of_many_groups([each.group_id for each in groups], timeout_ms=left_ms // 2)
    with_members = [each.group_id for each in groups if each.state not in _WITHOUT_MEMBERS]
    described = admin.describe_many_groups(with_members, timeout_ms=left_ms // 2) if with_members else {}
    rows = []
    for group in groups:
        offsets, description = committed[group.group_id], described.get(group.group_id)
        if isinstance(offsets, KraftError) or isinstance(description, KraftError):
            continue
        members = () if description is None else description.members
        rows.append(
            GroupOfTopic(
                group=group.group_id,
                state=group.state,
                committed=sum(place.topic == topic for place in offsets),
                members=sum(any(place.topic == topic for place in each.assignment) for each in members),
            )
        )
    return rows


def acls_of(admin: Admin, topic: str) -> list[AclOfTopic]:
    wanted = AclFilter(resource_type=ResourceType.TOPIC, resource_name=topic, pattern_type=PatternType.MATCH)
    return acl_rows(admin.describe_acls(wanted, timeout_ms=CLIENT_MS), topic)


def acl_rows(entries: Sequence[AclEntry], topic: str) -> list[AclOfTopic]:
    rows = [
        AclOfTopic(
            principal=each.principal,
            operation=Operation(each.operation).name,
            permission=PermissionType(each.permission).name,
            pattern=f"{PatternType(each.pattern_type).name.lower()} {each.resource_name}",
            is_own=each.pattern_type == PatternType.LITERAL and each.resource_name == topic,
        )
        for each in entries
    ]
    return sorted(rows, key=lambda each: (not each.is_own, each.principal, each.pattern, each.operation))


# --- the deletion itself ---------------------------------------------------------------------------------------------


async def delete_topic(asked: Asked) -> Done:
    name, form = asked.path["topic"], asked.form
    if form.text("confirm") != name:
        raise WrongInput(f"nothing was deleted: type the topic's name, {name}, to confirm")
    if name in INTERNAL_TOPICS and not form.flag("force"):
        raise WrongInput(f"topic {name} is internal: tick the box that says what is lost with it")

    def delete() -> None:
        seen = form.text("seen")
        if seen and _id(asked.admin.describe_topics([name], timeout_ms=CHANGE_CLIENT_MS // 2)[0]) != seen:
            raise Changed(
                f"topic {name} was deleted and created anew since you saw it: nothing was done; look at the new one"
            )
        asked.admin.delete_topics([name], timeout_ms=CHANGE_CLIENT_MS // 2)

    await asked.change(delete)
    return Done(
        where=f"/clusters/{asked.cluster.name}/topics",
        said=f"Topic {name} is marked for deletion. Clients no longer see it; brokers delete its files.",
        value={"topic": name, "deleted": True},
    )
