"""Rounds of a program: it runs repeatedly, each time with another seed, until its time is used."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import SystemRandom
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
SEED_MAX: Final = 1_000_000_000

_POLL_S: Final = 0.5
_END_DEADLINE_S: Final = 60.0
"""A search stops its cluster after an interrupt."""


def _nothing() -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """An open-ended search, with a seed."""

    name: str
    command: str
    """Arguments for Python; `{seed}` is the round's, `{seconds}` the program's share of time."""

    missing: Callable[[], str] = _nothing
    """Requirements that this machine lacks, in a line; empty if the program can run."""

    round_s_max: float = 1_800.0
    """A round that takes longer has failed."""

    @property
    def has_seed(self) -> bool:
        return "{seed}" in self.command

    def arguments(self, seed: int, seconds: float) -> list[str]:
        return [sys.executable, "-m", *self.command.format(seed=seed, seconds=max(1, round(seconds))).split()]


@dataclass(slots=True)
class Rounds:
    """The rounds of one program so far."""

    program: Program
    not_run: str = ""
    """Reason why there is no round."""

    seeds: list[int] = field(default_factory=list)
    seconds: float = 0.0
    failure: str = ""
    """The error of the last round; empty if it did not fail."""

    def __str__(self) -> str:
        if self.not_run:
            return f"not run: {self.not_run}"
        done = self.done(self.seeds)
        return f"FAILED ({self.failure}): {done}" if self.failure else f"ok: {done}"

    def done(self, seeds: list[int]) -> str:
        """Return the number of rounds that these seeds had, the time of all, and the seeds."""
        plural = "" if len(seeds) == 1 else "s"
        done = f"{len(seeds)} round{plural} in {self.seconds:.0f} s"
        return f"{done}, seed{plural} {' '.join(map(str, seeds))}" if self.program.has_seed and seeds else done


def run_rounds(
    program: Program, seconds: float, log: Path, *, seed: int | None = None, tell: Callable[[Rounds], None]
) -> Rounds:
    """Run rounds until `seconds` are used or one fails; with `seed`, one round. Output of the last one is in `log`.

    `tell` is called at the start of a round and twice a second. A KeyboardInterrupt ends the round in order.
    """
    rounds = Rounds(program, not_run=program.missing())
    began_s = time.monotonic()
    while not rounds.not_run and not rounds.failure:
        rounds.seeds.append(SystemRandom().randrange(SEED_MAX) if seed is None else seed)
        rounds.failure = _run_round(rounds, seconds, log, began_s, tell)
        rounds.seconds = time.monotonic() - began_s
        if seed is not None or rounds.seconds >= seconds:
            break
    return rounds


def _run_round(rounds: Rounds, seconds: float, log: Path, began_s: float, tell: Callable[[Rounds], None]) -> str:
    """Return why it failed, or an empty text."""
    deadline_s = time.monotonic() + rounds.program.round_s_max
    with _process(rounds.program.arguments(rounds.seeds[-1], seconds), log) as process:
        while time.monotonic() < deadline_s:
            rounds.seconds = time.monotonic() - began_s
            tell(rounds)
            try:
                code = process.wait(_POLL_S)
            except subprocess.TimeoutExpired:
                continue
            return f"exit code {code}" if code else ""
        return f"still running after {rounds.program.round_s_max:g} s"


@contextmanager
def _process(command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a session of its own, so that an interrupt reaches it only from here."""
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with log.open("wb") as output:
        output.write(f"{' '.join(command)}\n".encode())
        output.flush()
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Interrupt the process, as Ctrl-C does; kill it if it does not end, or after a second Ctrl-C."""
    os.killpg(process.pid, signal.SIGINT)
    try:
        process.wait(_END_DEADLINE_S)
    except subprocess.TimeoutExpired:
        print(f"soak: did not stop within {_END_DEADLINE_S:g} s: killed; look for nodes left running", file=sys.stderr)
        _kill(process)
    except KeyboardInterrupt:
        _kill(process)
        raise


def _kill(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
