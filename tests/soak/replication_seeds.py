"""Runs the replication world on many seeds: python -m tests.soak.replication_seeds --seeds 1000 --first-seed 0"""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulation.replication_runs import run_seed


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.replication_seeds", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1_000)
    parser.add_argument("--first-seed", type=int, default=0)
    options = parser.parse_args(arguments)
    violations = committed = elections = 0
    began_s = time.monotonic()
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        try:
            world = run_seed(seed)
        except Exception as violation:  # noqa: BLE001  Whatever it is, the seed is wanted, and the other seeds too.
            violations += 1
            print(f"seed {seed}: {type(violation).__name__}: {violation}", flush=True)
            continue
        committed += len(world.exposed)
        elections += world.controller.state.leader_epoch
    print(
        f"{options.seeds} seeds: {committed:,} records committed, {elections:,} elections; "
        f"{violations} violations; {time.monotonic() - began_s:.0f} s"
    )
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
