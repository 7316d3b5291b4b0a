"""Settings of a coordinator that concern classic groups."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

SIZE_MAX: Final = 2_000
"""Default of `group.max.size`; Kafka has none.

A generation begins, and gets its assignment, in decisions on all members at once, which take up to 10 us for each. On
the largest groups they take half of the 50 ms that may pass without a turn for others (docs/adr/0046).
"""


class ClassicSettings(Struct, frozen=True, kw_only=True):
    session_timeout_min_ms: int = 6_000
    """`group.min.session.timeout.ms`"""

    session_timeout_max_ms: int = 1_800_000
    """`group.max.session.timeout.ms`"""

    initial_rebalance_delay_ms: int = 3_000
    """`group.initial.rebalance.delay.ms`"""

    size_max: int = SIZE_MAX
    """`group.max.size`"""

    new_member_join_timeout_ms: int = 300_000
    """How long a new member's JoinGroup may wait. The member has no session yet, and its client may be gone."""
