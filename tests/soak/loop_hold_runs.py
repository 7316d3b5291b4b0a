"""Measures how long an event loop computes in a turn with logs, markers, requests, ACLs and controllers at their worst.

    python -m tests.soak.loop_hold_runs --scenario truncation --scenario produce-entries --scale 0.1

Each scenario runs the parts of a broker or a controller that ship, on a real disk and in one process: no client takes
the same processor. What is printed is the processor time of the loop's thread in its longest turn, which does not
depend on other programs. At last, three attacks run at the same time. Ends with 1 if a turn reached 50 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from kraft.runtime.cycle_collector import bound_collections
from tests.soak.loads import held_acls, held_controllers, held_logs, held_requests, held_topics
from tests.support.measured_loop import run_measured

HELD_MS_GOAL: Final = 50.0

Work = Callable[[], Awaitable[object]]


class Scenario(NamedTuple):
    name: str
    prepare: Callable[[Path, float], Work]
    """Takes a directory and a scale of 1 or less; returns what is measured."""


SCENARIOS: Final = (
    Scenario("truncation", held_logs.truncation),
    Scenario("aborted-look-up", held_logs.aborted_look_up),
    Scenario("marker-flood", held_requests.marker_flood),
    Scenario("produce-entries", held_requests.produce_entries),
    Scenario("produce-refused", held_requests.produce_refused),
    Scenario("produce-batches", held_requests.produce_batches),
    Scenario("produce-topics", held_topics.produce_topics),
    Scenario("produce-unknown-topics", held_topics.produce_unknown_topics),
    Scenario("produce-refused-topics", held_topics.produce_refused_topics),
    Scenario("produce-topics-by-grpc", held_topics.produce_topics_by_grpc),
    Scenario("fetch-topics", held_topics.fetch_topics),
    Scenario("fetch-refused-topics", held_topics.fetch_refused_topics),
    Scenario("fetch-topic-ids", held_topics.fetch_topic_ids),
    Scenario("fetch-session", held_topics.fetch_session),
    Scenario("fetch-topics-by-grpc", held_topics.fetch_topics_by_grpc),
    Scenario("controller-restart", held_controllers.controller_restart),
    Scenario("many-acls", held_acls.many_acls),
)
TOGETHER: Final = ("aborted-look-up", "marker-flood", "produce-entries")


def run(scenarios: Sequence[Scenario], scale: float) -> float:
    """Run the scenarios on one loop, all at the same time; return the milliseconds of its longest turn."""
    with tempfile.TemporaryDirectory(prefix="kraft-loop-holds-") as directory:
        works = [each.prepare(Path(directory, each.name), scale) for each in scenarios]
        bound_collections()

        async def all_of_them() -> None:
            await asyncio.gather(*(work() for work in works))

        began_s = time.monotonic()
        _, longest_s = run_measured(all_of_them)
        names = ", ".join(each.name for each in scenarios)
        print(f"{names}: loop held {longest_s * 1_000:.1f} ms, {time.monotonic() - began_s:.1f} s in all", flush=True)
        return longest_s * 1_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [each.name for each in SCENARIOS]
    parser.add_argument("--scenario", action="append", choices=names, help="May be given several times; default: all")
    parser.add_argument("--scale", type=float, default=1.0, help="Part of the records, markers and partitions")
    arguments = parser.parse_args()
    structlog.configure(processors=[], logger_factory=structlog.ReturnLoggerFactory())
    chosen = [each for each in SCENARIOS if each.name in (arguments.scenario or names)]
    held_ms = [run([each], arguments.scale) for each in chosen]
    together = [each for each in chosen if each.name in TOGETHER]
    if len(together) > 1:
        held_ms.append(run(together, arguments.scale))
    sys.exit(0 if max(held_ms) < HELD_MS_GOAL else 1)


if __name__ == "__main__":
    main()
