"""`python -m tests.soak.bit_flips`: single bits of a segment flipped, in every situation; every bit by default."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from random import Random

from tests.simulation.bit_flips import BITS, Outcome, Situation, summary, try_bits


def _try_part(task: tuple[Situation, Sequence[int]]) -> tuple[Counter[Outcome], dict[Outcome, int]]:
    situation, bits = task
    return try_bits(situation, lambda _: bits)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.bit_flips", description=__doc__)
    parser.add_argument("--workers", type=int, default=1, help="processes at work at the same time")
    parser.add_argument(
        "--situation", choices=[one.name.lower().replace("_", "-") for one in Situation], action="append"
    )
    parser.add_argument(
        "--bits", type=int, default=BITS, help=f"number of bits to flip, chosen at random; by default all {BITS:,}"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the choice of bits (1)")
    options = parser.parse_args(arguments)
    is_bad = False
    bits = range(BITS)
    chosen = bits if options.bits >= BITS else sorted(Random(options.seed).sample(bits, options.bits))
    size = BITS // 64
    with ProcessPoolExecutor(options.workers) as pool:
        for situation in Situation:
            if options.situation and situation.name.lower().replace("_", "-") not in options.situation:
                continue
            began = time.monotonic()
            seen: Counter[Outcome] = Counter()
            first: dict[Outcome, int] = {}
            tasks = [(situation, chosen[start : start + size]) for start in range(0, len(chosen), size)]
            for tried, firsts in pool.map(_try_part, tasks):
                seen += tried
                first = firsts | first
            print(f"{summary(situation, seen)} in {time.monotonic() - began:.0f} s", flush=True)
            for outcome, bit in first.items():
                if outcome.is_bad:
                    is_bad = True
                    print(f"  the first {outcome.value}: bit {bit}", flush=True)
    return 1 if is_bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
