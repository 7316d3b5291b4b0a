"""Fault runs on the command line: a line for each cycle, the figures at the end, one line for a failure."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import SystemRandom
from typing import Annotated

import typer

Times = Annotated[int, typer.Option(min=1)]
Seed = Annotated[int | None, typer.Option(help="By default a new one, which is printed.")]


def chosen(seed: int | None) -> int:
    return SystemRandom().randrange(1_000_000) if seed is None else seed


def say(text: str) -> None:
    """Print a line for each cycle."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


@contextmanager
def judged(*failures: type[Exception]) -> Iterator[None]:
    """Turn one of these errors, a timeout or a failed assertion into one line and exit code 1."""
    expected: tuple[type[Exception], ...] = (AssertionError, TimeoutError, *failures)
    try:
        yield
    except expected as failure:
        print(f"{type(failure).__name__}: {failure}", file=sys.stderr)
        for note in getattr(failure, "__notes__", ()):
            print(note, file=sys.stderr)
        raise typer.Exit(1) from None
