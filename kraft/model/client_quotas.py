"""Kafka's numbers in the messages about client quotas. Source: KIP-546."""

from __future__ import annotations

from enum import IntEnum


class QuotaMatch(IntEnum):
    """Way in which DescribeClientQuotas selects entities of a type."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2
