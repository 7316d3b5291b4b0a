"""`python -m benchmarks.command_times`: how long each command takes until it says something.

A person who types a command waits for its first line: the answer, or why there is none yet. That time is measured from
exec, with the start of the interpreter, in each situation of a cluster.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Final

import typer
from rich.progress import Progress

from benchmarks.report import Cell, Output, Report, print_report, say
from kraft.cli.options import BOOTSTRAP_VARIABLE
from kraft.client import Admin, Consumer, Producer
from kraft.client.model.errors import NoActiveController
from kraft.local.cluster_files import HOST
from kraft.local.free_ports import ReservedPorts
from kraft.local.launching import KRAFT, environment
from kraft.testing import Cluster

DEADLINE_S: Final = 60.0
PATIENCE_S: Final = 12.0
"""A command that goes on for longer is killed: `produce` tries for minutes, and says so."""

GOAL_S: Final = 2.0

COMMANDS: Final[Mapping[str, Sequence[str]]] = {
    "produce": ("orders",),
    "consume": ("orders", "--from-beginning", "--max-messages", "1"),
    "consume --group": ("orders", "--from-beginning", "--max-messages", "1", "--timeout-ms", "20000"),
    "cluster health": (),
    "topics create": ("new", "--if-not-exists"),
    "topics list": (),
    "topics describe": (),
    "topics alter": ("orders", "--config", "retention.ms=86400000"),
    "topics offsets": ("orders",),
    "topics delete-records": ("orders", "--partition", "0", "--before-offset", "0"),
    "topics elect-leaders": ("--election-type", "preferred", "--all-topic-partitions"),
    "topics reassign": ("--list",),
    "topics delete": ("old", "--if-exists"),
    "configs describe": ("--entity-type", "topics", "--entity-name", "orders"),
    "configs alter": ("--entity-type", "topics", "--entity-name", "orders", "--add-config", "retention.ms=86400000"),
    "brokers list": (),
    "brokers describe": ("1",),
    "brokers log-dirs": (),
    "brokers fence": ("3",),
    "brokers unfence": ("3",),
    "brokers decommission": ("3", "--dry-run"),
    "brokers unregister": ("9",),
    "quorum describe": (),
    "features describe": (),
    "features upgrade": ("--feature", "metadata.version=1", "--dry-run"),
    "groups list": (),
    "groups describe": ("billing",),
    "groups members": ("billing",),
    "groups state": ("billing",),
    "groups reset-offsets": ("billing", "--topic", "orders", "--to-earliest", "--dry-run"),
    "groups delete-offsets": ("billing", "--topic", "orders"),
    "groups delete": ("nobody",),
    "transactions list": (),
    "transactions describe": ("payments",),
    "transactions describe-producers": ("orders", "--partition", "0"),
    "transactions find-hanging": (),
    "transactions abort": ("orders", "--partition", "0", "--start-offset", "0"),
}
"""Commands that talk to a cluster, with arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A command: seconds from exec to its first line and to its end, and what it said."""

    first_line_s: float
    end_s: float
    code: int | None
    """Exit code; None if it was killed."""
    said: str


@contextmanager
def healthy() -> Iterator[str]:
    """Yield the addresses of three nodes with a topic, a group and records."""
    with _cluster() as cluster:
        yield cluster.bootstrap_servers


@contextmanager
def nobody_listens() -> Iterator[str]:
    """Yield an address at which nothing listens."""
    with ReservedPorts(1) as (port,):
        yield f"{HOST}:{port}"


@contextmanager
def unknown_host() -> Iterator[str]:
    """Yield a name that does not exist (RFC 6761)."""
    yield "no-such-host.invalid:9094"


@contextmanager
def quorum_lost() -> Iterator[str]:
    """Yield the address of the broker that is left of three."""
    with _cluster() as cluster:
        for node_id in (2, 3):
            cluster.node(node_id).kill()
        yield _after_loss(cluster)
        cluster.kill()  # with its quorum lost, a node cannot stop in order


@contextmanager
def broker_paused() -> Iterator[str]:
    """Yield the address of a broker that accepts connections and answers nothing."""
    with _cluster() as cluster:
        cluster.node(1).pause()
        yield _address(cluster)
        cluster.kill()


SITUATIONS: Final = {
    "healthy": healthy,
    "nobody listens": nobody_listens,
    "unknown host": unknown_host,
    "quorum lost": quorum_lost,
    "broker paused": broker_paused,
}


@contextmanager
def _cluster() -> Iterator[Cluster]:
    with Cluster(3) as cluster:
        with Admin(cluster.bootstrap_servers) as admin:
            admin.create_topic("orders", 3, 3)
        with Producer(cluster.bootstrap_servers, transactional_id="payments") as producer:
            producer.begin_transaction()
            producer.send("orders", b"order 1")
            producer.commit_transaction()
        with Consumer(cluster.bootstrap_servers, group_id="billing", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["orders"])
            while not consumer.poll(timeout_ms=1_000):
                pass
            consumer.commit()
        yield cluster


def _address(cluster: Cluster) -> str:
    address = cluster.node(1).address
    assert address is not None
    return address


def _after_loss(cluster: Cluster) -> str:
    """Wait until node 1 has noticed that the others are gone; return its address."""
    address, until_s = _address(cluster), time.monotonic() + DEADLINE_S
    with Admin(address) as admin:
        while time.monotonic() < until_s:
            try:
                admin.describe_quorum(wait_for_leader=False)
            except NoActiveController:
                return address
            time.sleep(0.1)
    raise TimeoutError(f"node 1 has not noticed the loss of the quorum within {DEADLINE_S:g} s")


def run(command: str, bootstrap_server: str, patience_s: float) -> Run:
    """Run a command to its end, or until patience ends."""
    name = command.partition(" --")[0]
    options = ("--group", "readers") if command.endswith("--group") else ()
    began = time.perf_counter()
    process = subprocess.Popen(
        [*KRAFT, *name.split(), *COMMANDS[command], *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment() | {BOOTSTRAP_VARIABLE: bootstrap_server},
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    if name == "produce":
        process.stdin.write(b"order 2\n")
    process.stdin.close()
    try:
        said, first_s = _read(process.stdout.fileno(), began + patience_s)
        code = _exit_code(process)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    end_s = time.perf_counter() - began
    return Run(
        first_line_s=first_s - began if said else end_s, end_s=end_s, code=code, said=said.decode("utf-8", "replace")
    )


def _exit_code(process: subprocess.Popen[bytes]) -> int | None:
    """Return the exit code of a process that has closed its output, or None if it goes on."""
    try:
        return process.wait(0.5)
    except subprocess.TimeoutExpired:
        return None


def _read(output: int, until: float) -> tuple[bytes, float]:
    """Read to the end, or until this time; return all, and the time of the first bytes, if there were any."""
    said, first_s = b"", 0.0
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        while selector.select(max(0.0, until - time.perf_counter())):
            if not (read := os.read(output, 65_536)):
                break
            first_s = first_s or time.perf_counter()
            said += read
    return said, first_s


def measure(commands: Sequence[str], situations: Sequence[str], patience_s: float, *, is_verbose: bool) -> Report:
    """Run each command once in each situation."""
    runs: dict[str, dict[str, Run]] = {command: {} for command in commands}
    with Progress(transient=True) as progress:
        task = progress.add_task("running", total=len(commands) * len(situations))
        for situation in situations:
            with SITUATIONS[situation]() as bootstrap_server:
                for command in commands:
                    result = runs[command][situation] = run(command, bootstrap_server, patience_s)
                    progress.advance(task)
                    if is_verbose:
                        times = f"{result.first_line_s:.2f} s, code {result.code} after {result.end_s:.2f} s"
                        say(f"{situation}: kraft {command}: {times}: {result.said.strip()}")
    return Report(
        title="Seconds from the start of a command until it says something",
        durability="nothing is written that matters",
        rows=[_row(command, by_situation) for command, by_situation in runs.items()],
        notes=[
            f"The answer, or why there is none yet: at most {GOAL_S:g} s are wanted, on an idle machine.",
            "In brackets: the exit code, and the seconds until the command ended, where that took longer.",
            f"A command that `goes on` had not ended after {patience_s:g} s, and was killed.",
        ],
    )


def _row(command: str, runs: Mapping[str, Run]) -> dict[str, Cell]:
    return {"kraft": command, **{situation: _cell(each) for situation, each in runs.items()}}


def _cell(run: Run) -> str:
    if run.code is None:
        return f"{run.first_line_s:.2f} (goes on)"
    late = f", {run.end_s:.1f}" if run.end_s - run.first_line_s > 0.2 else ""
    return f"{run.first_line_s:.2f} ({run.code}{late})"


def main(
    only: Annotated[str, typer.Option(help="Commands whose names contain this.")] = "",
    situation: Annotated[list[str] | None, typer.Option(help=f"{', '.join(SITUATIONS)}. May be repeated.")] = None,
    patience: Annotated[float, typer.Option(help="Seconds after which a command is killed.")] = PATIENCE_S,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print what each command says.")] = False,
    output: Annotated[Output, typer.Option(help="Output format.")] = Output.TABLE,
) -> None:
    """Measure how long each command takes until it says something, whatever the cluster's state."""
    if unknown := set(situation or ()) - set(SITUATIONS):
        raise typer.BadParameter(f"{', '.join(unknown)}: expected {', '.join(SITUATIONS)}", param_hint="--situation")
    commands = [each for each in COMMANDS if only in each]
    if not commands:
        raise typer.BadParameter(f"no command contains {only!r}", param_hint="--only")
    print_report(measure(commands, situation or list(SITUATIONS), patience, is_verbose=verbose), output)


if __name__ == "__main__":
    typer.run(main)
