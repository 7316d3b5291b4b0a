"""`python -m benchmarks.quorum_loop_holds`: for how long a voter blocks the event loop while it writes.

One voter on a real disk commits proposals one after the other, on a disk as it is and on one whose syncs take longer.
A ticker on the same loop looks every millisecond how late it is called.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import structlog
import typer

from benchmarks.report import Cell, Output, Report, print_report, say
from benchmarks.untrimmed import Untrimmed
from kraft.quorum.config import QuorumConfig, VoterAddress
from kraft.quorum.peer_security import PeerSecurity
from kraft.quorum.raft_quorum import RaftQuorum
from kraft.quorum.voter_resources import VoterResources
from kraft.runtime.clock import SystemClock
from kraft.runtime.disk import RealDisk, RealFile
from kraft.runtime.entropy import SystemEntropy

PROPOSALS: Final = 200
SYNC_MS: Final = 100.0
TICK_S: Final = 0.001
DEADLINE_S: Final = 30
PAYLOAD: Final = bytes(4_096)


class _Listener:
    def __init__(self) -> None:
        self.leads = asyncio.Event()

    def on_committed(self, index: int, term: int, payload: bytes) -> None: ...

    def on_leadership(self, term: int | None) -> None:
        self.leads.set()


class _SlowFile(RealFile):
    sync_s = 0.0

    def sync(self) -> None:
        time.sleep(self.sync_s)
        super().sync()


class _SlowDisk(RealDisk):
    def open(self, path: str, create: bool) -> RealFile:
        file = super().open(path, create)
        file.__class__ = _SlowFile
        return file


def measure(proposals: int, sync_ms: float) -> Report:
    """Measure the disk as it is, and one whose syncs take `sync_ms` longer."""
    _SlowFile.sync_s = sync_ms / 1_000
    rows: list[dict[str, Cell]] = []
    for name, disk, count in (
        ("as it is", RealDisk(), proposals),
        (f"+{sync_ms:g} ms", _SlowDisk(), proposals // 10),
    ):
        say(f"quorum loop holds: {count} proposals, disk {name}")
        with tempfile.TemporaryDirectory(prefix="kraft-benchmark-") as directory:
            late_ms, took_ms = asyncio.run(_held(Path(directory), disk, count))
        rows.append(
            {
                "disk": name,
                "held p50 ms": _at(late_ms, 0.5),
                "held p99 ms": _at(late_ms, 0.99),
                "held max ms": late_ms[-1],
                "commit p50 ms": _at(took_ms, 0.5),
                "commit p99 ms": _at(took_ms, 0.99),
            }
        )
    return Report(
        title="One voter: how long it holds the event loop, and its commits",
        durability="synced before a commit",
        rows=rows,
        notes=[
            f"{proposals:,} proposals of {len(PAYLOAD):,} bytes one after the other, a tenth of that on the slow disk.",
            f"held: how late a ticker of {TICK_S * 1_000:g} ms on the same event loop is called.",
        ],
    )


async def _held(directory: Path, disk: RealDisk, proposals: int) -> tuple[list[float], list[float]]:
    """Return the milliseconds that the ticker was late and those that each proposal took, ascending."""
    listener = _Listener()
    quorum = RaftQuorum(
        config=QuorumConfig(
            node_id=1,
            cluster_id="benchmark",
            voters={1: VoterAddress(host="localhost", port=9093)},
            directory=directory,
        ),
        resources=VoterResources(disk=disk, clock=SystemClock(), entropy=SystemEntropy()),
        listener=listener,
        fatal=sys.exit,
        security=PeerSecurity(),
        snapshots=Untrimmed(),
    )
    await quorum.start()
    await asyncio.wait_for(listener.leads.wait(), DEADLINE_S)
    late_ms: list[float] = []
    ticking = asyncio.create_task(_tick(late_ms))
    took_ms = []
    for _ in range(proposals):
        began_s = time.perf_counter()
        await quorum.propose(PAYLOAD, quorum.term, DEADLINE_S)
        took_ms.append(1_000 * (time.perf_counter() - began_s))
    ticking.cancel()
    await quorum.stop()
    return sorted(late_ms), sorted(took_ms)


async def _tick(late_ms: list[float]) -> None:
    while True:
        before_s = time.perf_counter()
        await asyncio.sleep(TICK_S)
        late_ms.append(1_000 * (time.perf_counter() - before_s - TICK_S))


def _at(ascending: Sequence[float], share: float) -> float:
    return ascending[int(share * (len(ascending) - 1))]


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    sync_ms: Annotated[float, typer.Option(min=0, help="How much longer syncs of the slow disk take.")] = SYNC_MS,
    proposals: Annotated[
        int, typer.Option(min=100, help="To the disk as it is; the slow one gets a tenth.")
    ] = PROPOSALS,
    output: Annotated[Output, typer.Option(help="For people or for programs.")] = Output.TABLE,
) -> None:
    """How long a voter holds the event loop while it writes, on a normal disk and on a slow one."""
    structlog.configure(processors=[], logger_factory=structlog.ReturnLoggerFactory())
    print_report(measure(proposals, sync_ms), output)


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.quorum_loop_holds")
