"""What is taken from a group for good: its offsets of a topic, static members, and the group itself."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING
from urllib.parse import quote

from msgspec import Struct

from kraft.client import ErrorCode, Refusal
from kraft.console.asking import CHANGE_CLIENT_MS, CLIENT_MS, Asked, Panel
from kraft.console.forms import Changed, Done, WrongInput
from kraft.console.pages.group import described_group
from kraft.console.pages.group_reset import blocked_by, check_all
from kraft.model.printable import counted

if TYPE_CHECKING:
    from kraft.client import GroupDescription


class StaticMember(Struct, frozen=True, kw_only=True):
    instance: str
    client: str
    host: str
    partitions: int


class HeldByGroup(Struct, frozen=True, kw_only=True):
    """What a group holds."""

    topics: dict[str, int]
    """Committed offsets by topic."""

    static_members: list[StaticMember]
    type: str
    members: int
    blocked: str
    """Why neither it nor its offsets can be deleted now, and what to do."""


class GroupChange(Struct, frozen=True, kw_only=True):
    """A page with a form about one group."""

    group: str
    held: Panel[HeldByGroup]

    @property
    def status(self) -> int:
        return self.held.status


async def offsets_page(asked: Asked) -> GroupChange:
    return await _page(asked)


async def members_page(asked: Asked) -> GroupChange:
    return await _page(asked)


async def delete_page(asked: Asked) -> GroupChange:
    return await _page(asked)


async def _page(asked: Asked) -> GroupChange:
    name = asked.path["group"]

    def ask() -> HeldByGroup:
        group = described_group(asked, name)
        committed = asked.admin.list_consumer_group_offsets(name, timeout_ms=CLIENT_MS // 2)
        return held_by(group, Counter(place.topic for place in committed))

    return GroupChange(group=name, held=await asked.panel(ask))


def held_by(group: GroupDescription, topics: Counter[str]) -> HeldByGroup:
    return HeldByGroup(
        topics=dict(sorted(topics.items())),
        static_members=[
            StaticMember(
                instance=each.group_instance_id, client=each.client_id, host=each.host, partitions=len(each.assignment)
            )
            for each in group.members
            if each.group_instance_id is not None
        ],
        type=group.type,
        members=len(group.members),
        blocked=blocked_by(group),
    )


def confirmed(asked: Asked, name: str) -> None:
    """Raise WrongInput unless the name was typed."""
    if asked.form.raw("confirm") != name:
        raise WrongInput(f"Nothing was done: type {name} as it is written to confirm.")


async def delete_group(asked: Asked) -> Done:
    name = asked.path["group"]
    confirmed(asked, name)
    outcomes = await asked.change(lambda: asked.admin.delete_consumer_groups([name], timeout_ms=CHANGE_CLIENT_MS))
    if (refusal := outcomes[name]) is not None:
        raise refusal
    return Done(where=f"/clusters/{asked.cluster.name}/groups", said=f"Group {name} was deleted, with its offsets.")


async def delete_offsets(asked: Asked) -> Done:
    """Delete the committed offsets of one topic."""
    name, topic = asked.path["group"], asked.form.text("topic")
    if not topic:
        raise WrongInput("Choose the topic whose offsets are to be deleted.")
    confirmed(asked, topic)

    def delete() -> int:
        places = [
            each for each in asked.admin.list_consumer_group_offsets(name, timeout_ms=CLIENT_MS) if each.topic == topic
        ]
        if not places:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the group has no committed offset of topic {topic!r}")
        outcomes = asked.admin.delete_consumer_group_offsets(name, places, timeout_ms=CHANGE_CLIENT_MS - CLIENT_MS)
        check_all(outcomes, "deleted")
        return len(places)

    many = counted(await asked.change(delete), "committed offset")
    return Done(where=group_address(asked), said=f"{many} of topic {topic} were deleted from group {name}.")


async def remove_members(asked: Asked) -> Done:
    """Remove static members, by their instance ids."""
    name, instances = asked.path["group"], asked.form.all("instance")
    if not instances:
        raise WrongInput("Choose the static members to remove.")

    def remove() -> None:
        outcomes = asked.admin.remove_members_from_consumer_group(
            name, instances, reason="removed in the console", timeout_ms=CHANGE_CLIENT_MS
        )
        for instance, refusal in outcomes.items():
            if refusal is not None and refusal.error_code is ErrorCode.UNKNOWN_MEMBER_ID:
                raise Changed(f"The group has no static member {instance} any more: look at its members again.")
            if refusal is not None:
                raise Refusal(refusal.error_code, f"member {instance!r} was not removed: {refusal.message}")

    await asked.change(remove)
    return Done(where=group_address(asked), said=f"{counted(len(instances), 'member')} removed from group {name}.")


def group_address(asked: Asked) -> str:
    return f"/clusters/{asked.cluster.name}/groups/{quote(asked.path['group'], safe='')}"
