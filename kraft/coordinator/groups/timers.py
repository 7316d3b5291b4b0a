"""Timers of the shard as a whole. Those of groups and members are declared with the protocols."""

from __future__ import annotations

from msgspec import Struct


class OffsetExpiryTimer(Struct, frozen=True):
    """Begins a pass that looks for expired offsets, or continues it."""


class GroupDeletionTimer(Struct, frozen=True):
    """Continues the deletion of a group with more offsets than fit into one batch."""

    group_id: str


class TopicDeletionTimer(Struct, frozen=True):
    """Continues the deletion of offsets of deleted topics."""
