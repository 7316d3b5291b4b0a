"""Report of a benchmark: one table, and the surroundings without which its figures mean nothing."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

Cell = str | int | float | bool | None

_ROOT: Final = Path(__file__).resolve().parents[1]
_WIDTH: Final = 200
_PACKAGES: Final = ("crc32c", "lz4", "zstandard", "python-snappy")


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One table. Every row has the columns of the first one, in that order; None is a cell without a figure."""

    title: str
    durability: str
    """Meaning of "written" in this measurement."""
    rows: Sequence[Mapping[str, Cell]]
    notes: Sequence[str] = field(default_factory=tuple)
    """One sentence each: how it was measured, and what was not."""


def print_report(report: Report, output: Output) -> None:
    """Print to standard output: a table for people, or one JSON object for programs."""
    if output is Output.JSON:
        print(json.dumps(as_json(report), indent=2))
    else:
        # A file or a pipe has no width that a table has to fit into.
        _print_table(report, Console(width=None if sys.stdout.isatty() else _WIDTH))


def as_json(report: Report) -> dict[str, object]:
    """Return the content of the table, under the same names."""
    return {
        "title": report.title,
        "durability": report.durability,
        "rows": [dict(row) for row in report.rows],
        "notes": list(report.notes),
        "surroundings": surroundings(),
    }


def say(text: str) -> None:
    """Progress, beside the figures."""
    print(text, file=sys.stderr, flush=True)


def surroundings() -> dict[str, str]:
    """Return the surroundings of every figure: machine, versions and commit."""
    return {
        "commit": commit(),
        "cores": str(len(os.sched_getaffinity(0))),
        "processor": _processor(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "record codec": "compiled" if is_codec_compiled() else "pure Python",
        **{name: _version(name) for name in _PACKAGES},
    }


def commit() -> str:
    """Return the commit of the source tree; "unknown" outside of one."""
    command = ["git", "-C", str(_ROOT), "describe", "--always", "--dirty"]
    try:
        finished = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return finished.stdout.strip() or "unknown"


def is_codec_compiled() -> bool:
    """Return True if records are encoded by machine code, False if by the same source in Python."""
    from kraft.log.format import record_codec

    return not str(record_codec.__file__).endswith(".py")


def file_system(directory: Path) -> str:
    """Kind and device of the file system that holds the directory, as /proc/mounts says it."""
    found = ("unknown", "unknown", "/")
    path = directory.resolve()
    for line in Path("/proc/mounts").read_text().splitlines():
        device, point, kind, *_ = line.split(" ")
        if path.is_relative_to(point) and len(point) >= len(found[2]):
            found = (kind, device, point)
    return f"{found[0]} on {found[1]}"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _print_table(report: Report, console: Console) -> None:
    table = Table(title=report.title, title_justify="left")
    for name in report.rows[0] if report.rows else ():
        table.add_column(name, justify="left" if isinstance(report.rows[0][name], str) else "right")
    for row in report.rows:
        table.add_row(*map(_text, row.values()))
    console.print(table)
    console.print(f"durability: {report.durability}", markup=False)
    for note in report.notes:
        console.print(note, markup=False)
    console.print("; ".join(f"{name} {value}" for name, value in surroundings().items()), markup=False)


def _text(cell: Cell) -> str:
    match cell:
        case None:
            return "-"
        case bool():
            return "yes" if cell else "no"
        case float():
            return f"{cell:,.0f}" if abs(cell) >= 1_000 else f"{cell:.3g}"
        case int():
            return f"{cell:,}"
        case _:
            return cell
