"""Appending to a partition's log beside a bare loop that does no more than has to be done: checksum and write.

Both take the same batches, into a new file each round, in turns; the figure is the median of the rounds' ratios.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from statistics import median, quantiles
from typing import Final

from crc32c import crc32c

from benchmarks.log_batches import BASE_TIMESTAMP_MS, Stamped, batches, stamp
from benchmarks.log_group_commit import SYNC_DEADLINE_S, GroupCommit
from benchmarks.report import Cell, Report, file_system, say
from kraft.log.change import run_now
from kraft.log.partition_log import PartitionLog
from kraft.log.topic_config import TopicConfig
from kraft.model.ids import LeaderEpoch, TopicPartition
from kraft.runtime.disk import RealDisk

BATCH_BYTES: Final = (16 << 10, 64 << 10, 1 << 20)
PAGE_CACHE_RATIO_TARGET: Final = 0.6
GROUP_COMMIT_RATIO_TARGET: Final = 0.4

_SHORT_ROUNDS: Final = 8
"""Factor by which page-cache rounds are shorter and more, so that a disturbance hits neighbouring rounds alike."""

_CRC_COVERS_FROM: Final = 21
_TARGET_BATCH_BYTES: Final = 64 << 10
_LEADER_EPOCH: Final = LeaderEpoch(1)


_Way = Callable[[Path, Sequence[Stamped]], float]
"""Writes the batches into the directory, and says how many seconds that took."""


def measure(directory: Path, rounds: int, round_bytes: int, sizes: Sequence[int] = BATCH_BYTES) -> Report:
    """Writes into a directory below `directory`, and removes it."""
    short_rounds, short_bytes = rounds * _SHORT_ROUNDS, round_bytes // _SHORT_ROUNDS
    rows: list[dict[str, Cell]] = []
    for size_bytes in sizes:
        load = list(islice(batches(size_bytes), max(1, round_bytes // size_bytes)))
        short_load = load[: max(1, short_bytes // size_bytes)]
        say(f"append: batches of {size_bytes >> 10} KiB in the page cache, {short_rounds} rounds")
        found = _in_turns(directory, short_load, {"bare": _bare, "log": _append}, short_rounds)
        rows.append(_row(size_bytes, "page cache", PAGE_CACHE_RATIO_TARGET, short_load, found))
        say(f"append: batches of {size_bytes >> 10} KiB with group commit, {rounds} rounds")
        ways = {"bare": _bare, "bare, syncing": _bare_synced, "log": _append_synced}
        rows.append(
            _row(size_bytes, "group commit", GROUP_COMMIT_RATIO_TARGET, load, _in_turns(directory, load, ways, rounds))
        )
    return Report(
        title="Append to a partition log, against checksum and write in a bare loop",
        durability="page cache, or group commit: fdatasync beside the appends, the last one inside the time",
        rows=rows,
        notes=(
            f"Interleaved rounds, each to a new file on {file_system(directory)}.",
            f"{short_rounds} of {short_bytes >> 20} MiB in the page cache, {rounds} of {round_bytes >> 20} MiB synced.",
            "Batches of an idempotent producer, 1,000-byte records, not compressed.",
            "Ratios are medians over the rounds, to the bare loop of the same round without any sync.",
            "bare MB/s, syncing, is context: what a bare loop with its own fdatasync thread is left by the disk.",
        ),
    )


def _in_turns(
    directory: Path, load: Sequence[Stamped], ways: Mapping[str, _Way], rounds: int
) -> dict[str, list[float]]:
    """Seconds of each way, one figure a round."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(-1, rounds):
        # Every other round the other way round, so that none always has the fuller disk queue before it.
        for name in list(ways) if number % 2 else reversed(list(ways)):
            took_s = _in_new_directory(directory / f"{name}-{number}", load, ways[name])
            # The first round is for the caches to fill.
            if number >= 0:
                seconds[name].append(took_s)
    return seconds


def _row(
    size_bytes: int, mode: str, target: float, load: Sequence[Stamped], seconds: Mapping[str, Sequence[float]]
) -> dict[str, Cell]:
    megabytes = sum(len(buffer) for buffer, _ in load) / 1e6
    speeds = {name: megabytes / median(each) for name, each in seconds.items()}
    ratios = [bare / ours for bare, ours in zip(seconds["bare"], seconds["log"], strict=True)]
    low, ratio, high = quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    has_target = size_bytes == _TARGET_BATCH_BYTES
    return {
        "batch": f"{size_bytes >> 10} KiB",
        "mode": mode,
        "log MB/s": speeds["log"],
        "bare MB/s": speeds["bare"],
        "bare MB/s, syncing": speeds.get("bare, syncing"),
        "ratio": ratio,
        "quarter below": low,
        "quarter above": high,
        "target": target if has_target else None,
        "met": ratio >= target if has_target else None,
    }


def _in_new_directory(path: Path, load: Sequence[Stamped], way: _Way) -> float:
    path.mkdir(parents=True)
    try:
        return way(path, load)
    finally:
        shutil.rmtree(path)


# --- the four ways -------------------------------------------------------------------------------------------


def _bare(directory: Path, load: Sequence[Stamped]) -> float:
    descriptor = _new_file(directory)
    began_s = time.perf_counter()
    for stamped in load:
        batch = stamp(stamped)
        crc32c(memoryview(batch)[_CRC_COVERS_FROM:])
        os.write(descriptor, batch)
    seconds = time.perf_counter() - began_s
    os.close(descriptor)
    return seconds


def _bare_synced(directory: Path, load: Sequence[Stamped]) -> float:
    """The same with a thread that syncs what there is, again and again, and once more at the end."""
    descriptor = _new_file(directory)
    wanted, ended = threading.Event(), threading.Event()

    def sync_on() -> None:
        is_last = False
        while not is_last:
            wanted.wait(SYNC_DEADLINE_S)
            wanted.clear()
            is_last = ended.is_set()
            os.fdatasync(descriptor)

    thread = threading.Thread(target=sync_on, name="bare sync")
    thread.start()
    began_s = time.perf_counter()
    try:
        for stamped in load:
            batch = stamp(stamped)
            crc32c(memoryview(batch)[_CRC_COVERS_FROM:])
            os.write(descriptor, batch)
            if not wanted.is_set():
                wanted.set()
    finally:
        ended.set()
        wanted.set()
        thread.join(SYNC_DEADLINE_S)
    seconds = time.perf_counter() - began_s
    os.close(descriptor)
    return seconds


def _append(directory: Path, load: Sequence[Stamped]) -> float:
    log = open_log(directory)
    began_s = time.perf_counter()
    for stamped in load:
        log.append_as_leader(stamp(stamped), _LEADER_EPOCH, BASE_TIMESTAMP_MS, run_now)
    seconds = time.perf_counter() - began_s
    log.release()
    return seconds


def _append_synced(directory: Path, load: Sequence[Stamped]) -> float:
    log = open_log(directory)
    with GroupCommit(log) as syncs:
        began_s = time.perf_counter()
        for stamped in load:
            log.append_as_leader(stamp(stamped), _LEADER_EPOCH, BASE_TIMESTAMP_MS, run_now)
            syncs.poll()
        syncs.drain()
        seconds = time.perf_counter() - began_s
    log.release()
    return seconds


def open_log(directory: Path, config: TopicConfig | None = None) -> PartitionLog:
    """Opens or begins the one log that these benchmarks write."""
    return PartitionLog.open(RealDisk(), str(directory / "log-0"), config or TopicConfig(), TopicPartition("log", 0))


def _new_file(directory: Path) -> int:
    return os.open(directory / "bare", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
