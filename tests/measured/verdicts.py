"""Which tests say something of their own, from what each covers and which mutants it kills."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from enum import StrEnum

import msgspec


class Verdict(StrEnum):
    """Why a test stays; the first reason that applies."""

    NAMED = "the checklist names it"
    FIX = "born in a fix"
    UNMEASURED = "not measured"
    ALONE = "kills a mutant alone"
    KILLS = "kills, with few others"
    COVERS = "covers a line, with few others"
    MAY_GO = "may go"


class Shown(msgspec.Struct, frozen=True):
    """What one test function shows, with all its parameters: mutants that it kills, and lines that it covers."""

    kills: frozenset[str] = frozenset()
    covers: frozenset[str] = frozenset()
    size: int = 1
    """Lines of the function."""

    is_measured: bool = True


def judge(tests: Mapping[str, Shown], named: Collection[str], born_in_fix: Collection[str]) -> dict[str, Verdict]:
    """Return the verdict of each test.

    Those that stay kill every mutant that all kill, and cover every line that all cover: what the tests leave open that
    stay in any case, the fewest lines of others have to show (greedily).
    """
    verdicts = dict[str, Verdict]()
    killers = Counter(mutant for shown in tests.values() for mutant in shown.kills)
    for test, shown in tests.items():
        if test in named:
            verdicts[test] = Verdict.NAMED
        elif test in born_in_fix:
            verdicts[test] = Verdict.FIX
        elif not shown.is_measured:
            verdicts[test] = Verdict.UNMEASURED
        elif any(killers[mutant] == 1 for mutant in shown.kills):
            verdicts[test] = Verdict.ALONE
    _take(verdicts, tests, {test: shown.kills for test, shown in tests.items()}, Verdict.KILLS)
    _take(verdicts, tests, {test: shown.covers for test, shown in tests.items()}, Verdict.COVERS)
    return {test: verdicts.get(test, Verdict.MAY_GO) for test in tests}


def _take(
    verdicts: dict[str, Verdict], tests: Mapping[str, Shown], shows: Mapping[str, frozenset[str]], verdict: Verdict
) -> None:
    """Add the tests that are needed so that those with a verdict show everything: the most for its size first."""
    missing = frozenset[str]().union(*shows.values()) - frozenset[str]().union(*(shows[test] for test in verdicts))
    others = sorted(set(shows) - set(verdicts))
    while missing:
        best = max(others, key=lambda test: len(shows[test] & missing) / tests[test].size)
        verdicts[best] = verdict
        others.remove(best)
        missing -= shows[best]
