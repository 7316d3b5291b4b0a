"""The measurement of one package, inside a pytest process that has collected its tests.

First every test runs once, and the lines are noted that it covers. Then each mutant runs, in a child, with the tests
that cover its line. What has been found is written at once, so a measurement that was stopped continues.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable, Mapping
from itertools import zip_longest
from pathlib import Path
from types import CodeType, FunctionType
from typing import Final, TypeVar

import msgspec
import pytest

from tests.measured import children, mutants
from tests.measured.lines import Lines
from tests.measured.mutants import Mutant

ROOT: Final = Path(__file__).resolve().parents[2]
TESTS_OF_A_CHILD: Final = 40
"""Tests whose coverage one child measures: a test that breaks its process costs those after it their place."""


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """One test without any mutant."""

    test: str
    outcome: str
    seconds: float = 0.0
    lines: dict[str, list[int]] = {}


class Killed(msgspec.Struct, frozen=True, kw_only=True):
    """One mutant, and the tests that failed with it."""

    mutant: Mutant
    tests: list[str]
    tests_run: int


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much is measured."""

    mutants: int = 30
    seed: int = 1
    workers: int = 2
    seconds_max: float = 0.5
    """A test that takes longer runs with no mutant, and counts as not measured."""

    mutant_seconds_max: float = 4.0
    """How long the tests that run with one mutant take without it."""

    tests_max: int = 200
    """Tests that run with one mutant; those that cover the fewest lines come first."""

    killers_max: int = 10
    """A mutant that so many tests have killed is left to them."""


class Measurement:
    """A pytest plugin that runs the tests in its own way."""

    def __init__(self, files: list[Path], directory: Path, limits: Limits) -> None:
        self._files: Final = {str(file): file.relative_to(ROOT).as_posix() for file in files}
        self._directory: Final = directory
        self._limits: Final = limits

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        ran = {found.test: found for found in self._cover(items)}
        covering = covering_tests(ran.values(), self._limits)
        self._kill(items, covering, self._choose(covering))
        return True

    # --- which lines each test covers -------------------------------------------------------------------------------

    def _cover(self, items: Mapping[str, pytest.Item]) -> list[Ran]:
        store = self._directory / "covered.jsonl"
        ran = read(store, Ran)
        waiting = [test for test in items if test not in {found.test for found in ran}]
        pieces = [waiting[first : first + TESTS_OF_A_CHILD] for first in range(0, len(waiting), TESTS_OF_A_CHILD)]
        lines = Lines(frozenset(self._files))

        def body(job: list[str], say: children.Say) -> None:
            for test in job:
                began_at = time.perf_counter()
                lines.start()
                outcome = children.outcome(items[test])
                covered = {self._files[file]: found for file, found in lines.stop().items()}
                seconds = round(time.perf_counter() - began_at, 3)
                say(Ran(test=test, outcome=outcome, seconds=seconds, lines=covered))

        with store.open("ab") as file:
            for job, said in children.run(pieces, body, self._limits.workers, "times 40 tests, once"):
                found = msgspec.convert(said, list[Ran])
                # A test at which its child ended, or hung, is not measured; those after it get another child.
                found += [Ran(test=test, outcome="ended the process") for test in job[len(found) : len(found) + 1]]
                file.write(msgspec.json.Encoder().encode_lines(found))
                ran += found
        return ran if len(ran) >= len(items) else self._cover(items)

    # --- which mutants each test kills --------------------------------------------------------------------------------

    def _choose(self, covering: Mapping[tuple[str, int], list[str]]) -> list[Mutant]:
        chosen = list[Mutant]()
        for path, module in self._files.items():
            lines = {line for file, line in covering if file == module}
            chosen += mutants.choose(Path(path).read_text(), module, lines, self._limits.mutants, self._limits.seed)
        return chosen

    def _kill(
        self, items: Mapping[str, pytest.Item], covering: Mapping[tuple[str, int], list[str]], chosen: list[Mutant]
    ) -> None:
        store = self._directory / f"killed-{self._limits.seed}.jsonl"
        known = {found.mutant for found in read(store, Killed)}
        functions = functions_by_place(self._files.values())

        def body(job: Mutant, say: children.Say) -> None:
            apply(job, functions)
            failed = 0
            for test in covering[job.module, job.line]:
                say(test)
                outcome = children.outcome(items[test])
                say(outcome)
                failed += outcome == "failed"
                if failed == self._limits.killers_max:
                    return

        with store.open("ab") as file:
            waiting = [mutant for mutant in chosen if mutant not in known]
            for mutant, said in children.run(waiting, body, self._limits.workers, "mutants"):
                # A test without an outcome ended the child, or hung.
                outcomes = dict(zip_longest(said[::2], said[1::2], fillvalue="failed"))
                failed = [str(test) for test, outcome in outcomes.items() if outcome == "failed"]
                found = Killed(mutant=mutant, tests=failed, tests_run=len(outcomes))
                file.write(msgspec.json.encode(found) + b"\n")
                file.flush()


def covering_tests(ran: Iterable[Ran], limits: Limits) -> dict[tuple[str, int], list[str]]:
    """Return the tests that run with a mutant of each line: those that cover the fewest lines first."""
    measured = [found for found in ran if found.outcome == "passed" and found.seconds <= limits.seconds_max]
    covering = dict[tuple[str, int], list[str]]()
    seconds = dict[tuple[str, int], float]()
    for found in sorted(measured, key=lambda found: (sum(map(len, found.lines.values())), found.test)):
        for place in ((file, line) for file, lines in found.lines.items() for line in lines):
            tests = covering.setdefault(place, [])
            seconds[place] = seconds.get(place, 0.0) + found.seconds
            if len(tests) < limits.tests_max and (seconds[place] <= limits.mutant_seconds_max or not tests):
                tests.append(found.test)
    return covering


# --- mutants in place of functions -----------------------------------------------------------------------------------


Place = tuple[str, str]
"""A module's path and a function's qualified name."""


def functions_by_place(modules: Iterable[str]) -> dict[Place, list[FunctionType]]:
    """Return the functions that live, outermost ones only; one that was defined twice stands there twice."""
    # What the collection has frozen is not listed otherwise.
    gc.unfreeze()
    files = {str(ROOT / module): module for module in modules}
    found = dict[Place, list[FunctionType]]()
    for value in gc.get_objects():
        if isinstance(value, FunctionType) and value.__code__.co_filename in files:
            found.setdefault((files[value.__code__.co_filename], value.__code__.co_qualname), []).append(value)
    # A child that seeks garbage in all this would copy the memory that it shares with its parent.
    gc.freeze()
    return found


def apply(mutant: Mutant, functions: Mapping[Place, list[FunctionType]]) -> None:
    """Give the function of the mutant its changed code. Raises ValueError if the code needs another closure."""
    path = ROOT / mutant.module
    code = compile(mutants.changed(path.read_text(), mutant), str(path), "exec", dont_inherit=True)
    new = {found.co_firstlineno: found for found in _codes(code) if found.co_qualname == mutant.function}
    for function in functions[mutant.module, mutant.function]:
        function.__code__ = new[function.__code__.co_firstlineno]


def _codes(code: CodeType) -> Iterable[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


# --- what was found ------------------------------------------------------------------------------------------------

Found = TypeVar("Found")


def read(store: Path, kind: type[Found]) -> list[Found]:
    """Return what a store holds, without a last line that was not finished."""
    if not store.exists():
        return []
    whole, _, rest = store.read_bytes().rpartition(b"\n")
    if rest:
        store.write_bytes(whole + b"\n" if whole else b"")
    return msgspec.json.Decoder(kind).decode_lines(whole)
