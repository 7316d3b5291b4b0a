"""Unit tests of what changed: `python -m tests.changed [arguments for pytest]`, the last part of `make check`.

A file has changed if it differs from the merge base with the main branch, committed or not. These tests run:

- those of the whole tree: its map, its documents, its checklist, its sizes;
- test files that changed, and those at the place of a module that changed: `kraft/log/partition_log.py` has
  `tests/unit/log/test_partition_log*.py`;
- test files that import a module that changed, directly or through its package or modules of `tests`, and those that
  name a file that is not Python.

At most FILES_MAX files run beside those of the whole tree, in this order, direct imports first. A line says how many
are left to `make test`.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
MAIN_BRANCHES: Final = ("main", "origin/main")
FILES_MAX: Final = 30
FILES_OF_A_WORKER: Final = 8
WHOLE_TREE: Final = tuple(f"tests/unit/test_{name}.py" for name in ("checklist", "documents", "house", "tidy"))

_GIT_DEADLINE_S: Final = 30.0


class NotAClone(Exception):
    """Git does not say what has changed; the text is its message."""


@dataclass(frozen=True, slots=True)
class Source:
    """A Python file: the modules that it imports, and its text."""

    imports: frozenset[str]
    text: str


@dataclass(frozen=True, slots=True)
class Selection:
    """Files of unit tests for a change, in the order in which they are taken."""

    own: list[str]
    dependent: list[str]

    def limited(self, files_max: int) -> list[str]:
        return [*self.own, *self.dependent][:files_max]

    def __len__(self) -> int:
        return len(self.own) + len(self.dependent)


# --- what has changed ----------------------------------------------------------------------------------------------


def changed_files(root: Path) -> list[str]:
    """Paths relative to `root`, those of removed files included. Raises NotAClone."""
    changed = _git(root, "diff", "--name-only", "--no-renames", "-z", _base(root))
    new = _git(root, "ls-files", "--others", "--exclude-standard", "-z")
    return sorted({name for name in (changed + new).split("\0") if name})


def _base(root: Path) -> str:
    """The merge base with the main branch; on that branch, or where there is none, what was committed last."""
    current = _git(root, "branch", "--show-current").strip()
    for branch in MAIN_BRANCHES:
        if branch != current:
            try:
                return _git(root, "merge-base", "HEAD", branch).strip()
            except NotAClone:
                continue
    return "HEAD"


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-c", "safe.directory=*", *arguments]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=_GIT_DEADLINE_S, check=False)
    except OSError as error:
        raise NotAClone(str(error)) from None
    if done.returncode != 0:
        raise NotAClone(done.stderr.strip())
    return done.stdout


# --- which tests those are -----------------------------------------------------------------------------------------


def read_sources(root: Path) -> dict[str, Source]:
    """Every Python file of `tests`, and every `__init__.py`, by its path relative to `root`."""
    sources = {}
    # What a package imports from its modules is imported from the package.
    for path in sorted([*(root / "tests").rglob("*.py"), *root.glob("[a-z]*/**/__init__.py")]):
        text = path.read_text(encoding="utf-8")
        sources[path.relative_to(root).as_posix()] = Source(frozenset(_imports(ast.parse(text))), text)
    return sources


def _imports(tree: ast.Module) -> Iterator[str]:
    """Dotted names; of `from a import b` both `a` and `a.b`, because `b` may be a module."""
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom(module=str(package)):
                yield package
                yield from (f"{package}.{alias.name}" for alias in node.names)
            case _:
                pass


def selection_for(changed: Collection[str], sources: Mapping[str, Source]) -> Selection:
    """The files of unit tests that a change of these files concerns, among `sources`."""
    tests = [name for name in sources if _is_unit_test(name)]
    places = tuple(place for name in changed for place in _places(name))
    own = [name for name in tests if name in changed or name.startswith(places)]
    dependent = [*_naming(changed, sources), *_importing(changed, sources), *_below_a_conftest(changed, tests)]
    return Selection(own, [name for name in dict.fromkeys(dependent) if name in tests and name not in own])


def _is_unit_test(name: str) -> bool:
    return name.startswith("tests/unit/") and name.rpartition("/")[2].startswith("test_")


def _places(name: str) -> Iterator[str]:
    """Return the beginnings of the paths of a module's own tests."""
    folders, _, file = name.rpartition("/")
    package, _, inner = folders.partition("/")
    if file.endswith(".py") and file != "__init__.py" and package and package != "tests":
        # Tests of `kraft` stand directly in tests/unit, those of the other packages in a folder of their name.
        folder = "/".join(part for part in ("tests/unit", "" if package == "kraft" else package, inner) if part)
        yield f"{folder}/test_{file.removesuffix('.py')}"


def _importing(changed: Iterable[str], sources: Mapping[str, Source]) -> list[str]:
    """Files that import a module that changed, then those that import one of these."""
    found = list[str]()
    modules = {_module(name) for name in changed if name.endswith(".py")}
    while modules:
        new = [name for name, source in sources.items() if source.imports & modules and name not in found]
        found += new
        modules = {_module(name) for name in new}
    return found


def _module(name: str) -> str:
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _below_a_conftest(changed: Iterable[str], tests: Iterable[str]) -> list[str]:
    folders = tuple(name.removesuffix("conftest.py") for name in changed if name.endswith("/conftest.py"))
    return [name for name in tests if name.startswith(folders)]


def _naming(changed: Iterable[str], sources: Mapping[str, Source]) -> list[str]:
    files = {name.rpartition("/")[2] for name in changed if not name.endswith(".py")}
    return [name for name, source in sources.items() if any(file in source.text for file in files)]


# --- the command ---------------------------------------------------------------------------------------------------


def message(files: int, changed: int, left: int) -> str:
    """Return the line that says how many files of tests run, for how many changed files, and how many do not run."""
    files_run = f"{files} file{'' if files == 1 else 's'} of unit tests"
    rest = f"; {left} more {'is' if left == 1 else 'are'} left to make test" if left else ""
    return f"{files_run} for {changed} changed file{'' if changed == 1 else 's'}{rest}"


def main(arguments: list[str]) -> int:
    try:
        changed = changed_files(ROOT)
    except NotAClone as reason:
        print(f"check: git does not say what has changed: {reason}; make test runs every test", file=sys.stderr)
        return 2
    selection = selection_for(changed, read_sources(ROOT))
    files = list(dict.fromkeys([*WHOLE_TREE, *selection.limited(FILES_MAX)]))
    left = len(selection) - len(selection.limited(FILES_MAX))
    print(f"check: {message(len(files), len(changed), left)}", flush=True)
    workers = min(os.cpu_count() or 1, len(files) // FILES_OF_A_WORKER)
    parallel = ["-n", str(workers), "--dist", "loadfile"] if workers > 1 else []
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow and not spark", *parallel, *files, *arguments]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
