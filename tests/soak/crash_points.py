"""`python -m tests.soak.crash_points`: the power fails at every point of a log's life, in many workloads."""

from __future__ import annotations

import argparse
import sys

from tests.simulation.crash_points import STEPS_OF_OTHER_ENDS, Tally, crash_everywhere
from tests.simulation.failed_syncs import fail_everywhere
from tests.simulation.half_deleted import delete_halves


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.crash_points", description=__doc__)
    parser.add_argument("--first-seed", type=int, default=0, help="first seed of a workload (0)")
    parser.add_argument("--seeds", type=int, default=10, help="number of workloads (10)")
    options = parser.parse_args(arguments)
    total = Tally()
    failed_syncs = after_failed_syncs = half_deleted = refused = failures = 0
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        try:
            tally = crash_everywhere(seed)
            failed = fail_everywhere(seed, STEPS_OF_OTHER_ENDS)
            halves, refused_halves = delete_halves(seed, STEPS_OF_OTHER_ENDS)
        except AssertionError as failure:
            failures += 1
            print(f"workload {seed}: {failure}", flush=True)
            continue
        total.points += tally.points
        total.crashes += tally.crashes
        total.recoveries += tally.recoveries
        total.second_crashes += tally.second_crashes
        total.steps += tally.steps
        failed_syncs += failed.failed_syncs
        after_failed_syncs += failed.recoveries
        half_deleted += halves
        refused += refused_halves
    print(f"{options.seeds} workloads, {failures} of them failed; of the others {total}")
    print(
        f"{failed_syncs} failed syncs, each with a restart and then a loss of power: {after_failed_syncs} recoveries; "
        f"{half_deleted} half deleted directories: {refused} refused as damaged, the others keep their front"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
