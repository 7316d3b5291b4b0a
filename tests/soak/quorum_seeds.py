"""Runs the simulated quorum on many seeds: python -m tests.soak.quorum_seeds --seeds 1000 --first-seed 0"""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulation.quorum_runs import FAULTS_S, Tally, run


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.quorum_seeds", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--faults-s", type=float, default=FAULTS_S, help="virtual seconds of faults in each run")
    options = parser.parse_args(arguments)
    total = Tally()
    violations = 0
    began_s = time.monotonic()
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        try:
            total.add(run(seed, options.faults_s))
        except Exception as violation:  # noqa: BLE001  Whatever it is, the seed is wanted, and the other seeds too.
            violations += 1
            print(f"seed {seed}: {type(violation).__name__}: {violation}", flush=True)
    print(f"{total}; {violations} violations; {time.monotonic() - began_s:.0f} s")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
