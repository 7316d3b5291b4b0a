"""Counts of many runs of a simulation."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self


@dataclass(slots=True)
class Counts:
    """Counts of one run, or of many; a subclass has its own."""

    seeds: int = 0

    def add(self, other: Self) -> None:
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))

    def __str__(self) -> str:
        return ", ".join(f"{getattr(self, each.name):,} {each.name.replace('_', ' ')}" for each in fields(self))
