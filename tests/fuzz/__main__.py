"""`python -m tests.fuzz --seconds N [--target X]`: gives random bytes to every decoder.

Each target runs in a process of its own, with a bound on memory and on time for every input. With atheris (which has
wheels for Linux) coverage guides new inputs; without it they are randomly damaged seeds, and the
table says so. The exit code is 1 if a target crashed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
_GRACE_S: Final = 60.0
_INPUTS_TRIED: Final = (re.compile(r"inputs tried: (\d+)"), re.compile(r"stat::number_of_executed_units: *(\d+)"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    target: str
    inputs: int
    seconds: float
    crash: str
    """The error in one line; empty if there was none."""


def main() -> int:
    from tests.fuzz.targets import targets

    names = sorted(targets())
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="time for each target, in seconds (60)")
    parser.add_argument(
        "--inputs", type=int, default=0, help="most inputs for each target; 0, the default, sets no limit"
    )
    parser.add_argument(
        "--target", action="append", choices=names, help="target to run, may be repeated; by default all"
    )
    parser.add_argument("--mode", choices=["atheris", "random"], help="atheris when it is installed, otherwise random")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random inputs (1)")
    parser.add_argument("--jobs", type=int, default=1, help="targets at the same time (1)")
    parser.add_argument(
        "--crashes", type=Path, help="folder that keeps the inputs that crash; by default a temporary one"
    )
    options = parser.parse_args()
    mode = options.mode or ("random" if find_spec("atheris") is None else "atheris")
    if options.mode is None and mode == "random":
        print("atheris is not installed here: inputs are seeds damaged at random, led by nothing")
    crashes = options.crashes or Path(tempfile.mkdtemp(prefix="kraft-fuzz-"))
    run = partial(
        run_target, mode=mode, seconds=options.seconds, inputs=options.inputs, seed=options.seed, crashes=crashes
    )
    with ThreadPoolExecutor(options.jobs) as executor:
        outcomes = list(executor.map(run, options.target or names))
    print_table(outcomes, mode, options.seed)
    failed = [outcome for outcome in outcomes if outcome.crash]
    if not options.crashes and not failed:
        crashes.rmdir()
    return 1 if failed else 0


def run_target(target: str, *, mode: str, seconds: float, inputs: int, seed: int, crashes: Path) -> Outcome:
    """Run a target in a process of its own, which is killed if it does not end."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kraft-fuzz-") as folder:
        command = [sys.executable, "-m", "tests.fuzz.one_target", target, "--mode", mode, "--folder", folder]
        command += ["--seconds", str(seconds), "--inputs", str(inputs), "--seed", str(seed)]
        try:
            finished = subprocess.run(
                command,
                cwd=ROOT,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=seconds + _GRACE_S,
                check=False,
            )
            output, code = finished.stdout + finished.stderr, finished.returncode
        except subprocess.TimeoutExpired as expired:
            pieces = [piece.decode(errors="replace") for piece in (expired.stdout, expired.stderr) if piece]
            output, code = "".join(pieces) + f"\nstill busy after {seconds + _GRACE_S:g} s", -1
        crash = "" if code == 0 else _reason(output, code)
        if crash:
            crash += _kept(Path(folder), crashes, target, output)
    print(f"{target}: {crash or 'no crash'}", file=sys.stderr, flush=True)
    return Outcome(target=target, inputs=_inputs_tried(output), seconds=time.monotonic() - begun, crash=crash)


def _inputs_tried(output: str) -> int:
    return max((int(found) for pattern in _INPUTS_TRIED for found in pattern.findall(output)), default=0)


def _reason(output: str, code: int) -> str:
    lines = [
        line.strip()
        for line in output.splitlines()
        if re.match(r"\s*(\w+\.)*\w*(Error|TooSlow|InvalidBatch|Corruption|Refusal|still busy)\b", line)
    ]
    return lines[-1] if lines else f"exit code {code}"


def _kept(folder: Path, crashes: Path, target: str, output: str) -> str:
    """Copy the input that reproduces the crash to a permanent place; return its path."""
    crashes.mkdir(parents=True, exist_ok=True)
    (crashes / f"{target}.txt").write_text(output)
    found = [file for file in folder.iterdir() if file.is_file()]
    for file in found:
        (crashes / f"{target}.{file.name}").write_bytes(file.read_bytes())
    return f" (see {crashes}/{target}.*)"


def print_table(outcomes: list[Outcome], mode: str, seed: int) -> None:
    print(f"mode {mode}, seed {seed}, Python {sys.version.split()[0]}")
    print(f"{'target':<20} {'inputs tried':>13} {'seconds':>8}  crashes")
    for outcome in outcomes:
        print(f"{outcome.target:<20} {outcome.inputs:>13,} {outcome.seconds:>8.0f}  {outcome.crash or 0}")
    crashed = sum(bool(outcome.crash) for outcome in outcomes)
    print(f"{len(outcomes)} targets, {sum(outcome.inputs for outcome in outcomes):,} inputs tried, {crashed} crashes")


if __name__ == "__main__":
    sys.exit(main())
