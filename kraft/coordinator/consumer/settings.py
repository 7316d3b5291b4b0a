"""Settings of groups of the consumer protocol, each declared with its key."""

from __future__ import annotations

from dataclasses import dataclass

from kraft.coordinator.assignors.by_name import ASSIGNORS
from kraft.metadata.group_configs import GroupConfig
from kraft.model.config_keys import boolean, key, some_of, whole_number
from kraft.model.config_types import INT32_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings(GroupConfig):
    """The configs in effect on a group, and the settings of its broker."""

    members_max: int = key(
        "group.consumer.max.size",
        whole_number(1),
        "Most members of a group of the consumer protocol.",
        default=INT32_MAX,
    )
    assignors: tuple[str, ...] = key(
        "group.consumer.assignors",
        some_of(*ASSIGNORS),
        "Assignors of groups of the consumer protocol; the first one is used if no member asks for another.",
        default=tuple(ASSIGNORS),
    )
    offloads_assignor: bool = key(
        "group.consumer.assignor.offload.enable",
        boolean,
        "Whether target assignments of large groups are computed in a thread, while the coordinator goes on.",
        default=True,
    )
    assigned_at_once_max: int = 1_000
    """Size, by `targets.assignment_size`, up to which an assignment is computed in the heartbeat that needs it. That
    takes milliseconds, and the response already has the member's part."""

    partitions_per_slice: int = 1_000
    """Size of a slice of a target assignment that was computed in a thread. A slice ends with the member that reaches
    it."""
