"""`kraft log verify`: read every partition under a directory, with a progress bar, and print a table of findings."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from kraft.cli.log.kafka_lines import safe
from kraft.cli.log.read_only_disk import ReadOnlyDisk
from kraft.cli.options import Output
from kraft.cli.printing import print_columns, print_json
from kraft.log.integrity.directory import FileFinding, VerifiedPartition, is_partition_directory, verify_partition
from kraft.log.segment.paths import LOG_SUFFIX
from kraft.model.ids import LogDirectory, Offset, TopicPartition
from kraft.model.printable import counted, readable_size
from kraft.server.identity.storage import CLEAN_SHUTDOWN_FILE
from kraft.server.replica.directory_names import PARTITION_DIRECTORY
from kraft.server.replica.high_watermarks import FILE_NAME as HIGH_WATERMARKS_NAME
from kraft.server.replica.high_watermarks import read_high_watermarks


@dataclass(slots=True)
class _Summary:
    partitions: list[VerifiedPartition] = field(default_factory=list)
    findings: list[FileFinding] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        return all(finding.is_note for finding in self.findings)


def run(directory: str, *, decode_records: bool, output: Output) -> bool:
    """Verify, print the result, and return whether there are no faults.

    Unreadable parts of a directory are findings; the rest is verified.
    """
    directory = directory.rstrip("/") or "/"
    disk = ReadOnlyDisk()
    try:
        paths = _partition_directories(disk, directory)
    except OSError as error:
        print(f"kraft: {safe(directory)}: {error.strerror or error}", file=sys.stderr)
        raise typer.Exit(1) from None
    if not paths:
        print(
            f"kraft: {safe(directory)}: no partition found: name the directory of a partition, or a log directory",
            file=sys.stderr,
        )
        raise typer.Exit(1)
    # Read before the logs: records committed by then are in the logs that are read next.
    log_directory = LogDirectory((os.path.dirname(directory) or ".") if paths == [directory] else directory)
    was_closed = disk.exists(f"{log_directory}/{CLEAN_SHUTDOWN_FILE}")
    high_watermarks = read_high_watermarks(disk, log_directory)
    summary = _Summary()
    with _bar(sum(map(_log_bytes, paths))) as bar:
        for path in paths:
            bar.begin(path)
            verify = partial(
                verify_partition, decode_records=decode_records, was_closed=was_closed, read_bytes=bar.advance
            )
            _verify_one(disk, path, verify, high_watermarks, summary)
    if output is Output.JSON:
        _print_json(directory, summary)
    else:
        _print_table(summary)
    return summary.is_sound


def _partition_directories(disk: ReadOnlyDisk, directory: str) -> list[str]:
    names = disk.list(directory)
    if is_partition_directory(names):
        return [directory]
    return [
        f"{directory}/{name}"
        for name in names
        if PARTITION_DIRECTORY.fullmatch(name) and os.path.isdir(f"{directory}/{name}")
    ]


def _log_bytes(path: str) -> int:
    try:
        return sum(entry.stat().st_size for entry in os.scandir(path) if entry.name.endswith(LOG_SUFFIX))
    except OSError:
        return 0


def _verify_one(
    disk: ReadOnlyDisk,
    path: str,
    verify: Callable[[ReadOnlyDisk, str], VerifiedPartition],
    high_watermarks: dict[TopicPartition, Offset],
    summary: _Summary,
) -> None:
    try:
        verified = verify(disk, path)
    except FileNotFoundError:
        # The topic was deleted meanwhile.
        return
    except OSError as error:
        summary.findings.append(FileFinding(error.filename or path, 0, f"cannot be read: {error.strerror or error}"))
        return
    summary.partitions.append(verified)
    summary.findings += verified.findings
    found = PARTITION_DIRECTORY.fullmatch(os.path.basename(path))
    if found is None:
        return
    committed = high_watermarks.get(TopicPartition(found["topic"], int(found["partition"])))
    if committed is not None and committed > verified.log_end_offset and summary.is_sound:
        file = f"{os.path.dirname(path) or '.'}/{HIGH_WATERMARKS_NAME}"
        reason = f"the high watermark of {found[0]} is {committed}, but its log ends at {verified.log_end_offset}"
        summary.findings.append(FileFinding(file, 0, reason))


# --- progress -----------------------------------------------------------------------------------------------------


class _SpeedColumn(ProgressColumn):
    """Speed in the units of the sizes beside it; rich's own column has decimal units only."""

    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{readable_size(int(task.speed))}/s")


class _Bar:
    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=total)

    def begin(self, path: str) -> None:
        self._progress.update(self._task, description=safe(os.path.basename(path)))

    def advance(self, count: int) -> None:
        self._progress.advance(self._task, count)


@contextmanager
def _bar(total: int) -> Iterator[_Bar]:
    """Show a progress bar on standard error, if that is a terminal, and remove it at the end."""
    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(binary_units=True),
        _SpeedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        yield _Bar(progress, total)


# --- output --------------------------------------------------------------------------------------------------


def _print_table(summary: _Summary) -> None:
    if summary.findings:
        rows = [
            (safe(each.file), each.position, "note" if each.is_note else "FAULT", safe(each.reason))
            for each in summary.findings
        ]
        print_columns(("File", "Byte", "Kind", "Reason"), rows)
        print()
    segments, batches, records, size = _totals(summary)
    faults = sum(not each.is_note for each in summary.findings)
    counts = (
        counted(len(summary.partitions), "partition"),
        counted(segments, "segment"),
        counted(batches, "batch", "batches"),
        counted(records, "record"),
        readable_size(size),
    )
    print(f"{'no faults' if summary.is_sound else counted(faults, 'fault')}: {', '.join(counts)}")


def _print_json(directory: str, summary: _Summary) -> None:
    segments, batches, records, size = _totals(summary)
    print_json(
        {
            "directory": directory,
            "is_well": summary.is_sound,
            "partitions": [
                {
                    "directory": each.directory,
                    "log_start_offset": each.log_start_offset,
                    "log_end_offset": each.log_end_offset,
                    "segments": each.segments,
                    "batches": each.batches,
                    "records": each.records,
                    "size_bytes": each.size_bytes,
                }
                for each in summary.partitions
            ],
            "segments": segments,
            "batches": batches,
            "records": records,
            "size_bytes": size,
            "findings": [
                {
                    "file": each.file,
                    "position": each.position,
                    "severity": "note" if each.is_note else "fault",
                    "reason": each.reason,
                }
                for each in summary.findings
            ],
        }
    )


def _totals(summary: _Summary) -> tuple[int, int, int, int]:
    each = summary.partitions
    return (
        sum(one.segments for one in each),
        sum(one.batches for one in each),
        sum(one.records for one in each),
        sum(one.size_bytes for one in each),
    )
