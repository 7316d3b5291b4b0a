"""Kinds of elections."""

from __future__ import annotations

from enum import IntEnum


class ElectionType(IntEnum):
    """Kind of election. The numbers are Kafka's."""

    PREFERRED = 0
    """Makes the first replica the leader, if it is in sync and another one leads."""
    UNCLEAN = 1
    """Gives a partition without a leader any replica in service; records that only others had are lost."""
