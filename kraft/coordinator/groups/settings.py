"""Settings of a group coordinator."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Final

from msgspec import Struct

from kraft.coordinator.classic.settings import ClassicSettings
from kraft.coordinator.consumer.requests import GroupSettings

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


class GroupShardSettings(Struct, frozen=True, kw_only=True):
    classic: ClassicSettings = ClassicSettings()
    consumer: GroupSettings = GroupSettings()
    """Settings of groups of the consumer protocol without configs of their own."""

    consumer_group: Callable[[str], GroupSettings] | None = None
    """The settings of one group, by its id: `consumer` with the group's own configs, such as
    `consumer.session.timeout.ms` and `consumer.heartbeat.interval.ms`."""

    regex_error: Callable[[str], str | None] | None = None
    """What is wrong with the regular expression of a subscription, in a sentence; None if it can be resolved."""

    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    """`group.consumer.migration.policy`"""

    converted_size_max: int = CONVERTED_SIZE_MAX
    """Most members of a group that may change its protocol while it has members."""

    offset_metadata_length_max: int = 4_096
    """`offset.metadata.max.bytes`"""

    offsets_retention_ms: int = 10_080 * 60_000
    """`offsets.retention.minutes`"""

    offsets_retention_check_interval_ms: int = 600_000
    """`offsets.retention.check.interval.ms`"""

    def of_group(self, group_id: str) -> GroupSettings:
        """Return the settings of a group of the consumer protocol."""
        return self.consumer if self.consumer_group is None else self.consumer_group(group_id)
