"""Tests that prove nothing of their own: `python -m tests.measured PACKAGE...`, such as `kraft/metadata`.

The unit tests of a package run once each, which says what lines they cover; then mutants of each module run with the
tests that cover the changed line. A test may go if

- it kills no mutant alone, and is not needed so that three tests that stay kill every mutant that was killed, and two
  cover every line that was covered, or as many as there are (`--killers`, `--covering`);
- no row of docs/checklist.md names it, and it was not born in a commit that mends something.

Whether it goes, a reader decides: mutants are a sample, change one place at a time, and do not change declarations of
modules and classes. The report estimates how many of other mutants nothing would notice any more. What was measured is
kept in build/measured and used again as long as the package and its tests are the same. Deterministic by `--seed`, but
for tests that end at a deadline.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from collections.abc import Collection, Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.checklist import CHECKLIST, rows
from tests.measured import report
from tests.measured.births import born_in_fixes
from tests.measured.measurement import ROOT, Limits, Measurement
from tests.measured.verdicts import Rule

# An example that fails need not be the smallest.
settings.register_profile(
    "measured",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),
)


def tests_of(package: Path) -> Path:
    """Return the folder of the unit tests of a package, which may be a part of one."""
    return ROOT / "tests" / "unit" / package.relative_to("kraft" if package.parts[0] == "kraft" else "")


def modules_of(package: Path) -> list[Path]:
    return [path for path in sorted((ROOT / package).rglob("*.py")) if "pb" not in path.parts]


def directory_of(package: Path) -> Path:
    """Return where the measurement of exactly these modules and tests is kept."""
    digest = hashlib.sha256()
    for folder in (ROOT / package, tests_of(package), ROOT / "tests" / "support"):
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.read_bytes())
    directory = ROOT / "build" / "measured" / f"{'.'.join(package.parts)}-{digest.hexdigest()[:12]}"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def measure(package: Path, limits: Limits) -> int:
    """Measure, in a process of its own: collected tests cannot be forgotten."""
    pid = os.fork()
    if pid == 0:
        os.nice(10)
        plugin = Measurement(modules_of(package), directory_of(package), limits)
        os.chdir(ROOT)
        arguments = ["-q", "-s", "--no-header", "-m", "not slow and not spark", "--hypothesis-profile=measured"]
        status = pytest.main([*arguments, str(tests_of(package))], plugins=[plugin])
        sys.stdout.flush()
        os._exit(int(status))
    _, ended = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(ended)


def packages(names: Iterable[str]) -> Collection[Path]:
    found = [Path(name) for name in names]
    for package in found:
        if not (ROOT / package).is_dir() or not tests_of(package).is_dir():
            raise SystemExit(f"measured: {package} is no package with unit tests; name one such as kraft/metadata")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.measured", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("package", nargs="+")
    defaults = Limits()
    parser.add_argument("--mutants", type=int, default=defaults.mutants, help="mutants of each module")
    parser.add_argument("--seed", type=int, default=defaults.seed)
    parser.add_argument("--workers", type=int, default=defaults.workers, choices=(1, 2))
    parser.add_argument("--killers", type=int, default=Rule().killers, help="tests that are to kill each mutant")
    parser.add_argument("--covering", type=int, default=Rule().covering, help="tests that are to cover each line")
    parser.add_argument("--output", choices=("table", "json"), default="table")
    options = parser.parse_args()
    limits = Limits(mutants=options.mutants, seed=options.seed, workers=options.workers)
    rule = Rule(
        named={str(test) for row in rows(CHECKLIST.read_text()) for test in row.tests},
        born_in_fix=born_in_fixes(ROOT),
        killers=options.killers,
        covering=options.covering,
    )
    reports = []
    for package in packages(options.package):
        status = measure(package, limits)
        if status != 0:
            print(f"measured: the tests of {package} ended with {status}", file=sys.stderr)
            return 1
        reports.append(report.of(package, directory_of(package), limits.seed, rule))
    print(report.as_json(reports) if options.output == "json" else report.as_table(reports))
    return 0


if __name__ == "__main__":
    sys.exit(main())
