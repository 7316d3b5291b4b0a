"""Which tests say something of their own, from what each covers and which mutants it kills."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from enum import StrEnum
from random import Random

import msgspec

PARTS = 5
"""Of the killed mutants, this part is left out at a time when a loss is estimated."""


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


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """What stays in any case, and how many tests are to kill each mutant and to cover each line."""

    named: Collection[str] = ()
    born_in_fix: Collection[str] = ()
    killers: int = 3
    covering: int = 2


def judge(tests: Mapping[str, Shown], rule: Rule) -> dict[str, Verdict]:
    """Return the verdict of each test.

    What the tests leave open that stay in any case, the fewest lines of others have to show (greedily).
    """
    verdicts = dict[str, Verdict]()
    killers = Counter(mutant for shown in tests.values() for mutant in shown.kills)
    for test, shown in tests.items():
        if test in rule.named:
            verdicts[test] = Verdict.NAMED
        elif test in rule.born_in_fix:
            verdicts[test] = Verdict.FIX
        elif not shown.is_measured:
            verdicts[test] = Verdict.UNMEASURED
        elif any(killers[mutant] == 1 for mutant in shown.kills):
            verdicts[test] = Verdict.ALONE
    sizes = {test: shown.size for test, shown in tests.items()}
    kills = {test: shown.kills for test, shown in tests.items()}
    verdicts |= dict.fromkeys(_needed(kills, rule.killers, verdicts, sizes), Verdict.KILLS)
    covers = {test: shown.covers for test, shown in tests.items()}
    verdicts |= dict.fromkeys(_needed(covers, rule.covering, verdicts, sizes), Verdict.COVERS)
    return {test: verdicts.get(test, Verdict.MAY_GO) for test in tests}


def _needed(
    shows: Mapping[str, frozenset[str]], times: int, staying: Collection[str], sizes: Mapping[str, int]
) -> list[str]:
    """Return tests that, with those that stay, show everything so many times; that with the most for its size first."""
    shown = Counter(each for test in staying for each in shows[test])
    everything = Counter(each for all_of_it in shows.values() for each in all_of_it)
    missing = {each: left for each, count in everything.items() if (left := min(times, count) - shown[each]) > 0}
    others = {test: all_of_it & missing.keys() for test, all_of_it in sorted(shows.items()) if test not in staying}
    needed = list[str]()
    while missing:
        best = max(others, key=lambda test: len(others[test] & missing.keys()) / sizes[test])
        needed.append(best)
        for each in others.pop(best) & missing.keys():
            missing[each] -= 1
            if missing[each] == 0:
                del missing[each]
    return needed


def estimated_loss(tests: Mapping[str, Shown], rule: Rule, seed: int) -> float:
    """Return the share of mutants that nothing kills any more when others have decided what stays."""
    mutants = sorted({mutant for shown in tests.values() for mutant in shown.kills})
    Random(seed).shuffle(mutants)
    lost = 0
    for part in range(PARTS):
        left_out = frozenset(mutants[part::PARTS])
        seen = {test: msgspec.structs.replace(shown, kills=shown.kills - left_out) for test, shown in tests.items()}
        staying = [test for test, verdict in judge(seen, rule).items() if verdict is not Verdict.MAY_GO]
        lost += len(left_out - frozenset[str]().union(*(tests[test].kills for test in staying)))
    return lost / max(1, len(mutants))
