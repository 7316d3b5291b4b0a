"""The power fails at every point of a log's life, and the recovered log has everything that was synced.

A workload runs once. In the middle of each operation that changes the disk, a clone of the disk is taken and crashed in
every mode. The log that recovers from it must match what the model allows at that moment, work as before, and survive a
second power loss anywhere in its recovery.

`python -m tests.soak.crash_points --seeds 100` tries more workloads than the tests do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from itertools import product
from random import Random
from typing import Final
from unittest.mock import patch

from kraft.log import group_commit
from kraft.log.change import run_now
from kraft.log.partition_log import PartitionLog
from kraft.log.topic_config import TopicConfig
from kraft.model.errors import KraftError
from kraft.model.ids import LeaderEpoch, Offset
from tests.simulation.log_workload import SMALL, Workload
from tests.support.disks.sim_content import CrashMode
from tests.support.disks.sim_disk import SimDisk
from tests.support.log.log_building import batch_of, stored
from tests.support.log.log_expectations import Broken, Expectation, knows_its_producers, meets, read_bytes
from tests.support.log.modelled_log import open_log

CONFIGS: Final = (
    SMALL,
    replace(SMALL, preallocate=True, index_interval_bytes=0),
    replace(SMALL, segment_bytes=20_000, segment_index_bytes=64),
)

CRASHES: Final = {CrashMode.DROP: (1,), CrashMode.KEEP: (1,), CrashMode.TEAR: (1,), CrashMode.REORDER: (1, 2)}
"""The seeds of the crashes at each point; a mode that is not random needs only one."""

STEPS: Final = 150

CHECKPOINT_INTERVAL_BYTES: Final = (2500, group_commit.CHECKPOINT_INTERVAL_BYTES)
"""The first makes a log of some kilobytes move its recovery point as often as one of gigabytes."""

STEPS_OF_OTHER_ENDS: Final = 60

SECOND_CRASHES: Final = 2
"""Points at which the power fails again, per recovery."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The disk in the middle of an operation, and what a recovery from it must restore."""

    point: int
    operation: str
    step: str
    disk: SimDisk
    expectations: tuple[Expectation, ...]
    config: TopicConfig
    epoch: int
    now_ms: int


class WatchedWorkload(Workload):
    """A workload that records a moment at every point."""

    def __init__(self, seed: int, config: TopicConfig = SMALL, disk: SimDisk | None = None) -> None:
        super().__init__(seed, config, disk)
        self.moments: list[Moment] = []
        self.model.disk.on_point = self._take_moment

    def _take_moment(self) -> None:
        model = self.model
        self.moments.append(
            Moment(
                point=model.disk.points,
                operation=model.disk.last_operation,
                step=self.step,
                disk=model.disk.clone(),
                expectations=model.expectations,
                config=model.config,
                epoch=model.epoch,
                now_ms=model.now_ms,
            )
        )


# --- recovering ----------------------------------------------------------------------------------------------


def recover(disk: SimDisk, moment: Moment) -> tuple[PartitionLog, Expectation]:
    log = open_log(disk, moment.config)
    return log, meets(moment.expectations, log)


def goes_on(log: PartitionLog, disk: SimDisk, moment: Moment, expectation: Expectation) -> None:
    """Check that producers find their records, and that neither a crash nor a clean stop loses new ones."""
    leftovers = [name for name in disk.list(log.directory) if name.endswith((".tmp", ".cleaned", ".swap", ".deleted"))]
    if leftovers:
        raise Broken(f"recovery left {leftovers} behind")
    # The leader of the crashed epoch may still be the leader.
    epoch = max(moment.epoch, log.latest_epoch)
    expectation.check_producers(log, epoch, moment.now_ms)
    for number in range(6):
        values = [f"behind the crash, {number}" for _ in range(5)]
        log.append_as_leader(
            batch_of(*values, timestamp_ms=moment.now_ms), LeaderEpoch(epoch + number // 3), moment.now_ms, run_now
        )
    ticket = log.prepare_sync()
    ticket.run()
    log.complete_sync(ticket, run_now)
    held = _held(log)
    if log.synced_end_offset != log.log_end_offset:
        raise Broken(f"a sync of all left the synced end at {log.synced_end_offset}, the log ends at {held[1]}")
    for is_clean in (False, True):
        if is_clean:
            log.close()
        disk.crash(CrashMode.DROP, Random(0))
        log = open_log(disk, moment.config, is_clean)
        if held != _held(log):
            raise Broken(f"{'a clean stop' if is_clean else 'one more crash'} changed a log that was synced")
        knows_its_producers(log, epoch + 9, moment.now_ms, expectation.cleaned_end)
    log.close()


def follows_on(log: PartitionLog, disk: SimDisk, moment: Moment) -> None:
    """Check that the log accepts a later leader's records from the earliest epoch that is possible."""
    is_empty = log.log_start_offset == log.log_end_offset
    epoch = LeaderEpoch(0) if is_empty else log.epoch_at(Offset(log.log_end_offset - 1))
    end = log.append_as_follower(stored("behind the crash", offset=log.log_end_offset, epoch=epoch)) + 1
    run_now(log.rolling())
    held = _held(log)
    disk.crash(CrashMode.DROP, Random(0))
    log = open_log(disk, moment.config)
    if held != _held(log) or log.log_end_offset != end or log.latest_epoch != epoch:
        raise Broken(f"one more crash changed what was copied from a leader of epoch {epoch}")
    log.release()


def _held(log: PartitionLog) -> tuple[object, ...]:
    return log.log_start_offset, log.log_end_offset, read_bytes(log), log.epoch_cache.entries


def crash_twice(moment: Moment, crashed: SimDisk, random: Random) -> int:
    """Fail the power again during the recovery and right after it. Return the number of points."""
    clones: list[SimDisk] = []
    disk = crashed.clone()
    disk.on_point = lambda: clones.append(disk.clone())
    log, _ = recover(disk, moment)
    held = (log.log_start_offset, log.log_end_offset)
    disk.crash(CrashMode.DROP, random)
    again, _ = recover(disk, moment)
    if (again.log_start_offset, again.log_end_offset) != held:
        raise Broken(f"a recovered log held {held}, and holds {(again.log_start_offset, again.log_end_offset)} later")
    for clone in random.sample(clones, min(SECOND_CRASHES, len(clones))):
        clone.crash(random.choice(list(CrashMode)), random)
        recover(clone, moment)
    return 1 + min(SECOND_CRASHES, len(clones))


def crash_at(moment: Moment, mode: CrashMode, seed: int) -> SimDisk:
    crashed = moment.disk.clone()
    crashed.crash(mode, _chance(moment, mode, seed))
    return crashed


def _chance(moment: Moment, mode: CrashMode, seed: int) -> Random:
    return Random(f"{moment.point} {mode.value} {seed}")


def try_crash(crashed: SimDisk, moment: Moment, mode: CrashMode, seed: int, *, twice: bool, goes_on_too: bool) -> int:
    """Recover; return the number of second crashes. Raises AssertionError with all that is needed to repeat it."""
    random = _chance(moment, mode, seed)
    second = 0
    try:
        if twice:
            second = crash_twice(moment, crashed, random)
        log, expectation = recover(crashed, moment)
        if goes_on_too:
            follower = crashed.clone()
            goes_on(log, crashed, moment, expectation)
            follows_on(open_log(follower, moment.config), follower, moment)
    except (KraftError, Broken, OSError, AssertionError) as problem:
        raise AssertionError(
            f"point {moment.point} ({moment.operation}, in {moment.step!r}), {mode.value}, crash seed {seed}: "
            f"{type(problem).__name__}: {problem}"
        ) from problem
    return second


# --- all of it -----------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Tally:
    """Counts of a search."""

    points: int = 0
    crashes: int = 0
    recoveries: int = 0
    """Fewer than crashes: equal disks with equal expectations are recovered only once."""
    second_crashes: int = 0
    steps: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        steps = ", ".join(f"{count} {name}" for name, count in sorted(self.steps.items()))
        modes = ", ".join(mode.value for mode in CRASHES)
        return (
            f"{self.points} points x {{{modes}}}: {self.crashes} crashes, {self.recoveries} recoveries, "
            f"{self.second_crashes} second crashes in or behind one; {steps}"
        )


def crash_everywhere(workload_seed: int, steps: int = STEPS) -> Tally:
    """Crash a workload at every point. Raises AssertionError for the first crash that a log did not recover from.

    Any 18 consecutive seeds cover all tempers, all configurations and both intervals.
    """
    interval_bytes = CHECKPOINT_INTERVAL_BYTES[workload_seed // 9 % len(CHECKPOINT_INTERVAL_BYTES)]
    with patch.object(group_commit, "CHECKPOINT_INTERVAL_BYTES", interval_bytes):
        return _crash_everywhere(workload_seed, steps)


def _crash_everywhere(workload_seed: int, steps: int) -> Tally:
    workload = WatchedWorkload(workload_seed, CONFIGS[workload_seed // 3 % len(CONFIGS)])
    workload.run_all_kinds(steps)
    tally = Tally(points=len(workload.moments), steps=workload.steps)
    recovered: set[Hashable] = set()
    for moment, mode in product(workload.moments, CRASHES):
        for seed in CRASHES[mode]:
            tally.crashes += 1
            crashed = crash_at(moment, mode, seed)
            # The workload keeps the moments, so each of their expectations has an id of its own.
            state = crashed.state(), id(moment.expectations)
            if state in recovered:
                continue
            recovered.add(state)
            # Every recovery is checked; second crashes and further appends take longer, so only some have them.
            twice, goes_on_too = tally.recoveries % 5 == 0, tally.recoveries % 3 == 0
            tally.second_crashes += try_crash(crashed, moment, mode, seed, twice=twice, goes_on_too=goes_on_too)
            tally.recoveries += 1
    return tally
