"""Time for which a voter blocks the event loop while it writes: python -m benchmarks.quorum_loop_holds [--sync-ms 100]

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
from kraft.quorum.raft_quorum import RaftQuorum
from kraft.quorum.world import QuorumWorld
from kraft.runtime.clock import SystemClock
from kraft.runtime.disk import RealDisk, RealFile
from kraft.runtime.entropy import SystemEntropy

TICK_S = 0.001
PAYLOAD = bytes(4_096)


class Listener:
    def __init__(self) -> None:
        self.leads = asyncio.Event()

    def on_committed(self, index: int, term: int, payload: bytes) -> None: ...

    def on_leadership(self, term: int | None) -> None:
        self.leads.set()


class SlowFile(RealFile):
    sync_s = 0.0

    def sync(self) -> None:
        time.sleep(self.sync_s)
        super().sync()


class SlowDisk(RealDisk):
    def open(self, path: str, create: bool) -> RealFile:
        file = super().open(path, create)
        file.__class__ = SlowFile
        return file


async def measure(directory: Path, disk: RealDisk, proposals: int) -> tuple[list[float], list[float]]:
    """Milliseconds that the ticker was late, and that each proposal took."""
    listener = Listener()
    quorum = RaftQuorum(
        config=QuorumConfig(
            node_id=1,
            cluster_id="benchmark",
            voters={1: VoterAddress(host="localhost", port=9093)},
            directory=directory,
        ),
        world=QuorumWorld(disk=disk, clock=SystemClock(), entropy=SystemEntropy()),
        listener=listener,
        fatal=sys.exit,
    )
    await quorum.start()
    await asyncio.wait_for(listener.leads.wait(), 30)
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
    SlowFile.sync_s = options.sync_ms / 1_000
    print("disk          loop held, ms: p50     p99     max    commit, ms: p50     p99")
    for name, disk, proposals in (
        ("as it is", RealDisk(), options.proposals),
        (f"+{options.sync_ms:g} ms", SlowDisk(), options.proposals // 10),
    ):
        with tempfile.TemporaryDirectory() as directory:
            late, took = asyncio.run(measure(Path(directory), disk, proposals))
        shown = (_at(late, 0.5), _at(late, 0.99), late[-1], _at(took, 0.5), _at(took, 0.99))
        print("{:<20}{:>12.2f}{:>8.2f}{:>8.2f}{:>20.2f}{:>8.2f}".format(name, *shown))
    return 0


def _at(ascending: list[float], share: float) -> float:
    return ascending[int(share * (len(ascending) - 1))]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
