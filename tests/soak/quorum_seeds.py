"""Runs the simulated quorum on many seeds: python -m tests.soak.quorum_seeds --seeds 1000 --first-seed 0"""

from __future__ import annotations

import sys

from tests.simulation.quorum_runs import FAULTS_S, Tally, run
from tests.soak.seeds import run_seeds, seed_options


def main(arguments: list[str]) -> int:
    parser = seed_options("tests.soak.quorum_seeds", __doc__, seeds=100)
    parser.add_argument("--faults-s", type=float, default=FAULTS_S, help="virtual seconds of faults in each run")
    parser.add_argument("--lost-directories", action="store_true", help="voters lose their directories, one by one")
    options = parser.parse_args(arguments)
    total = Tally()

    def run_one(seed: int) -> None:
        total.add(run(seed, options.faults_s, lost_directories=options.lost_directories))

    return run_seeds(options, run_one, lambda: total)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
