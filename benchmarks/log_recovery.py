"""Time until a log is online after the process that wrote it was killed with signal 9."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks import log_writer, page_cache
from benchmarks.log_append import open_log
from benchmarks.report import Cell, Report, file_system, say

BATCH_BYTES: Final = (16 << 10, 1 << 10)
TARGET_S: Final = 3.0
_WRITE_DEADLINE_S: Final = 600.0
_OVERSHOOT_BYTES_MAX: Final = 512 << 20
"""The writer gives up when it was not killed by then."""

_LOG_SUFFIX: Final = ".log"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    seconds: float
    batches: int
    size_bytes: int


def measure(directory: Path, times: int, log_bytes: int, sizes: Sequence[int] = BATCH_BYTES) -> Report:
    """Writes below `directory`. Raises RuntimeError when a log lacks what was durable before the kill."""
    rows: list[dict[str, Cell]] = []
    how_dropped = ""
    for batch_bytes, durability in product(sizes, (log_writer.FSYNC, log_writer.PAGE_CACHE)):
        place = directory / f"recovery-{batch_bytes}-{durability}"
        place.mkdir()
        try:
            say(f"recovery: {log_bytes >> 20} MiB in batches of {batch_bytes} bytes, {durability}, then kill -9")
            durable_end = _write_and_kill(place, batch_bytes, log_bytes, durability)
            left = _Leftovers(place)
            say(f"recovery: opening it {times} times warm and {times} times cold")
            warm = [_open(left, durable_end) for _ in range(times)]
            cold = []
            for _ in range(times):
                left.put_back()
                how_dropped = page_cache.drop(place)
                cold.append(_open(left, durable_end, put_back=False))
            rows.append(_row(batch_bytes, durability, warm, cold))
        finally:
            shutil.rmtree(place)
    return Report(
        title="Opening a partition log after kill -9",
        durability="fsync, by group commit, or page-cache, until the kill; what was so by then was found each time",
        rows=rows,
        notes=(
            f"{times} times each, on {file_system(directory)}; the log is one segment that was never closed.",
            f"Cold: {how_dropped} before each. Every file but the .log was put back before each, as the kill left it.",
        ),
    )


def _write_and_kill(place: Path, batch_bytes: int, log_bytes: int, durability: str) -> int:
    """The end of what has to be there after the kill."""
    arguments = [str(place), str(batch_bytes), str(log_bytes + _OVERSHOOT_BYTES_MAX), durability]
    command = [sys.executable, "-m", "benchmarks.log_writer", *arguments]
    deadline_s = time.monotonic() + _WRITE_DEADLINE_S
    durable_end = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        try:
            assert writer.stdout is not None
            for line in writer.stdout:
                if time.monotonic() > deadline_s:
                    raise TimeoutError(f"{log_bytes} bytes were not written within {_WRITE_DEADLINE_S:.0f} s")
                if not line.endswith("\n"):
                    continue
                durable_end = int(line)
                if _size(place) >= log_bytes and writer.poll() is None:
                    # What it still says comes out of the pipe: all of it was acknowledged before the kill.
                    writer.kill()
        finally:
            writer.kill()
        if writer.wait() != -9:
            raise RuntimeError(f"the writer ended by itself, with exit code {writer.returncode}")
    return durable_end


def _size(place: Path) -> int:
    return sum(path.stat().st_size for path in place.rglob(f"*{_LOG_SUFFIX}"))


class _Leftovers:
    """The small files beside the log as the kill left them: opening a log makes the next opening easier."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._content = {path: path.read_bytes() for path in self._beside_the_log()}

    def put_back(self) -> None:
        for path in self._beside_the_log():
            if path not in self._content:
                path.unlink()
        for path, content in self._content.items():
            path.write_bytes(content)

    def _beside_the_log(self) -> list[Path]:
        return [path for path in self.place.rglob("*") if path.is_file() and path.suffix != _LOG_SUFFIX]


def _open(left: _Leftovers, durable_end: int, put_back: bool = True) -> _Opened:
    if put_back:
        left.put_back()
    began_s = time.perf_counter()
    log = open_log(left.place, log_writer.CONFIG)
    seconds = time.perf_counter() - began_s
    try:
        if log.log_end_offset < durable_end:
            raise RuntimeError(f"the log ends at {log.log_end_offset}, before the kill it had {durable_end}")
        return _Opened(seconds=seconds, batches=log.recovery_report.batches_checked, size_bytes=log.size_bytes)
    finally:
        log.release()


def _row(batch_bytes: int, durability: str, warm: Sequence[_Opened], cold: Sequence[_Opened]) -> dict[str, Cell]:
    slowest_cold = max(opened.seconds for opened in cold)
    median_cold = median(opened.seconds for opened in cold)
    return {
        "batch": f"{batch_bytes >> 10} KiB",
        "log.durability": durability,
        "log MiB": warm[0].size_bytes >> 20,
        "batches checked": warm[0].batches,
        "warm s": median(opened.seconds for opened in warm),
        "cold s": median_cold,
        "cold, slowest s": slowest_cold,
        "target s": TARGET_S,
        "met": median_cold <= TARGET_S,
    }
