"""Commits that tests were born in, and which of these are fixes."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

FIX_TESTS_MAX: Final = 12
"""A commit with more new tests than this brings a feature."""

_GIT_DEADLINE_S: Final = 120.0
_COMMIT: Final = "\x01"
_DEFINITION: Final = re.compile(r"[+-] *(?:async )?def (test_\w+)\(")
_OF_A_FIX: Final = re.compile(
    r"\b(fix\w*|bugs?|wrong\w*|lost|loses?|leak(?:s|ed)?|hang|hangs|hung|crash\w*|stuck|races?|broken?|mistook|mistaken"
    r"|no longer|instead of|in place of|used to|(?:was|were) (?:never|not)|(?:had|did|could) not|no test|any more"
    r"|without an?|once, |seed|even (?:if|when)|before,|noticed|forgot\w*|refused|too (?:long|late|early|many|soon))\b",
    re.IGNORECASE,
)


@dataclass(slots=True)
class _Commit:
    message: str = ""
    removed: list[str] = field(default_factory=list)


def born_in_fixes(root: Path) -> set[str]:
    """Return the names of test functions whose first commit mends something. Raises CalledProcessError."""
    command = ["git", "-c", "safe.directory=*", "log", "--reverse", "-p", "--unified=0", "--no-renames", "--no-merges"]
    done = subprocess.run(
        [*command, f"--format={_COMMIT}%s%n%b", "--", "*.py"],
        cwd=root,
        capture_output=True,
        check=True,
        timeout=_GIT_DEADLINE_S,
    )
    return fixes_in(done.stdout.decode(errors="replace").split("\n"))


def fixes_in(log: Iterable[str]) -> set[str]:
    """Return the same from the lines of `git log --reverse -p`. A function that was only renamed keeps its birth."""
    births = dict[str, _Commit]()
    commit, is_message = _Commit(), False
    for line in log:
        if line.startswith(_COMMIT):
            commit, is_message = _Commit(line[1:]), True
        elif line.startswith("diff --git "):
            is_message = False
        elif is_message:
            commit.message += f"\n{line}"
        elif line.startswith("@@"):
            commit.removed = []
        elif found := _DEFINITION.match(line):
            if line.startswith("-"):
                commit.removed.append(found[1])
            else:
                # In a hunk the n-th definition takes the place of the n-th that goes.
                old = commit.removed.pop(0) if commit.removed else ""
                births.setdefault(found[1], births.get(old, commit))
    sizes = Counter(id(birth) for birth in births.values())
    return {
        name for name, birth in births.items() if sizes[id(birth)] <= FIX_TESTS_MAX and _OF_A_FIX.search(birth.message)
    }
