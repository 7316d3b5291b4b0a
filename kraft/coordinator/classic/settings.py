"""Settings of a coordinator that concern classic groups."""

from __future__ import annotations

from msgspec import Struct


class ClassicSettings(Struct, frozen=True, kw_only=True):
    session_timeout_min_ms: int = 6_000
    """`group.min.session.timeout.ms`"""

    session_timeout_max_ms: int = 1_800_000
    """`group.max.session.timeout.ms`"""

    initial_rebalance_delay_ms: int = 3_000
    """`group.initial.rebalance.delay.ms`"""

    size_max: int = 0x7FFFFFFF
    """`group.max.size`"""

    new_member_join_timeout_ms: int = 300_000
    """How long a new member's JoinGroup may wait. The member has no session yet, and its client may be gone."""
