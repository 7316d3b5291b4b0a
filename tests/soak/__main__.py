"""`python -m tests.soak`, or `make soak`: runs all long searches, each for an equal share of the time.

A search runs in rounds, each with a fresh seed that is printed, until its share is used; a round that has begun is
finished. One line says that a search begins, one how it ended; the output of its last round is in build/soak/NAME.log.
The exit code is 1 if a search failed. A search that this machine cannot run is reported as "not run", with the reason.
Ctrl-C ends the current round, prints what was finished, and gives the exit code 130.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence, Sized
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from chaos.nemesis.power_loss import CannotMount, PowerLossDisk
from chaos.toxiproxy import ToxiproxyMissing, find_or_build
from tests.soak import full_disk_runs
from tests.soak.rounds import Program, Rounds, run_rounds

SECONDS_VARIABLE: Final = "SOAK_SECONDS"
SECONDS: Final = 3_600.0
LOGS: Final = Path("build", "soak")
LAST_LINES: Final = 15
INTERRUPTED: Final = 130
"""Exit code of a program that Ctrl-C ended."""


def _without_fuse() -> str:
    try:
        with TemporaryDirectory() as directory, PowerLossDisk(Path(directory, "disk"), Path(directory, "mounted")):
            return ""
    except CannotMount as reason:
        return str(reason)


def _without_tmpfs() -> str:
    try:
        full_disk_runs.check_mount()
    except full_disk_runs.CannotMount as reason:
        return str(reason)
    return ""


def _without_toxiproxy() -> str:
    try:
        find_or_build()
    except ToxiproxyMissing as reason:
        return str(reason)
    return ""


def _without_jars() -> str:
    # Only this one needs pytest, whose import takes a while.
    import pytest

    from tests.support.kafka.kafka_jars import kafka_jars

    try:
        kafka_jars()
    except pytest.skip.Exception as reason:
        return str(reason)
    return ""


def _without_connector() -> str:
    from tests.support.maven_jars import JarsMissing
    from tests.support.spark.official_connector import official_connector

    try:
        official_connector()
    except JarsMissing as reason:
        return str(reason)
    return ""


def _without_rsyslog() -> str:
    return "" if shutil.which("rsyslogd") else "rsyslog is missing (on Debian: apt install rsyslog rsyslog-kafka)"


def _without_night() -> str:
    missing = "" if shutil.which("prometheus") else "Prometheus is missing (on Debian: apt install prometheus)"
    return missing or _without_fuse() or _without_tmpfs() or _without_toxiproxy()


_DISK: Final = "tests.soak.disk_fault_runs"
_QUORUM: Final = "tests.soak.quorum_fault_runs"
_EXAMPLES: Final = (
    "pytest -q -x -m hypothesis --hypothesis-profile=fresh -p no:cacheprovider tests/unit tests/simulation"
)

PROGRAMS: Final = (
    # In memory.
    Program(name="quorum", command="tests.soak.quorum_seeds --seeds 40 --first-seed {seed}"),
    Program(
        name="lost-directories", command="tests.soak.quorum_seeds --lost-directories --seeds 40 --first-seed {seed}"
    ),
    Program(name="replication", command="tests.soak.replication_seeds --seeds 500 --first-seed {seed}"),
    Program(name="upkeep", command="tests.soak.upkeep_seeds --seeds 200 --first-seed {seed}"),
    Program(name="groups", command="tests.soak.group_seeds --seeds 100 --first-seed {seed}"),
    Program(name="groups-in-turns", command="tests.soak.group_seeds --in-turns --seeds 100 --first-seed {seed}"),
    Program(name="transactions", command="tests.soak.transaction_seeds --seeds 200 --first-seed {seed}"),
    Program(name="sink-batches", command="tests.soak.sink_seeds --seeds 200 --first-seed {seed}"),
    Program(name="group-transactions", command="tests.soak.group_transaction_seeds --seeds 100 --first-seed {seed}"),
    Program(name="crash-points", command="tests.soak.crash_points --seeds 1 --first-seed {seed}"),
    Program(name="bit-flips", command="tests.soak.bit_flips --bits 1000 --seed {seed}"),
    Program(name="kio", command="tests.soak.kio_agreement --messages 20000 --seed {seed}"),
    Program(name="hypothesis", command=f"{_EXAMPLES} --hypothesis-seed={{seed}}"),
    Program(name="fuzz", command="tests.fuzz --seconds 5 --seed {seed}"),
    Program(name="loop-holds", command="tests.soak.loop_hold_runs"),
    # Real nodes.
    Program(name="kill", command=f"{_DISK} kill --times 10 --seed {{seed}}"),
    Program(name="kill-of-three", command=f"{_DISK} kill --times 5 --nodes 3 --seed {{seed}}"),
    Program(name="leader-kill", command="tests.soak.leader_kill_runs --times 10 --seed {seed}"),
    Program(name="coordinator-kill", command="tests.soak.coordinator_kill_runs --times 5 --seed {seed}"),
    Program(name="deletion-kill", command="tests.soak.deletion_kill_runs --times 1 --partitions 300"),
    Program(name="creation-kill", command="tests.soak.creation_kill_runs --times 1 --logs 300"),
    Program(name="kill-all", command=f"{_QUORUM} kill-all --times 10 --seed {{seed}}"),
    Program(name="kill-controller", command=f"{_QUORUM} kill-controller --times 10 --seed {{seed}}"),
    Program(name="kill-separate", command=f"{_QUORUM} kill-controller --separate --times 10 --seed {{seed}}"),
    Program(name="voter-loss", command="tests.soak.voter_loss_runs --times 2 --seed {seed}"),
    Program(name="pause-leader", command=f"{_QUORUM} pause-leader --times 5 --seed {{seed}}"),
    Program(
        name="isolate-leader",
        command=f"{_QUORUM} isolate-leader --times 5 --seed {{seed}}",
        missing=_without_toxiproxy,
    ),
    Program(name="chaos", command="chaos --cycles 1000 --duration {seconds} --seed {seed}", missing=_without_toxiproxy),
    Program(
        name="chaos-secure",
        command="chaos --secure --cycles 1000 --duration {seconds} --seed {seed}",
        missing=_without_toxiproxy,
    ),
    Program(
        name="mirror",
        command="tests.soak.mirror_runs --records 20000 --faults 4 --seed {seed}",
        missing=_without_toxiproxy,
    ),
    Program(name="mirror-migration", command="tests.soak.mirror_migration_runs --records 20000 --nodes 1"),
    Program(name="pipeline", command="tests.soak.pipeline_runs --lines 20000", missing=_without_rsyslog),
    Program(name="replica-moves", command="tests.soak.replica_move_runs --times 10 --seed {seed}"),
    Program(name="spark-sink", command="tests.soak.spark_sink_runs --times 20 --seed {seed}"),
    Program(name="spark-copy", command="tests.soak.spark_runs --times 6 --seed {seed}"),
    Program(name="sync-error", command=f"{_DISK} sync-error --times 5 --seed {{seed}}", missing=_without_fuse),
    Program(name="power-loss", command="tests.soak.power_loss_runs --times 5 --seed {seed}", missing=_without_fuse),
    Program(name="night", command="tests.soak.night_runs --seed {seed}", missing=_without_night),
    Program(name="full-disk", command=f"{_DISK} full-disk --times 10", missing=_without_tmpfs),
    # Clients of Kafka, and invalid requests.
    Program(name="strangers", command="tests.soak.stranger_runs --seed {seed}"),
    Program(name="handshakes", command="tests.soak.handshake_runs --seconds {seconds} --seed {seed}"),
    Program(name="joins", command="tests.soak.joining_runs --times 2"),
    Program(name="kafka-kill", command="tests.soak.kafka_kill_runs --times 5 --seed {seed}"),
    Program(name="kafka-restarts", command="tests.soak.kafka_restart_runs --times 1 --seed {seed}"),
    Program(
        name="kafka-restarts-java",
        command="tests.soak.kafka_restart_runs --times 1 --java --seed {seed}",
        missing=_without_jars,
    ),
    Program(name="group-members", command="tests.soak.group_member_runs --seed {seed}"),
    Program(
        name="standstills",
        command="tests.soak.standstill_runs --times 10 --pauses --seed {seed}",
        missing=_without_jars,
    ),
    Program(name="group-migrations", command="tests.soak.group_migration_runs --times 2 --seed {seed}"),
    Program(
        name="transaction-kill", command="tests.soak.transaction_runs --times 10 --seed {seed}", missing=_without_jars
    ),
    Program(name="streams", command="tests.soak.streams_runs --times 10 --seed {seed}", missing=_without_jars),
    Program(
        name="official-connector",
        command="tests.soak.official_connector_runs --seed {seed}",
        missing=_without_connector,
    ),
    Program(name="logins", command="tests.soak.login_runs --seed {seed}", missing=_without_connector),
    Program(name="spark-shipping", command="tests.soak.spark_shipping_runs"),
    Program(name="garbage", command="tests.soak.garbage_runs --frames 20000 --seed {seed}"),
    Program(name="kafka-garbage", command="tests.soak.kafka_garbage_runs --frames 20000 --idle 1000 --seed {seed}"),
    Program(name="turns", command="tests.soak.turn_runs"),
    Program(name="ends", command="tests.soak.ending_runs"),
    Program(name="attacks", command="tests.soak.attack_runs --seconds 30"),
    Program(name="slow-requests", command="tests.soak.slow_request_runs --seconds 10"),
)


# --- the command ---------------------------------------------------------------------------------------------------


def run_all(
    programs: list[Program], seconds: float, *, seed: int | None = None, logs: Path, console: Console
) -> Iterator[Rounds]:
    """Run each program for its share of `seconds`, print a line before and after each, and yield its rounds."""
    share_s = seconds / len(programs)
    logs.mkdir(parents=True, exist_ok=True)
    for number, program in enumerate(programs, 1):
        log = logs / f"{program.name}.log"
        rounds = _run(program, f"[{number}/{len(programs)}]", share_s, log, seed, console)
        print(f"{program.name:<20} {rounds}", flush=True)
        if rounds.failure:
            _print_failure(rounds, log)
        yield rounds


def _run(program: Program, place: str, share_s: float, log: Path, seed: int | None, console: Console) -> Rounds:
    """Run the rounds of one program, and print that it begins. Prints what it has finished on a KeyboardInterrupt."""
    begun: list[Rounds] = []
    with _progress(program, share_s, console) as show:

        def tell(rounds: Rounds) -> None:
            if not begun:
                begun.append(rounds)
                with_seed = f"seed {rounds.seeds[0]}, " if program.has_seed else ""
                print(f"{place} {program.name} ({with_seed}{share_s:.0f} s)", flush=True)
            show(rounds)

        try:
            return run_rounds(program, share_s, log, seed=seed, tell=tell)
        except KeyboardInterrupt:
            for rounds in begun:
                print(f"{program.name:<20} interrupted: {rounds.done(rounds.seeds[:-1])}", flush=True)
            raise


def _print_failure(rounds: Rounds, log: Path) -> None:
    for line in log.read_text(errors="replace").splitlines()[-LAST_LINES:]:
        print(f"  {line}")
    seed = f" --seed {rounds.seeds[-1]}" if rounds.program.has_seed else ""
    print(f"  to repeat it: python -m tests.soak --only {rounds.program.name}{seed}", flush=True)
    print(f"  its whole output: {log}", flush=True)


@contextmanager
def _progress(program: Program, share_s: float, console: Console) -> Iterator[Callable[[Rounds], None]]:
    """Show a progress bar with the round's seed, if the output is a terminal."""
    columns = (TextColumn("{task.description:<20}"), BarColumn(), TextColumn("{task.fields[now]}"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(program.name, total=share_s, now="")

        def tell(rounds: Rounds) -> None:
            now = f"{rounds.seconds:.0f} of {share_s:.0f} s, round {len(rounds.seeds)}, seed {rounds.seeds[-1]}"
            progress.update(task, completed=min(rounds.seconds, share_s), now=now)

        yield tell


def main(arguments: list[str]) -> int:
    names = [program.name for program in PROGRAMS]
    listed = ", ".join(names)
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=names, metavar="NAME", help=f"search to run, may be repeated: {listed}"
    )
    parser.add_argument("--seed", type=int, help="one round with this seed, to repeat it")
    default_s = float(os.environ.get(SECONDS_VARIABLE) or SECONDS)
    parser.add_argument(
        "--seconds",
        type=float,
        default=default_s,
        help=f"time for all searches together, in seconds (${SECONDS_VARIABLE}, or {SECONDS:g})",
    )
    parser.add_argument("--logs", type=Path, default=LOGS, help=f"folder for the output of rounds ({LOGS})")
    options = parser.parse_args(arguments)
    for name in (signal.SIGINT, signal.SIGTERM):
        # A shell may have started this with interrupts ignored, which children inherit.
        signal.signal(name, signal.default_int_handler)
    console = Console()
    programs = [program for program in PROGRAMS if options.only is None or program.name in options.only]
    found: list[Rounds] = []
    code = 0
    try:
        for rounds in run_all(programs, options.seconds, seed=options.seed, logs=options.logs, console=console):
            found.append(rounds)
            if rounds.failure:
                code = 1
    except KeyboardInterrupt:
        print(f"interrupted: {len(found)} of {_searches(programs)} finished: {_results(found)}")
        return INTERRUPTED
    print(f"{_searches(found)}: {_results(found)}")
    return code


def _searches(which: Sized) -> str:
    return "1 search" if len(which) == 1 else f"{len(which)} searches"


def _results(found: Sequence[Rounds]) -> str:
    failed = sum(bool(rounds.failure) for rounds in found)
    not_run = sum(bool(rounds.not_run) for rounds in found)
    return f"{len(found) - failed - not_run} ok, {failed} failed, {not_run} not run"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
