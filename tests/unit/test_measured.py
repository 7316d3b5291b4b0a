"""What `python -m tests.measured` decides: which mutants there are, which tests stay, and which were born in fixes."""

from __future__ import annotations

import ast
from types import FunctionType

import pytest

from tests.measured import measurement, mutants
from tests.measured.births import FIX_TESTS_MAX, fixes_in
from tests.measured.verdicts import Rule, Shown, Verdict, estimated_loss, judge

SOURCE = '''
LIMIT = 5

class Log:
    """A log."""

    size: int = 3

    def fits(self, size: int = 1) -> "bool":
        """Whether it fits."""
        if size < LIMIT and not self.closed:
            self.size = size
            self.note("fits")
            return True
        raise ValueError("too large")
'''
EVERY_LINE = range(1, 40)


def test_everything_that_runs_in_a_function_is_changed_once_and_nothing_else() -> None:
    changed = {
        (mutant.line, mutant.kind): ast.unparse(mutants.changed(SOURCE, mutant))
        for mutant in mutants.choose(SOURCE, "log.py", EVERY_LINE, 99, seed=1)
    }
    original = ast.unparse(ast.parse(SOURCE)).splitlines()
    different = {
        key: [line.strip() for line in text.splitlines() if line not in original] for key, text in changed.items()
    }
    assert different == {
        (11, "not"): ["if not (size < LIMIT and (not self.closed)):"],
        (11, "And -> Or"): ["if size < LIMIT or not self.closed:"],
        (11, "Lt -> LtE"): ["if size <= LIMIT and (not self.closed):"],
        (12, "no assign"): ["pass"],
        (13, "not called"): ["None"],
        (13, "'fits' -> 'fits~'"): ["self.note('fits~')"],
        (14, "None"): ["return None"],
        (14, "True -> False"): ["return False"],
        (15, "no raise"): ["pass"],
        (15, "'too large' -> 'too large~'"): ["raise ValueError('too large~')"],
    }


def test_mutants_are_the_same_for_a_seed_and_only_on_lines_that_tests_cover() -> None:
    def chosen(seed: int, count: int = 3) -> list[mutants.Mutant]:
        return mutants.choose(SOURCE, "log.py", {11, 12}, count, seed)

    assert chosen(1) == chosen(1)
    assert len({tuple(chosen(seed)) for seed in range(9)}) > 1
    assert [mutant.line for mutant in chosen(1, count=99)] == [11, 11, 11, 12]


def test_a_function_runs_the_changed_code(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "tests/measured/verdicts.py"
    source = (measurement.ROOT / module).read_text()
    mutant = next(
        each
        for each in mutants.choose(source, module, range(1, 999), 999, seed=1)
        if (each.function, each.kind) == ("judge", "None")
    )
    functions = measurement.functions_by_place([module])
    assert functions[module, "judge"] == [judge]
    assert isinstance(judge, FunctionType)
    monkeypatch.setattr(judge, "__code__", judge.__code__)
    measurement.apply(mutant, functions)
    assert judge({}, Rule()) is None


def shown(kills: str, covers: str = "", size: int = 1, measured: bool = True) -> Shown:
    return Shown(frozenset(kills), frozenset(covers), size, measured)


def test_a_test_stays_for_what_others_do_not_show() -> None:
    tests = {
        "named": shown("a"),
        "fix": shown(""),
        "slow": shown("", measured=False),
        "alone": shown("xb"),
        "again": shown("ab"),
        "long": shown("c", size=2),
        "short": shown("cb", "1"),
        "reaches": shown("", "12"),
    }
    once = Rule(named={"named"}, born_in_fix={"fix"}, killers=1, covering=1)
    assert judge(tests, once) == {
        "named": Verdict.NAMED,
        "fix": Verdict.FIX,
        "slow": Verdict.UNMEASURED,
        "alone": Verdict.ALONE,
        "again": Verdict.MAY_GO,
        "long": Verdict.MAY_GO,
        "short": Verdict.KILLS,
        "reaches": Verdict.COVERS,
    }
    twice = judge(tests, Rule(named={"named"}, born_in_fix={"fix"}, killers=2, covering=1))
    assert (twice["again"], twice["long"]) == (Verdict.KILLS, Verdict.KILLS)


def test_the_estimated_loss_is_that_of_mutants_that_decided_nothing() -> None:
    one_each = {f"test {mutant}": shown(mutant) for mutant in "abcde"}
    assert estimated_loss(one_each, Rule(killers=1), seed=1) == 1
    assert estimated_loss({**one_each, "all": shown("abcde")}, Rule(killers=2), seed=1) == 0


def test_a_fix_brings_few_tests_and_says_what_was_wrong_and_a_new_name_is_no_birth() -> None:
    many = [f"+def test_feature_{number}() -> None:" for number in range(FIX_TESTS_MAX + 1)]
    log = [
        "\x01log: no record is lost",
        "diff --git a/tests/a.py b/tests/a.py",
        "@@",
        "+async def test_nothing_is_lost() -> None:",
        "\x01log: a feature in place of another",
        "diff --git a/tests/b.py b/tests/b.py",
        "@@",
        *many,
        "\x01tests: plain words",
        "diff --git a/tests/a.py b/tests/a.py",
        "@@",
        "-async def test_nothing_is_lost() -> None:",
        "+async def test_every_record_stays() -> None:",
    ]
    assert fixes_in(log) == {"test_nothing_is_lost", "test_every_record_stays"}
