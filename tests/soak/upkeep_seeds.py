"""Runs the upkeep world on many seeds: python -m tests.soak.upkeep_seeds --seeds 1000 --first-seed 0"""

from __future__ import annotations

import sys

from tests.simulation.upkeep_runs import run_upkeep_seed
from tests.soak.seeds import run_seeds, seed_options


def main(arguments: list[str]) -> int:
    options = seed_options("tests.soak.upkeep_seeds", __doc__, seeds=1_000).parse_args(arguments)
    committed = deleted = elections = 0

    def run(seed: int) -> None:
        nonlocal committed, deleted, elections
        world = run_upkeep_seed(seed)
        committed += world.exposed_end
        deleted += world.deleted_to
        elections += world.unclean_elections

    return run_seeds(
        options,
        run,
        lambda: (
            f"{options.seeds} seeds: {committed:,} offsets committed, {deleted:,} deleted, "
            f"{elections:,} unclean elections"
        ),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
