"""Numbers in descriptions of groups."""

from __future__ import annotations

from enum import IntEnum


class MemberType(IntEnum):
    """Protocol of a member of a consumer group. The numbers are Kafka's."""

    CLASSIC = 0
    CONSUMER = 1
