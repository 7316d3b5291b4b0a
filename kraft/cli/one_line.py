"""Shared by commands that read a node's configuration file: the option for the file, and errors in one line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

ConfigFile = Annotated[Path, typer.Option("--config", "-c", help="Configuration file of the node.", metavar="FILE")]


@contextmanager
def one_line_errors(*more: type[Exception]) -> Iterator[None]:
    """Turn a ConfigError and `more` into one line on standard error and exit code 1."""
    from kraft.server.config.loading import ConfigError

    expected: tuple[type[Exception], ...] = (ConfigError, *more)
    try:
        yield
    except expected as error:
        print(f"kraft: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
