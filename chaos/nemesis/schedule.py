"""Schedule of the faults, decided by the seed alone before the run begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One fault of a run: it holds for `hold_s`; once everything is mended and moves again, `rest_s` pass."""

    fault: str
    hold_s: float
    rest_s: float


def schedule(
    seed: int, faults: Sequence[str], cycles: int, hold_s: tuple[float, float], rest_s: tuple[float, float]
) -> list[Planned]:
    """`cycles` faults: each kind as often as the others, in an order in which every kind comes before any returns.

    Times are drawn from the given bounds. Without any kind there is nothing to plan.
    """
    if not faults:
        return []
    chance = Random(seed)
    order: list[str] = []
    while len(order) < cycles:
        order += chance.sample(faults, len(faults))
    return [
        Planned(fault=fault, hold_s=chance.uniform(*hold_s), rest_s=chance.uniform(*rest_s)) for fault in order[:cycles]
    ]
