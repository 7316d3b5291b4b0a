"""Runs the replication world on many seeds: python -m tests.soak.replication_seeds --seeds 1000 --first-seed 0"""

from __future__ import annotations

import sys

from tests.simulation.replication_runs import run_seed
from tests.soak.seeds import run_seeds, seed_options


def main(arguments: list[str]) -> int:
    options = seed_options("tests.soak.replication_seeds", __doc__, seeds=1_000).parse_args(arguments)
    committed = elections = 0

    def run(seed: int) -> None:
        nonlocal committed, elections
        world = run_seed(seed)
        committed += len(world.exposed)
        elections += world.controller.state.leader_epoch

    return run_seeds(
        options, run, lambda: f"{options.seeds} seeds: {committed:,} records committed, {elections:,} elections"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
