"""Counts the methods of classes, with those that they inherit from classes of the project.

A class that is spread over its bases is as large as if it were written in one piece: its reader has to know all of it.
A method that overrides another one counts once. Bases that are not the project's own are left out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from tests.copied_lines import inner, statements


@dataclass(frozen=True, slots=True)
class ClassFacts:
    """One class: its own methods, and the dotted names of its bases."""

    file: str
    name: str
    methods: frozenset[str]
    bases: tuple[str, ...]


def classes_of(tree: ast.Module, file: str) -> dict[str, ClassFacts]:
    """Return the classes of a file by their dotted names."""
    module = ".".join(PurePath(file).with_suffix("").parts)
    imported = _imported(tree)
    return {
        f"{module}.{name}": ClassFacts(
            file=file,
            name=name,
            methods=frozenset(
                each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
            ),
            bases=tuple(_dotted(base, module, imported) for base in node.bases),
        )
        for name, node in _classes(tree, "")
    }


def method_counts(classes: Mapping[str, ClassFacts]) -> dict[str, int]:
    """Return the number of methods of each class and its bases together, by file and name."""
    return {f"{facts.file}::{facts.name}": len(_methods(name, classes)) for name, facts in classes.items()}


def _methods(name: str, classes: Mapping[str, ClassFacts]) -> frozenset[str]:
    facts = classes.get(name)
    if facts is None:
        return frozenset()
    return facts.methods.union(*(_methods(base, classes) for base in facts.bases if base != name))


def _classes(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.ClassDef]]:
    for child in inner(node):
        if isinstance(child, ast.ClassDef):
            yield f"{prefix}{child.name}", child
            yield from _classes(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.stmt):
            yield from _classes(child, prefix)


def _imported(tree: ast.Module) -> dict[str, str]:
    """Return the dotted name for each name that a file imports from a module."""
    return {
        alias.asname or alias.name: f"{statement.module}.{alias.name}"
        for statement in statements(tree)
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }


def _dotted(base: ast.expr, module: str, imported: Mapping[str, str]) -> str:
    """Return the dotted name of a base; type arguments are left out."""
    if isinstance(base, ast.Subscript):
        base = base.value
    first, _, rest = ast.unparse(base).partition(".")
    return ".".join(filter(None, (imported.get(first, f"{module}.{first}"), rest)))
