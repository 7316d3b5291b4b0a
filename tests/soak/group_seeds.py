"""Runs the simulated consumer groups on many seeds: python -m tests.soak.group_seeds --seeds 1000 --first-seed 0"""

from __future__ import annotations

import sys

from kraft.coordinator import shard_machine
from tests.simulation.groups_runs import Tally, run
from tests.soak.seeds import run_seeds, seed_options


def main(arguments: list[str]) -> int:
    parser = seed_options("tests.soak.group_seeds", __doc__, seeds=1_000)
    parser.add_argument("--in-turns", action="store_true", help="Let other events happen between timers due together")
    options = parser.parse_args(arguments)
    if options.in_turns:
        vars(shard_machine).update(TIMERS_AT_ONCE=1)
    total = Tally()
    return run_seeds(options, lambda seed: total.add(run(seed, in_turns=options.in_turns)), lambda: total)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
