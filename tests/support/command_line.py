"""The `kraft` command, as a process that is forked from one with all imports: they take most of a command's time."""

from __future__ import annotations

import importlib
import os
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from typer.testing import CliRunner

from kraft import cli
from kraft.cli import foreground, main
from kraft.local.forked_processes import ForkedProcess, ForkServer
from kraft.local.launching import KRAFT
from kraft.testing import Cluster

DEADLINE_S = 60


def preload() -> None:
    """Import what commands, and the parser of their options, import when they are called."""
    foreground.preload()
    for module in pkgutil.walk_packages(cli.__path__, f"{cli.__name__}."):
        importlib.import_module(module.name)
    CliRunner().invoke(main.application([]), ["topics", "--help"])


PROGRAMS: Final = ForkServer(f"{__name__}:preload")
"""Starts commands, and other programs of tests that use the client."""


@dataclass(frozen=True, kw_only=True)
class Running:
    """A program that runs beside the test, and the test's ends of its pipes."""

    process: ForkedProcess
    stdin: IO[bytes]
    stdout: IO[bytes]
    stderr: IO[bytes]


def run(*arguments: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    """Run the command; it may fail."""
    return PROGRAMS.run([*KRAFT, *map(str, arguments)], DEADLINE_S, stdin)


@contextmanager
def running(*program: str | Path) -> Iterator[Running]:
    """Run `python -m PROGRAM` beside the block, at whose end it is killed."""
    with ExitStack() as stack:

        def pipe() -> tuple[IO[bytes], IO[bytes]]:
            reading_end, writing_end = os.pipe()
            return stack.enter_context(open(reading_end, "rb")), stack.enter_context(open(writing_end, "wb", 0))

        (its_input, stdin), (stdout, its_output), (stderr, its_errors) = pipe(), pipe(), pipe()
        process = PROGRAMS.start([sys.executable, "-m", *map(str, program)], its_input, its_output, its_errors)
        stack.callback(process.wait, DEADLINE_S)
        stack.callback(process.kill)
        for each in (its_input, its_output, its_errors):
            each.close()
        yield Running(process=process, stdin=stdin, stdout=stdout, stderr=stderr)


def run_kraft(cluster: Cluster, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    """Run the command with the cluster's addresses; it may fail."""
    return run(*arguments, "--bootstrap-server", cluster.bootstrap_servers, stdin=stdin)


def kraft(cluster: Cluster, *arguments: str, stdin: bytes = b"") -> str:
    """Run the command, which must succeed; return its output."""
    done = run_kraft(cluster, *arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout
