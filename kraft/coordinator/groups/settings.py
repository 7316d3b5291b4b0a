"""Settings of a group coordinator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from kraft.coordinator.classic.settings import ClassicSettings
from kraft.coordinator.consumer.settings import GroupSettings
from kraft.model.config_keys import key, one_of, reads, whole_number
from kraft.model.config_types import INT64_MAX
from kraft.model.configs import ConfigType

_MINUTE_MS: Final = 60_000

CONVERTED_SIZE_MAX: Final = 300
"""A change of the protocol is one decision on all members, at up to 120 us for each. (docs/adr/0046)"""


class MigrationPolicy(StrEnum):
    """Which groups that have members may change their protocol, by Kafka's names. An empty group always may."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    """A classic group becomes one of the consumer protocol when the first member of that protocol joins."""

    DOWNGRADE = "downgrade"
    """A group of the consumer protocol becomes classic when its last member of that protocol leaves."""

    BIDIRECTIONAL = "bidirectional"

    @property
    def upgrades(self) -> bool:
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def downgrades(self) -> bool:
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@reads(ConfigType.STRING)
def _migration_policy(text: str) -> MigrationPolicy:
    return MigrationPolicy(one_of(*MigrationPolicy)(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupShardSettings:
    """Settings of the shards of groups. Those with keys are the same on all of a broker's shards."""

    classic: ClassicSettings = field(default_factory=ClassicSettings)
    consumer: GroupSettings = field(default_factory=GroupSettings)
    """Settings of groups of the consumer protocol without configs of their own."""

    consumer_group: Callable[[str], GroupSettings] | None = None
    """The settings of one group, by its id: `consumer` with the group's own configs, such as
    `consumer.session.timeout.ms` and `consumer.heartbeat.interval.ms`."""

    migration_policy: MigrationPolicy = key(
        "group.consumer.migration.policy",
        _migration_policy,
        "Whether a group with members may change its protocol: upgrade, from classic to consumer, downgrade, back to"
        " classic, bidirectional or disabled.",
        default=MigrationPolicy.BIDIRECTIONAL,
    )
    converted_size_max: int = CONVERTED_SIZE_MAX
    """Most members of a group that may change its protocol while it has members."""

    lag_look_interval_ms: int = key(
        "group.lag.look.interval.ms",
        whole_number(100),
        "Time between two looks at the commits of groups and at the ends of the logs they are for; ten commits and the"
        " looks of some minutes are remembered, in memory.",
        default=10_000,
    )
    offset_metadata_length_max: int = key(
        "offset.metadata.max.bytes",
        whole_number(0),
        "Longest text that a client may commit with an offset.",
        default=4_096,
    )
    offsets_retention_ms: int = key(
        "offsets.retention.minutes",
        whole_number(1),
        "Time after which committed offsets expire, counted from when the group has no members, or no member subscribes"
        " to the topic.",
        default=7 * 24 * 60 * _MINUTE_MS,
        unit=_MINUTE_MS,
    )
    offsets_retention_check_interval_ms: int = key(
        "offsets.retention.check.interval.ms",
        whole_number(1, INT64_MAX),
        "Interval of checks for expired offsets.",
        default=600_000,
    )

    def of_group(self, group_id: str) -> GroupSettings:
        """Return the settings of a group of the consumer protocol."""
        return self.consumer if self.consumer_group is None else self.consumer_group(group_id)
