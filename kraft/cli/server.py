"""`kraft server`: one node in the foreground."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from kraft.cli.one_line import ConfigFile, one_line_errors

app = typer.Typer(help="Run a node.", no_args_is_help=True)


@app.callback()
def server() -> None:
    """Run a node."""


@app.command("start")
def start(config: ConfigFile) -> None:
    """Run one node until SIGTERM or Ctrl-C, which stop it in order. Its log goes to standard error."""
    with _hidden("rich"):
        import structlog

    from kraft.server import lifeline, logging_setup
    from kraft.server.config import load

    lifeline.follow_launcher()
    with one_line_errors():
        node_config = load(config)
    logging_setup.configure(node_config.log_level)
    log = structlog.get_logger()
    for warning in node_config.warnings:
        log.warning("a setting needs attention", file=str(config), key=warning.key, reason=warning.message)

    # gRPC would write a line of its own for every stranger whose handshake fails, as fast as they come.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    from kraft.server import node

    with one_line_errors(node.StartError):
        raise typer.Exit(node.run(node_config))


@contextmanager
def _hidden(module: str) -> Iterator[None]:
    """Import what can do without `module` as if it were not installed.

    structlog takes rich where it finds it, for coloured tracebacks that a node does not print: a fifth of the time
    that a node needs until it listens.
    """
    is_loaded = module in sys.modules
    if not is_loaded:
        sys.modules[module] = None  # type: ignore[assignment]  # How Python itself marks a module as not to be found.
    try:
        yield
    finally:
        if not is_loaded:
            del sys.modules[module]
