"""`kraft server start FILE`, the command of every node, without the parser of the command line.

Importing typer and what it needs would take a quarter of a node's time from start to listening, and stay in its memory.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from kraft.model.errors import KraftError
from kraft.runtime.cycle_collector import imports_exempted

if TYPE_CHECKING:
    from kraft.server.config.node_config import NodeConfig


class Terminated(KeyboardInterrupt):
    """SIGTERM has come: a command ends as by Ctrl-C."""


INTERRUPTED: Final = 130
"""Exit code of a command that Ctrl-C ended, as shells have it."""


class Start(NamedTuple):
    """A file to start, or one process of it."""

    config: Path
    process: int | None = None
    """From 0 on; None for all that the file has."""


def start_of(arguments: Sequence[str]) -> Start | None:
    """Return what to start if the arguments are `server start FILE` or the same with -c; None if they need a parser.

    A supervisor starts each process of FILE with `--process NUMBER` at the end.
    """
    match arguments:
        case ["server", "start", file] | ["server", "start", "-c" | "--config", file] if not file.startswith("-"):
            return Start(Path(file))
        case ["server", "start", "-c", file, "--process", number] if number.isdecimal():
            return Start(Path(file), int(number))
        case _:
            return None


def main(start: Start) -> int:
    """Run the node as a command does: an expected error is one line, and Ctrl-C no traceback. Return the exit code."""
    try:
        return run(start.config, start.process)
    except KraftError as error:
        return _failed(error)
    except KeyboardInterrupt:
        return INTERRUPTED


def preload() -> None:
    """Import what a node needs, in a process that will be forked for nodes."""
    with imports_exempted():
        with _hidden("rich"):
            import structlog
        from kraft.server.config import loading
        from kraft.server.process import lifeline, logging_setup, node
    del structlog, loading, lifeline, logging_setup, node


def run(config: Path, process: int | None = None) -> int:
    """Run the node of this configuration file until SIGTERM or Ctrl-C, and return the exit code of the process.

    If the file has several processes, `process` is the one to run, from 0 on; by default a supervisor runs them all.
    """
    with imports_exempted():
        with _hidden("rich"):
            import structlog

        from kraft.server.config import processes
        from kraft.server.config.loading import ConfigError, load
        from kraft.server.process import lifeline, logging_setup

    lifeline.follow_launcher()
    try:
        of_file = load(config)
        if process is None and of_file.processes > 1:
            return _supervise(of_file)
        if process is not None and process >= of_file.processes:
            raise ConfigError(
                f"{config}: node.processes={of_file.processes} was changed: stop the node and start it again"
            )
        node_config = processes.process(of_file, process or 0)
        logging_setup.configure(node_config.logging, node=node_config.node_id if of_file.processes > 1 else None)
    except ConfigError as error:
        return _failed(error)
    log = structlog.get_logger()
    for warning in node_config.warnings:
        log.warning("configuration warning", file=str(config), key=warning.key, reason=warning.message)

    # A crash of a library in C would end the node without a word.
    faulthandler.enable()
    # gRPC would print a line for every failed handshake of any client, without a limit.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    with imports_exempted():
        from kraft.server.process import node

    try:
        return node.run(node_config)
    except (ConfigError, node.StartError) as error:
        return _failed(error)


def _supervise(config: NodeConfig) -> int:
    """Run the processes of the file. Raises ConfigError."""
    from kraft.local import supervisor
    from kraft.server.config.processes import with_part
    from kraft.server.process import logging_setup

    file = config.logging.file
    own = None if file is None else with_part(file, "supervisor")
    logging_setup.configure(replace(config.logging, file=own))
    return supervisor.run(config)


def _failed(error: Exception) -> int:
    print(f"kraft: {error}", file=sys.stderr)
    return 1


@contextmanager
def _hidden(module: str) -> Iterator[None]:
    """Hide an installed module from the imports inside.

    structlog imports rich if it is installed, for coloured tracebacks that a node does not print. That would take a
    fifth of a node's time from start to listening.
    """
    is_loaded = module in sys.modules
    if not is_loaded:
        sys.modules[module] = None  # type: ignore[assignment]  # Python's own mark for a module that cannot be found.
    try:
        yield
    finally:
        if not is_loaded:
            del sys.modules[module]
