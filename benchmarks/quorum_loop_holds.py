"""How long a voter holds the event loop while it writes: python -m benchmarks.quorum_loop_holds [--sync-ms 100]

One voter on a real disk commits proposals one after the other, on a disk as it is and on one whose syncs take longer.
A ticker on the same loop looks every millisecond how late it is called.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

import structlog

from kraft.quorum.config import QuorumConfig, VoterAddress
from kraft.quorum.engine import RaftQuorum
from kraft.quorum.world import QuorumWorld
from kraft.runtime.clock import SystemClock
from kraft.runtime.disk import RealDisk, RealFile
from kraft.runtime.entropy import SystemEntropy

TICK_S = 0.001
PAYLOAD = bytes(4_096)


class Listener:
    def on_committed(self, index: int, term: int, payload: bytes) -> None: ...

    def on_leadership(self, term: int | None) -> None: ...


async def measure(directory: Path, proposals: int) -> tuple[list[float], list[float]]:
    """Milliseconds that the ticker was late, and that each proposal took."""
    quorum = RaftQuorum(
        config=QuorumConfig(
            node_id=1,
            cluster_id="benchmark",
            voters={1: VoterAddress(host="localhost", port=9093)},
            directory=directory,
        ),
        world=QuorumWorld(disk=RealDisk(), clock=SystemClock(), entropy=SystemEntropy()),
        listener=Listener(),
        fatal=sys.exit,
    )
    await quorum.start()
    while not quorum.is_leader:
        await asyncio.sleep(0.01)
    late: list[float] = []
    ticking = asyncio.create_task(_tick(late))
    took = []
    for _ in range(proposals):
        began = time.perf_counter()
        await quorum.propose(PAYLOAD, quorum.term, 30)
        took.append(1_000 * (time.perf_counter() - began))
    ticking.cancel()
    await quorum.stop()
    return sorted(late), sorted(took)


async def _tick(late: list[float]) -> None:
    while True:
        before = time.perf_counter()
        await asyncio.sleep(TICK_S)
        late.append(1_000 * (time.perf_counter() - before - TICK_S))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quorum_loop_holds", description=__doc__)
    parser.add_argument("--sync-ms", type=float, default=100, help="how much longer syncs of the slow disk take")
    parser.add_argument("--proposals", type=int, default=200)
    options = parser.parse_args(arguments)
    structlog.configure(processors=[], logger_factory=structlog.ReturnLoggerFactory())
    fast_sync = RealFile.sync

    def slow_sync(file: RealFile) -> None:
        time.sleep(options.sync_ms / 1_000)
        fast_sync(file)

    print("disk          loop held, ms: p50     p99     max    commit, ms: p50     p99")
    for name, sync, proposals in (
        ("as it is", fast_sync, options.proposals),
        (f"+{options.sync_ms:g} ms", slow_sync, options.proposals // 10),
    ):
        RealFile.sync = sync  # type: ignore[method-assign]  # The whole process is this benchmark.
        with tempfile.TemporaryDirectory() as directory:
            late, took = asyncio.run(measure(Path(directory), proposals))
        shown = (_at(late, 0.5), _at(late, 0.99), late[-1], _at(took, 0.5), _at(took, 0.99))
        print("{:<20}{:>12.2f}{:>8.2f}{:>8.2f}{:>20.2f}{:>8.2f}".format(name, *shown))
    return 0


def _at(ascending: list[float], share: float) -> float:
    return ascending[int(share * (len(ascending) - 1))]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
