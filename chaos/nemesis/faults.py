"""The interface of a fault to the run that plans it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


class NothingToBreak(Exception):
    """The fault finds no target at this moment, a leader while there is none, say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A fault that is in force."""

    target: str
    mend: Callable[[], None]
    """Undo it. Called once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultKind:
    """One way to break things; `strike` picks a target. It raises NothingToBreak."""

    name: str
    explanation: str
    strike: Callable[[], Broken]
