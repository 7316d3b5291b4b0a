"""Settings of classic groups, each declared with its key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kraft.model.config_keys import key, whole_number

SIZE_MAX: Final = 2_000
"""Default of `group.max.size`; Kafka has none.

A generation begins, and gets its assignment, in decisions on all members at once, which take up to 10 us for each. On
the largest groups they take half of the 50 ms that may pass without a turn for others (docs/adr/0046).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicSettings:
    """Settings of groups whose members join with JoinGroup."""

    session_timeout_min_ms: int = key(
        "group.min.session.timeout.ms",
        whole_number(0),
        "Shortest session timeout that a member of a classic group may ask for.",
        default=6_000,
    )
    session_timeout_max_ms: int = key(
        "group.max.session.timeout.ms",
        whole_number(1),
        "Longest session timeout that a member of a classic group may ask for.",
        default=1_800_000,
    )
    initial_rebalance_delay_ms: int = key(
        "group.initial.rebalance.delay.ms",
        whole_number(0),
        "Time that the first rebalance of an empty classic group waits for more members.",
        default=3_000,
    )
    size_max: int = key(
        "group.max.size",
        whole_number(1),
        "Most members of a classic group. A rebalance of more holds up everything else on its broker: about 10 ms for"
        " each 1,000. Kafka's default is no limit.",
        default=SIZE_MAX,
    )
    new_member_join_timeout_ms: int = 300_000
    """How long a new member's JoinGroup may wait. The member has no session yet, and its client may be gone."""
