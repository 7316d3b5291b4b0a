"""python -m benchmarks.quorum

Commits of the metadata quorum, three voters as processes on this machine, each of which syncs its journal before it
speaks: one after the other, and with so many under way at once. Beside them what the disk gives in the same run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import IO, Annotated, Any, Final

import typer

from benchmarks.report import Cell, Output, Report, file_system, print_report, say
from kraft.local.free_ports import ReservedPorts

VOTERS: Final = 3
WINDOWS: Final = (64, 256, 1024)
WARM_UP_COMMITS: Final = 1_000
SYNCS: Final = 2_000
ELECTION_DEADLINE_S: Final = 30.0
RUN_DEADLINE_S: Final = 300.0
STOP_DEADLINE_S: Final = 10.0
_POLL_S: Final = 0.05

TRIAL_COMMITS_PER_S: Final = {1: 1_173, 64: 18_000, 256: 30_000, 1024: 40_000}
TRIAL_P50_MS: Final = 0.83
TRIAL_P99_MS: Final = 1.18
TRIAL_SYNC_P50_MS: Final = 0.12
"""Figures of the trial engine that the quorum was modelled on, measured on another day: for orientation only."""


class VoterFailed(Exception):
    """A voter ended, or did not answer in time."""


class Voter:
    """A voter process; see `benchmarks.quorum_voter`. Every answer has a deadline."""

    def __init__(self, node_id: int, directory: Path, ports: Sequence[int]) -> None:
        self.node_id = node_id
        voters = ",".join(f"{voter}={port}" for voter, port in enumerate(ports, start=1))
        self._process: subprocess.Popen[str] = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.quorum_voter", str(node_id), str(directory / str(node_id)), voters],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"GRPC_VERBOSITY": "NONE"},
            cwd=Path(__file__).resolve().parents[1],
            # Ctrl-C is for this process, which then closes the voters' input.
            process_group=0,
        )
        self._reader = ThreadPoolExecutor(1)

    def ask(self, question: str, deadline_s: float) -> Any:
        """Raises VoterFailed."""
        asked, answered = self._pipe(self._process.stdin), self._pipe(self._process.stdout)
        try:
            asked.write(question + "\n")
            asked.flush()
            line = self._reader.submit(answered.readline).result(deadline_s)
        except (FutureTimeoutError, BrokenPipeError) as error:
            raise VoterFailed(f"voter {self.node_id} does not answer: {error!r}") from error
        if not line:
            raise VoterFailed(f"voter {self.node_id} ended")
        return json.loads(line)

    def stop(self) -> None:
        self._pipe(self._process.stdin).close()
        try:
            self._process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_DEADLINE_S)
        # What was still being read has ended with the process.
        self._reader.shutdown()
        self._pipe(self._process.stdout).close()

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None, "both ends were asked for"
        return pipe


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    per_s: float
    latencies_ms: Sequence[float]

    @property
    def p50_ms(self) -> float:
        return median(self.latencies_ms)

    @property
    def p99_ms(self) -> float:
        return quantiles(self.latencies_ms, n=100)[98]


def measure(directory: Path, payload_bytes: int, commits: int, windows: Sequence[int] = WINDOWS) -> Report:
    say("quorum: syncs of one file, one after the other")
    syncs = _syncs(directory, payload_bytes)
    rows: list[dict[str, Cell]] = [_row("fdatasync, sequential: the disk alone", syncs, None, syncs)]
    with _three_voters(directory) as voters:
        leader = _leader(voters)
        _commits(leader, 1, min(WARM_UP_COMMITS, commits), payload_bytes)
        say("quorum: sequential commits")
        sequential = _commits(leader, 1, max(commits // 10, 1), payload_bytes)
        rows.append(_row("commits, sequential", sequential, 1, syncs))
        for window in windows:
            say(f"quorum: {window} commits under way")
            rows.append(
                _row(f"commits, window {window}", _commits(leader, window, commits, payload_bytes), window, syncs)
            )
        leader_still = leader.ask("status", ELECTION_DEADLINE_S)["leads"]
    notes = [
        (
            f"{VOTERS} voters as processes, payloads of {payload_bytes} B, {file_system(directory)}, proposed inside "
            "the leader's process; a commit is answered when a majority has synced it and the leader has applied it."
        ),
        "A sequential commit waits for two syncs, the leader's and then a follower's, and two messages between them.",
        f"n: {SYNCS} syncs, {max(commits // 10, 1)} sequential commits, {commits} for each window.",
        (
            "Trial figures, another day: of the trial engine that this one was designed after, fdatasync p50 "
            f"{TRIAL_SYNC_P50_MS} ms, sequential p50 {TRIAL_P50_MS} ms and p99 {TRIAL_P99_MS} ms."
        ),
        f"Load average at the end: {os.getloadavg()[0]:.1f}.",
    ]
    if not leader_still:
        notes.append("The leader changed meanwhile: measure again.")
    return Report(
        title="Commits of the metadata quorum",
        durability="every entry is fdatasynced by a majority of the voters before it is answered",
        rows=rows,
        notes=notes,
    )


def _row(what: str, measured: _Measured, window: int | None, syncs: _Measured) -> dict[str, Cell]:
    return {
        "what": what,
        "per s": measured.per_s,
        "p50 ms": measured.p50_ms,
        "p99 ms": measured.p99_ms,
        "to the disk's syncs": measured.per_s / syncs.per_s,
        "per s, trial figures, another day": None if window is None else TRIAL_COMMITS_PER_S.get(window),
    }


def _syncs(directory: Path, payload_bytes: int) -> _Measured:
    """Rate of one process that appends as much and syncs it, in a loop."""
    payload, latencies_ms = bytes(payload_bytes), []
    path = directory / "syncs"
    with path.open("wb", buffering=0) as file:
        began_s = time.perf_counter()
        for _ in range(SYNCS):
            each_s = time.perf_counter()
            file.write(payload)
            os.fdatasync(file.fileno())
            latencies_ms.append((time.perf_counter() - each_s) * 1_000)
        seconds = time.perf_counter() - began_s
    path.unlink()
    return _Measured(per_s=SYNCS / seconds, latencies_ms=latencies_ms)


def _commits(leader: Voter, window: int, count: int, payload_bytes: int) -> _Measured:
    answer = leader.ask(f"measure {window} {count} {payload_bytes}", RUN_DEADLINE_S)
    return _Measured(per_s=count / answer["seconds"], latencies_ms=answer["latencies_ms"])


@contextmanager
def _three_voters(directory: Path) -> Iterator[list[Voter]]:
    with ReservedPorts(VOTERS) as ports, ExitStack() as ending:
        voters = []
        for node_id in range(1, VOTERS + 1):
            voter = Voter(node_id, directory, ports)
            ending.callback(voter.stop)
            voters.append(voter)
        yield voters


def _leader(voters: Sequence[Voter]) -> Voter:
    deadline_s = time.monotonic() + ELECTION_DEADLINE_S
    while time.monotonic() < deadline_s:
        for voter in voters:
            if voter.ask("status", ELECTION_DEADLINE_S)["leads"]:
                return voter
        time.sleep(_POLL_S)
    raise VoterFailed("no voter leads")


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    commits: Annotated[int, typer.Option(min=10, help="Of each window; a tenth of it one after the other.")] = 20_000,
    payload_bytes: Annotated[int, typer.Option(min=1)] = 200,
    directory: Annotated[
        Path | None, typer.Option(help="Where to write; by default where temporary files go.", exists=True)
    ] = None,
    output: Annotated[Output, typer.Option(help="For people or for programs.")] = Output.TABLE,
) -> None:
    """Commits of three voters, one after the other and many at once, beside the syncs of the same disk."""
    with TemporaryDirectory(prefix="kraft-quorum-", dir=directory) as scratch:
        print_report(measure(Path(scratch), payload_bytes, commits), output)


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.quorum")
