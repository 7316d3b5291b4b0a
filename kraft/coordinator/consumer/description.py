"""Describes a consumer group."""

from __future__ import annotations

from kraft.coordinator.consumer.group import ConsumerGroup
from kraft.coordinator.consumer.requests import ConsumerGroupDescription, MemberDescription
from kraft.coordinator.consumer.settings import GroupSettings
from kraft.coordinator.consumer.targets import preferred_assignor


def describe(group: ConsumerGroup, settings: GroupSettings) -> ConsumerGroupDescription:
    return ConsumerGroupDescription(
        group_id=group.group_id,
        state=group.state,
        epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor=preferred_assignor(group, settings),
        members=tuple(
            MemberDescription(member=group.members[member_id], target=group.target(member_id))
            for member_id in sorted(group.members)
        ),
    )
