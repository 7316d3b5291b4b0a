"""Measures the project's own Python against limits: `python -m tests.tidy`.

Prints a table, and whatever the list of exceptions, tests/tidy_exceptions.toml, does not allow. The list only shrinks:
`--write` removes what is within the limits by now and lowers what has become smaller; it neither adds nor raises
anything. A file that is renamed takes its line along by hand. Where there is no list, `--write` begins one with what
there is. `--root DIR` measures another checkout, for a table of before and after.

Measured are, generated code left out:

- a file: all its lines;
- a function: its lines from `def` on, nested functions included;
- parameters: those of a function or method, a constructor's too, without `self` and `cls`. A typer command has no
  limit, because each of its parameters is an option that users see. Fields of a dataclass are not counted: a value
  with a name is what too many parameters become;
- methods: those of a class, with what it inherits from classes of the project; `tests.class_methods` counts them;
- imports: modules outside of the file's own folder, wherever in the file they are imported; the standard library is
  not counted. Tables that name every API have no limit: a new API is a new line there;
- copies: runs of six or more equal lines that two files share, or one file has twice; `tests.copied_lines` says which
  lines count.
"""

from __future__ import annotations

import argparse
import ast
import gc
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.class_methods import ClassFacts, classes_of, method_counts
from tests.copied_lines import Copies, code_lines, find_copies, inner, statements

ROOT: Final = Path(__file__).resolve().parents[1]
EXCEPTIONS: Final = Path("tests", "tidy_exceptions.toml")
PACKAGES: Final = ("benchmarks", "chaos", "kraft", "pyspark_kraft", "spark_connector", "tests")
LOWER_IT: Final = "run python -m tests.tidy --write"
PAIR: Final = " ~ "

TABLES: Final = frozenset(
    {
        "kraft/server/broker/apis.py",
        "kraft/server/controller/quorum_controller.py",
        "kraft/server/kafka_listener/kafka_admin_apis.py",
    }
)
"""Files with a line for each API, or for each family of them."""

Sizes = dict[str, int]
"""File, function or pair of files -> how large."""

Exceptions = Mapping[str, Mapping[str, int]]
"""Rule -> what exceeds it -> how large it is."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A limit on one measure, and what to do about code above it."""

    name: str
    measures: str
    unit: str
    limit: int
    remedy: str


RULES: Final = (
    Rule("file", "lines of a file", "lines", 500, "split it by what changes together"),
    Rule("function", "lines of a function", "lines", 60, "split it by what it does"),
    Rule("parameters", "parameters of a function", "parameters", 10, "make those that belong together a value"),
    Rule("methods", "methods of a class with its bases", "methods", 40, "give part of its work to an object"),
    Rule("imports", "imports of a file", "imports", 25, "give part of its work to a file of its own"),
    Rule("copies", "copies in a pair of files", "copies", 0, "write it once, where both can import it"),
)


@dataclass(slots=True)
class House:
    """The measures of a source tree, by name of the rule."""

    sizes: dict[str, Sizes] = field(default_factory=lambda: {rule.name: {} for rule in RULES})
    options: Sizes = field(default_factory=dict)
    copies: Copies = field(default_factory=dict)

    def exceeding(self) -> dict[str, Sizes]:
        return {
            rule.name: {what: size for what, size in sorted(self.sizes[rule.name].items()) if size > rule.limit}
            for rule in RULES
        }


def measured(root: Path) -> House:
    """Reads every file of the project below `root`; generated code is left out."""
    # Trees hold no cycles, and looking for some in them takes a third of the time.
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        return _measured(root)
    finally:
        if is_enabled:
            gc.enable()


def _measured(root: Path) -> House:
    house = House()
    lines, classes = {}, dict[str, ClassFacts]()
    for path in sorted(path for package in PACKAGES for path in (root / package).rglob("*.py")):
        file = path.relative_to(root)
        if "pb" not in file.parts:
            text = path.read_text(encoding="utf-8")
            tree = ast.parse(text)
            name = file.as_posix()
            house.sizes["file"][name] = len(text.splitlines())
            if name not in TABLES:
                house.sizes["imports"][name] = len(_imports(tree, file.parent, root))
            _measure_functions(house, name, tree)
            classes |= classes_of(tree, name)
            lines[name] = code_lines(text, tree)
    house.sizes["methods"] = method_counts(classes)
    house.copies = find_copies(lines)
    house.sizes["copies"] = {PAIR.join(pair): len(runs) for pair, runs in house.copies.items()}
    return house


def _measure_functions(house: House, file: str, tree: ast.Module) -> None:
    for name, node in _functions(tree, f"{file}::"):
        _raise_to(house.sizes["function"], name, (node.end_lineno or node.lineno) - node.lineno + 1)
        _raise_to(house.options if _is_command(node) else house.sizes["parameters"], name, _parameters(node))


def _raise_to(sizes: Sizes, name: str, size: int) -> None:
    """A property and its setter, or two branches, bear one name: the larger counts."""
    sizes[name] = max(size, sizes.get(name, 0))


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function below `node`, by its qualified name."""
    for child in inner(node):
        match child:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield f"{prefix}{child.name}", child
                yield from _functions(child, f"{prefix}{child.name}.")
            case ast.ClassDef():
                yield from _functions(child, f"{prefix}{child.name}.")
            case _:
                yield from _functions(child, prefix)


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    arguments = node.args
    named = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    rest = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    return len(named) - (named[:1] in (["self"], ["cls"])) + len(rest)


def _is_command(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    decorators = {ast.unparse(decorator).partition("(")[0] for decorator in node.decorator_list}
    return any(name.endswith((".command", ".callback")) for name in decorators) or "typer." in ast.unparse(node.args)


def _imports(tree: ast.Module, folder: Path, root: Path) -> set[str]:
    """Modules outside of `folder`, dotted; a name that is no module stands for the module that it is in."""
    found = set()
    for statement in statements(tree):
        match statement:
            case ast.Import():
                found |= {alias.name for alias in statement.names}
            case ast.ImportFrom(module=str(package)):
                found |= {_module(package, alias.name, root) for alias in statement.names}
            case _:
                pass
    own = ".".join(folder.parts)
    return {
        module
        for module in found
        if module.partition(".")[0] not in sys.stdlib_module_names and own not in (module, module.rpartition(".")[0])
    }


def _module(package: str, name: str, root: Path) -> str:
    path = root.joinpath(*package.split("."), name)
    return f"{package}.{name}" if path.is_dir() or path.with_suffix(".py").is_file() else package


def read_exceptions(path: Path) -> Exceptions:
    return tomllib.loads(path.read_text())


def written(exceptions: Exceptions) -> str:
    """The text of the list."""
    sections = [
        f"[{rule.name}] # {rule.measures}, above {rule.limit}\n"
        + "".join(f'"{what}" = {size}\n' for what, size in sorted(exceptions.get(rule.name, {}).items()))
        for rule in RULES
    ]
    return "\n".join(["# What exceeds a limit of tests/tidy.py. The list only shrinks.\n", *sections])


def lowered(listed: Exceptions, house: House) -> Exceptions:
    """The list without what is within the limits by now; nothing in it has come or grown."""
    now = house.exceeding()
    return {
        rule: {what: min(size, now[rule][what]) for what, size in sizes.items() if what in now[rule]}
        for rule, sizes in listed.items()
    }


def all_complaints(house: House, listed: Exceptions) -> list[str]:
    return [complaint for rule in RULES for complaint in complaints(house, listed, rule)]


def complaints(house: House, listed: Exceptions, rule: Rule) -> list[str]:
    """One line for each size above the limit that is not the listed one, and for each that is listed for nothing."""
    now, before = house.exceeding()[rule.name], listed.get(rule.name, {})
    return [
        _complaint(house, rule, what, now.get(what), before.get(what))
        for what in sorted({*now, *before})
        if now.get(what) != before.get(what)
    ]


def _complaint(house: House, rule: Rule, what: str, size: int | None, listed: int | None) -> str:
    if size is None:
        return f"{what} is gone, or within {rule.limit} {rule.unit}, but listed with {listed}: {LOWER_IT}"
    if listed is not None and size < listed:
        return f"{what} has only {size} {rule.unit}, but is listed with {listed}: {LOWER_IT}"
    allowed = rule.limit if listed is None else listed
    return f"{what} has {size} {rule.unit}, {allowed} are allowed: {rule.remedy}{_places(house, rule, what)}"


def _places(house: House, rule: Rule, what: str) -> str:
    """Return the positions of copied lines; everything else is found by its name."""
    if rule.name != "copies":
        return ""
    first, _, second = what.partition(PAIR)
    runs = house.copies[first, second]
    return "".join(f"\n  {first}:{run.first} {second}:{run.second}-{run.second_end}" for run in runs)


def table(house: House, rows: int = 5) -> str:
    """The largest by each measure, and how many exceed its limit."""
    files = house.sizes["file"]
    folders = Counter(file.rpartition("/")[0] for file in files)
    sections = [
        f"{sum(files.values()):,} lines in {len(files):,} files of {len(folders)} folders",
        _ranking("files in a folder", folders, rows),
        *(_ranking(_title(house, rule), house.sizes[rule.name], rows) for rule in RULES),
        _ranking("options of a command", house.options, rows),
    ]
    return "\n\n".join(sections)


def _title(house: House, rule: Rule) -> str:
    above = house.exceeding()[rule.name].values()
    return f"{rule.measures}: {len(above)} above {rule.limit}, with {sum(above):,} {rule.unit} in all"


def _ranking(title: str, sizes: Mapping[str, int], rows: int) -> str:
    largest = sorted(sizes.items(), key=lambda item: (-item[1], item[0]))[:rows]
    return "\n".join([title, *(f"{size:6,}  {what}" for what, size in largest)])


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.tidy", description="Measure the project's own Python.")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout to measure")
    parser.add_argument("--write", action="store_true", help="lower the list of exceptions; begin it if there is none")
    options = parser.parse_args(arguments)
    house = measured(options.root)
    print(table(house))
    path = options.root / EXCEPTIONS
    if options.write:
        path.write_text(written(lowered(read_exceptions(path), house) if path.exists() else house.exceeding()))
    told = all_complaints(house, read_exceptions(path)) if path.exists() else []
    print(*told, sep="\n", file=sys.stderr)
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
