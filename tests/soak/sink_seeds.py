"""Simulates drivers that commit batches, on many seeds: python -m tests.soak.sink_seeds --seeds 1000 --first-seed 0"""

from __future__ import annotations

import sys

from tests.simulation.sink_runs import Tally, run
from tests.soak.seeds import run_seeds, seed_options


def main(arguments: list[str]) -> int:
    options = seed_options("tests.soak.sink_seeds", __doc__, seeds=1_000).parse_args(arguments)
    total = Tally()
    return run_seeds(options, lambda seed: total.add(run(seed)), lambda: total)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
