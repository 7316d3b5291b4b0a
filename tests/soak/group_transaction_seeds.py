"""Runs simulated transactions with groups and elections: python -m tests.soak.group_transaction_seeds --seeds 1000

Each seed runs twice: workers that read, write and commit offsets, with all coordinators and partitions; and a partition
of a group coordinator alone, with more of what can happen to offsets in transactions.
"""

from __future__ import annotations

import sys

from tests.simulation import exactly_once_runs, group_transactions_runs
from tests.soak.seeds import run_seeds, seed_options


def main(arguments: list[str]) -> int:
    options = seed_options("tests.soak.group_transaction_seeds", __doc__, seeds=1_000).parse_args(arguments)
    workers, offsets = exactly_once_runs.Tally(), group_transactions_runs.Tally()

    def run(seed: int) -> None:
        workers.add(exactly_once_runs.run(seed))
        offsets.add(group_transactions_runs.run(seed))

    return run_seeds(options, run, lambda: f"workers: {workers}; offsets: {offsets}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
