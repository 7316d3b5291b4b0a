"""Skew: how unevenly something is spread over brokers or directories, in percent of the mean."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import TypeVar

Key = TypeVar("Key")


def skews(amounts: Mapping[Key, int]) -> dict[Key, int]:
    """Return by how many percent each amount is above the mean, or below it; 0 where there is nothing at all."""
    mean = sum(amounts.values()) / len(amounts) if amounts else 0
    return {key: round((amount - mean) / mean * 100) if mean else 0 for key, amount in amounts.items()}


def skew(amounts: Collection[int]) -> int:
    """Return by how many percent the largest amount is above the mean."""
    return max(skews(dict(enumerate(amounts))).values(), default=0)


def is_skewed(amount: int, total: int, brokers: int) -> bool:
    """Return whether a broker has more than its share, rounded up: what CMAK calls skewed."""
    return brokers > 0 and amount > math.ceil(total / brokers)
