"""Mutants of a module: small changes inside its functions, each of which some test should notice.

Declarations of classes and modules are not changed: they have run before the first test begins.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final

import msgspec

_SWAPPED: Final[dict[type[ast.AST], type[ast.AST]]] = {
    one: other
    for pair in (
        (ast.Lt, ast.LtE),
        (ast.Gt, ast.GtE),
        (ast.Eq, ast.NotEq),
        (ast.Is, ast.IsNot),
        (ast.In, ast.NotIn),
        (ast.And, ast.Or),
        (ast.Add, ast.Sub),
        (ast.Mult, ast.FloorDiv),
        (ast.BitAnd, ast.BitOr),
        (ast.LShift, ast.RShift),
    )
    for one, other in (pair, pair[::-1])
}
_NOT_CODE: Final = frozenset({"annotation", "decorator_list", "returns", "type_comment"})

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """One change of one module; `number` is its place among all changes of the module."""

    module: str
    number: int
    function: str
    line: int
    kind: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {self.function}: {self.kind}"


@dataclass(frozen=True, slots=True)
class _Site:
    line: int
    kind: str
    change: Callable[[], None]


def choose(source: str, module: str, covered: Collection[int], count: int, seed: int) -> list[Mutant]:
    """Return up to `count` mutants on lines that tests cover, in turns of one for each function."""
    by_function = dict[str, list[Mutant]]()
    for number, (function, site) in enumerate(_sites(ast.parse(source))):
        if site.line in covered:
            mutant = Mutant(module=module, number=number, function=function, line=site.line, kind=site.kind)
            by_function.setdefault(function, []).append(mutant)
    random = Random(f"{seed} {module}")
    waiting = [random.sample(mutants, len(mutants)) for mutants in by_function.values()]
    random.shuffle(waiting)
    chosen = list[Mutant]()
    while waiting and len(chosen) < count:
        chosen += [mutants.pop() for mutants in waiting]
        waiting = [mutants for mutants in waiting if mutants]
    return sorted(chosen[:count], key=lambda mutant: mutant.number)


def changed(source: str, mutant: Mutant) -> ast.Module:
    """Return the module with this one change."""
    tree = ast.parse(source)
    for number, (_, site) in enumerate(_sites(tree)):
        if number == mutant.number:
            site.change()
            return ast.fix_missing_locations(tree)
    raise ValueError(f"{mutant.module} has no change {mutant.number}")


def _sites(tree: ast.Module) -> Iterator[tuple[str, _Site]]:
    # As a list, because a change alters the tree that is walked.
    found = [(name, site) for name, function in outer_functions(tree) for site in _sites_of(function)]
    yield from found


def outer_functions(scope: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """Return functions of the module and methods, by qualified name; functions inside others belong to these."""
    for node in scope.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from outer_functions(node, f"{prefix}{node.name}.")


def _sites_of(function: Function) -> Iterator[_Site]:
    documented = ast.get_docstring(function, clean=False) is not None
    for statement in function.body[documented:]:
        for node in _walk(statement):
            yield from _in_expression(node)
            yield from _in_statement(node)
    for body in _bodies(function):
        for place, statement in enumerate(body):
            if isinstance(statement, ast.Raise | ast.Continue | ast.Break) or _is_kept_elsewhere(statement):
                yield _site(statement, f"no {type(statement).__name__.lower()}", _put(body, place, ast.Pass()))


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Return what runs, without annotations; an assertion of ours says what is always so."""
    if isinstance(node, ast.Assert):
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name not in _NOT_CODE:
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _walk(child)


def _bodies(function: Function) -> Iterator[list[ast.stmt]]:
    for node in _walk(function):
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list):
                yield body


def _is_kept_elsewhere(statement: ast.stmt) -> bool:
    """Whether it assigns to what outlives the function, or to what others see."""
    return isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Attribute | ast.Subscript)


def _in_expression(node: ast.AST) -> Iterator[_Site]:
    match node:
        case ast.Compare():
            for place, operator in enumerate(node.ops):
                if type(operator) in _SWAPPED:
                    yield _site(node, *_swap(operator, partial(node.ops.__setitem__, place)))
        case ast.BoolOp(op=operator) | ast.BinOp(op=operator) | ast.AugAssign(op=operator) if (
            type(operator) in _SWAPPED
        ):
            yield _site(node, *_swap(operator, lambda new: setattr(node, "op", new)))
        case ast.Constant(value=value):
            other = _other(value)
            if other is not None:
                yield _site(node, f"{value!r:.40} -> {other!r:.40}", lambda: setattr(node, "value", other))
        case ast.IfExp():
            yield _negation(node)
        case _:
            pass


def _in_statement(node: ast.AST) -> Iterator[_Site]:
    match node:
        case ast.If() | ast.While():
            yield _negation(node)
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.Return(value=ast.expr()) if not _is_none(node.value):
            nothing = ast.Constant(value=None)
            yield _site(
                node, "not called" if isinstance(node, ast.Expr) else "None", lambda: setattr(node, "value", nothing)
            )
        case _:
            pass


def _site(node: ast.expr | ast.stmt, kind: str, change: Callable[[], None]) -> _Site:
    return _Site(node.lineno, kind, change)


def _swap(operator: ast.AST, put: Callable[[Any], None]) -> tuple[str, Callable[[], None]]:
    new = _SWAPPED[type(operator)]
    return f"{type(operator).__name__} -> {new.__name__}", lambda: put(new())


def _negation(node: ast.If | ast.While | ast.IfExp) -> _Site:
    return _site(node.test, "not", lambda: setattr(node, "test", ast.UnaryOp(op=ast.Not(), operand=node.test)))


def _put(body: list[ast.stmt], place: int, statement: ast.stmt) -> Callable[[], None]:
    return lambda: body.__setitem__(place, statement)


def _is_none(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _other(value: object) -> object:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return f"{value}~"
        case bytes():
            return value + b"~"
        case _:
            return None
