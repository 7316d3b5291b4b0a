"""Runs of equal lines in two places of the source: where code was written again."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Final

LENGTH: Final = 6
"""A run of fewer equal lines is no copy."""

_BLOCKS: Final = ("body", "handlers", "orelse", "finalbody", "cases")
"""Fields of statements that hold statements, in their order in the source."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of code without its indentation."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Run:
    """Equal lines: where they begin in the one file, and from where to where they stand in the other."""

    first: int
    second: int
    second_end: int


Copies = dict[tuple[str, str], list[Run]]
"""Copies between two files, in the order of their names; a file may have copies of its own lines."""


def inner(node: ast.AST) -> Iterator[ast.stmt | ast.ExceptHandler | ast.match_case]:
    """Statements, handlers and cases directly below a module or one of these. No expression has any, nor is entered."""
    for name in _BLOCKS:
        yield from getattr(node, name, ())


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Every statement below `node`, nested ones included."""
    for child in inner(node):
        if isinstance(child, ast.stmt):
            yield child
        yield from statements(child)


def code_lines(text: str, tree: ast.Module) -> list[Line]:
    """Lines that say something: no imports, docstrings, comments, blank lines or mere punctuation."""
    left_out = set(_lines_of(_imports_and_docstrings(tree)))
    stripped = (Line(number, line.strip()) for number, line in enumerate(text.splitlines(), 1))
    return [
        line
        for line in stripped
        if line.number not in left_out and not line.text.startswith("#") and any(map(str.isalnum, line.text))
    ]


def find_copies(files: Mapping[str, list[Line]]) -> Copies:
    """Each run once, whatever the number of its lines; a run that stands in n files is in n * (n - 1) / 2 pairs."""
    shared: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
    for places in _places(files).values():
        for (first, at), (second, again) in combinations(places, 2):
            # Lines that repeat themselves at once, as rows of a table do, are no copy.
            if first != second or again >= at + LENGTH:
                shared[first, second].setdefault(again, at)
    return {pair: list(_runs(starts, *(files[name] for name in pair))) for pair, starts in sorted(shared.items())}


def _places(files: Mapping[str, list[Line]]) -> dict[tuple[str, ...], list[tuple[str, int]]]:
    """Return the files and positions of every six consecutive lines."""
    places: dict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
    for name in sorted(files):
        texts = [line.text for line in files[name]]
        for start in range(len(texts) - LENGTH + 1):
            places[tuple(texts[start : start + LENGTH])].append((name, start))
    return places


def _runs(starts: Mapping[int, int], first: list[Line], second: list[Line]) -> Iterator[Run]:
    """Joins the starts of equal lines that follow one another; `starts` maps those in `second` to those in `first`."""
    begin = None
    for start in sorted(starts):
        begin = start if begin is None else begin
        if start + 1 not in starts:
            yield Run(first[starts[begin]].number, second[begin].number, second[start + LENGTH - 1].number)
            begin = None


def _imports_and_docstrings(tree: ast.Module) -> Iterator[ast.stmt]:
    for statement in statements(tree):
        match statement:
            case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant(value=str())):
                yield statement
            case _:
                pass


def _lines_of(nodes: Iterable[ast.stmt]) -> Iterator[int]:
    for node in nodes:
        yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)
