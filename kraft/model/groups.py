"""Numbers in descriptions of groups."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

REBALANCES_WITHIN_MS: Final = 5 * 60_000
"""A coordinator counts the rebalances that began within this time."""

MANY_REBALANCES: Final = 10
"""A group that began so many within it makes no progress, or hardly any."""


class MemberType(IntEnum):
    """Protocol of a member of a consumer group. The numbers are Kafka's."""

    CLASSIC = 0
    CONSUMER = 1
