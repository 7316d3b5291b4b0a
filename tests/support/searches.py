"""Whether a search of Hypothesis has met everything that it is there for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set as AbstractSet

from hypothesis import settings


def assert_met(expected: AbstractSet[str], happened: Counter[str]) -> None:
    """Check that everything that is expected has happened at least once.

    This holds for the fixed examples. A few random examples may miss what is rare, so they are not checked.
    """
    if settings().derandomize:
        assert expected - {what for what, times in happened.items() if times} == set(), "the search never met these"
