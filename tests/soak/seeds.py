"""Runs a simulation on many seeds, and reports those that fail."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable


def seed_options(program: str, description: str | None, *, seeds: int) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=description)
    parser.add_argument("--seeds", type=int, default=seeds, help=f"number of seeds ({seeds})")
    parser.add_argument("--first-seed", type=int, default=0, help="first seed (0)")
    return parser


def run_seeds(options: argparse.Namespace, run: Callable[[int], object], total: Callable[[], object]) -> int:
    """Run each seed, and print those that fail, and the total at the end. Return the exit code."""
    violations, began_s = 0, time.monotonic()
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        try:
            run(seed)
        except Exception as violation:  # noqa: BLE001  Whatever it is, the seed is wanted, and the other seeds too.
            violations += 1
            print(f"seed {seed}: {type(violation).__name__}: {violation}", flush=True)
    print(f"{total()}; {violations} violations; {time.monotonic() - began_s:.0f} s")
    return 1 if violations else 0
