"""Measures how long the loop is held while one client sends the worst requests, and an honest one does its work.

    python -m tests.soak.slow_request_runs --seconds 30 --attack list-offsets --attack fetch-records

Prints the honest client's times from a record sent to the record read, without and with the attack, and the longest
time for which the node's loop was held in each. Ends with 1 when a hold reached 50 ms, or the 99th percentile more than
three times what it was.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import quantiles
from typing import Final

from kraft.client import Admin, Consumer, Producer, TopicPartition
from kraft.server.loop.watch import LoopHold
from kraft.testing import Cluster
from tests.support.kafka import slow_requests
from tests.support.kafka.slow_requests import ATTACKS, COMPACTED, KEYED, LIES, LOOK_UPS, MANY, Attack

HELD_MS_GOAL: Final = 50.0
SLOWER_GOAL: Final = 3.0
PAUSE_S: Final = 0.01
"""Pause of the honest client between a record that it has read and the next one."""

WARM_UP_S: Final = 2.0

_MEASURED: Final = (sys.executable, "-m", "tests.soak.loads.measured_node")
_HONEST: Final = TopicPartition("honest", 0)
_WAIT_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Times of the honest client, and of the node's loop."""

    records: int
    p50_ms: float
    p99_ms: float
    worst_ms: float
    held: LoopHold
    """The longest hold of the loop."""

    computed_ms: float
    """Processor time of the loop's thread during a hold: the part that does not depend on other programs."""

    def __str__(self) -> str:
        return (
            f"{self.records:5,} records, p50 {self.p50_ms:6.1f} ms, p99 {self.p99_ms:6.1f} ms, "
            f"worst {self.worst_ms:6.1f} ms; loop held {self.held.held_ms:6.1f} ms "
            f"({self.held.loop_cpu_ms:.1f} ms of them computing), computed {self.computed_ms:.1f} ms at a time"
        )


class SlowRequestRuns:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def prepare(self) -> None:
        with Admin(self.cluster.bootstrap_servers) as admin:
            for topic in (_HONEST.topic, LIES, MANY):
                admin.create_topic(topic, 1, 1, configs={"message.timestamp.after.max.ms": str(2**62)})
            admin.create_topic(KEYED, 1, 1, configs={"cleanup.policy": "compact"})
        slow_requests.prepare(self.cluster.bootstrap_servers)

    def attack(self, kinds: Sequence[str], look_ups: int = LOOK_UPS) -> Attack:
        servers = self.cluster.bootstrap_servers, self.cluster.kafka_bootstrap_servers
        return Attack(*servers, tuple(kinds), look_ups=look_ups)

    def phase(self, seconds: float) -> Phase:
        """The honest client alone, or beside what else goes on."""
        began = datetime.now(UTC)
        times_ms = _honest_client(self.cluster.bootstrap_servers, seconds)
        cuts = quantiles(times_ms, n=100)
        holds = reported_holds(self.cluster.node(1).log_path, began)
        return Phase(
            records=len(times_ms),
            p50_ms=cuts[49],
            p99_ms=cuts[98],
            worst_ms=max(times_ms),
            held=max(holds, default=LoopHold(0, 0, 0)),
            computed_ms=max((hold.loop_cpu_ms for hold in holds), default=0),
        )


def reported_holds(log_path: Path, since: datetime) -> list[LoopHold]:
    """Those that the node reported since then."""
    entries = (json.loads(line) for line in log_path.read_text().splitlines() if '"event loop blocked"' in line)
    return [
        LoopHold(*(entry[name] for name in LoopHold._fields))
        for entry in entries
        if datetime.fromisoformat(entry["timestamp"]) >= since
    ]


def _honest_client(servers: str, seconds: float) -> list[float]:
    """Milliseconds from sending a record until it was read, one after the other."""
    times_ms: list[float] = []
    with Producer(servers, acks="all", linger_ms=0) as producer, Consumer(servers) as consumer:
        consumer.assign([_HONEST])
        consumer.seek(_HONEST, producer.send(_HONEST.topic, b"first").result(_WAIT_MS / 1_000).offset + 1)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            began = time.perf_counter()
            sent = producer.send(_HONEST.topic, b"value")
            while not (records := consumer.poll(_WAIT_MS)):
                pass
            times_ms.append((time.perf_counter() - began) * 1_000)
            assert records[-1].offset == sent.result(_WAIT_MS / 1_000).offset
            time.sleep(PAUSE_S)
    return times_ms


def _attack(attack: Attack, seconds: float) -> None:
    """Run the attack in a process of its own."""
    attack.run(seconds)
    for name, count in sorted(attack.answered.items()):
        print(f"  {count:7,} {name}", flush=True)
    for name, count in sorted(attack.failed.items()):
        print(f"  {count:7,} FAILED {name}", flush=True)


def run(seconds: float, kinds: Sequence[str]) -> bool:
    """True when both goals are met."""
    cluster = Cluster(nodes=1)
    cluster.node(1)._command = _MEASURED
    with cluster:
        runs = SlowRequestRuns(cluster)
        runs.prepare()
        runs.phase(WARM_UP_S)
        without = runs.phase(seconds)
        print(f"without {without}", flush=True)
        attacker = multiprocessing.get_context("spawn").Process(
            target=_attack, args=(runs.attack(kinds), seconds + WARM_UP_S)
        )
        attacker.start()
        try:
            time.sleep(WARM_UP_S)
            during = runs.phase(seconds)
        finally:
            attacker.join(slow_requests.CALL_DEADLINE_S + WARM_UP_S)
            attacker.kill()
        print(f"with    {during}", flush=True)
        slower = during.p99_ms / without.p99_ms
        print(f"loop held {during.held.held_ms:.1f} ms (goal: below {HELD_MS_GOAL:g}), p99 {slower:.1f} times as long")
        return during.held.held_ms < HELD_MS_GOAL and slower <= SLOWER_GOAL


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0, help="Length of each of the two phases")
    parser.add_argument("--attack", action="append", choices=ATTACKS, help="May be given several times; default: all")
    arguments = parser.parse_args()
    kinds = arguments.attack or list(ATTACKS)
    print(f"{', '.join(kinds)}; {COMPACTED} appends a batch to a compacted topic" if COMPACTED in kinds else kinds)
    sys.exit(0 if run(arguments.seconds, kinds) else 1)


if __name__ == "__main__":
    main()
