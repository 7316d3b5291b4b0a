"""Finding a place in a large log beside a small one: by offset with the read of one batch, and by timestamp."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median, quantiles
from typing import Final

from benchmarks.log_append import open_log
from benchmarks.log_batches import BASE_TIMESTAMP_MS, batches, stamp
from benchmarks.report import Cell, Report, file_system, say
from kraft.log.change import run_now
from kraft.log.format.record_batch import read_header
from kraft.log.partition_log import PartitionLog
from kraft.model.ids import LeaderEpoch, Offset

BATCH_BYTES: Final = 16 << 10
RATIO_TARGET: Final = 1.2
_SPARE_BYTES: Final = 4 << 30
_TIMESTAMP_STEP_MS: Final = 10
_PROGRESS_BYTES: Final = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class _Built:
    log: PartitionLog
    batches: int
    records_per_batch: int

    @property
    def size_bytes(self) -> int:
        return self.log.size_bytes


def measure(directory: Path, lookups: int, large_bytes: int, small_bytes: int, seed: int) -> Report:
    """Builds both logs below `directory`. The large one is smaller than asked for when the disk has no room for it."""
    room_bytes = shutil.disk_usage(directory).free - small_bytes - _SPARE_BYTES
    notes = [
        f"{lookups} look-ups of each kind in each log, in turns, at places of seed {seed}.",
        f"Batches of {BATCH_BYTES >> 10} KiB, segments of 1 GiB, {file_system(directory)}.",
        "Right after writing, so as far as memory goes both logs are in the page cache.",
    ]
    if room_bytes < large_bytes:
        notes.append(f"The disk had no room for {large_bytes >> 20} MiB.")
        large_bytes = max(room_bytes, small_bytes)
    small = _build(directory / "small", small_bytes)
    large = _build(directory / "large", large_bytes)
    say("lookup: measuring")
    chance = Random(seed)
    rows = [
        _row("offset, and one batch read", small, large, _by_offset, lookups, chance),
        _row("timestamp", small, large, _by_timestamp, lookups, chance),
    ]
    for built in (small, large):
        built.log.release()
    return Report(
        title="Finding a place in a log, by the size of the log",
        durability="nothing is written while this is measured",
        rows=rows,
        notes=notes,
    )


def _build(directory: Path, size_bytes: int) -> _Built:
    directory.mkdir()
    log = open_log(directory)
    number, told_bytes, written = 0, 0, 0
    say(f"lookup: building a log of {size_bytes >> 20} MiB")
    load = batches(BATCH_BYTES, timestamp_step_ms=_TIMESTAMP_STEP_MS)
    while written < size_bytes:
        batch = stamp(next(load))
        log.append_as_leader(batch, LeaderEpoch(1), BASE_TIMESTAMP_MS + number * _TIMESTAMP_STEP_MS, run_now)
        number += 1
        written += len(batch)
        if written - told_bytes >= _PROGRESS_BYTES:
            told_bytes = written
            say(f"lookup: {written >> 20} of {size_bytes >> 20} MiB")
    return _Built(log=log, batches=number, records_per_batch=log.log_end_offset // number)


def _row(
    what: str, small: _Built, large: _Built, look_up: Callable[[_Built, int], float], lookups: int, chance: Random
) -> dict[str, Cell]:
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(lookups):
        for built, found in zip((small, large), seconds, strict=True):
            found.append(look_up(built, chance.randrange(built.batches)))
    in_small, in_large = (median(found) * 1e6 for found in seconds)
    ratio = in_large / in_small
    return {
        "look-up by": what,
        f"p50 us, {small.size_bytes >> 20} MiB": in_small,
        f"p50 us, {large.size_bytes >> 20} MiB": in_large,
        "p99 us, small": quantiles(seconds[0], n=100)[98] * 1e6,
        "p99 us, large": quantiles(seconds[1], n=100)[98] * 1e6,
        "ratio": ratio,
        "target": RATIO_TARGET,
        "met": ratio <= RATIO_TARGET,
    }


def _by_offset(built: _Built, number: int) -> float:
    """Seconds to the bytes of batch `number`, asked for by an offset inside it."""
    wanted = Offset(number * built.records_per_batch + built.records_per_batch // 2)
    end = built.log.log_end_offset
    began_s = time.perf_counter()
    found = built.log.read(wanted, 1, end)
    seconds = time.perf_counter() - began_s
    header = read_header(found)
    if not (header.base_offset <= wanted <= header.last_offset and header.size_bytes == len(found)):
        raise RuntimeError(f"offset {wanted} was asked for, a batch from {header.base_offset} came")
    return seconds


def _looked_up(log: PartitionLog, timestamp_ms: int) -> tuple[int, int] | None:
    steps = log.prepare_lookup(timestamp_ms).steps
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: tuple[int, int] | None = end.value
            return found


def _by_timestamp(built: _Built, number: int) -> float:
    """Seconds to the offset of the first record of batch `number`, by its time."""
    began_s = time.perf_counter()
    found = _looked_up(built.log, BASE_TIMESTAMP_MS + number * _TIMESTAMP_STEP_MS)
    seconds = time.perf_counter() - began_s
    if found is None or found[0] != number * built.records_per_batch:
        raise RuntimeError(f"batch {number} was asked for by its time, {found} was found")
    return seconds
