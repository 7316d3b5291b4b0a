"""The power fails, or the process dies, at every point of a replica's move between two log directories.

Whatever the moment and whatever of the unsynced survives: the next process finds the replica in one place, with all
that was acknowledged, and the move comes to its end.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle, product
from random import Random
from unittest.mock import patch

import pytest

from kraft.model.ids import LogDirectory, Offset
from kraft.server.replica import move as replica_move
from kraft.server.replica.partition import Partition
from tests.support.disks.sim_content import CrashMode
from tests.support.disks.sim_disk import PowerFailure, SimDisk
from tests.support.server.moving import Mover
from tests.support.server.replicas import batch, lead, until, values_in
from tests.support.virtual_time import run_virtually

PATHS = (LogDirectory("a"), LogDirectory("b"))
SOME_WAY = 150
"""Bytes that are copied at once: two batches."""


@dataclass(slots=True)
class Told:
    """What the broker was given, and what it has said of that."""

    appended: list[str] = field(default_factory=list)
    acknowledged: int = 0
    log_start: int = 0
    producers: set[int] = field(default_factory=set)


class Life:
    """One process over the disk, until it stops or the power fails."""

    def __init__(self, disk: SimDisk, told: Told) -> None:
        self.disk = disk
        self.told = told
        self.partition: Partition | None = None

    def live(self, scenario: str) -> bool:
        """False when the power failed."""
        with patch.object(replica_move, "PIECE_BYTES", SOME_WAY), suppress(PowerFailure):
            run_virtually(self._live(scenario))
        return not self.disk.is_off

    async def _live(self, scenario: str) -> None:
        mover = Mover(self.disk, PATHS)
        await mover.moves.finish_interrupted()
        places = mover.places()
        assert len(places) <= 1, places
        assert places or not self.told.appended, "the replica is gone"
        self.partition = mover.open(segment_bytes=300, retention_ms=-1)
        self._check_all_is_there(self.partition)
        self.disk.on_point = self._note_acknowledged
        lead(self.partition, replicas=(1,))
        moving = asyncio.ensure_future(mover.moves.run())
        try:
            if scenario == "moves":
                await self._move(mover, self.partition)
            else:
                await self._settled(self.partition)
                await self._append(mover, self.partition, "one more")
        finally:
            moving.cancel()
            await asyncio.wait([moving])
            if not moving.cancelled():
                moving.exception()
        mover.moves.close()
        if self.disk.is_off:
            return
        assert len(mover.places()) == 1
        self._check_all_is_there(self.partition)
        self.partition.close()
        assert sorted(len(mover.names(path)) for path in PATHS) == [0, 1], "nothing is left behind"

    async def _move(self, mover: Mover, partition: Partition) -> None:
        await self._append(mover, partition, "x", producer_id=5)
        for value in "abcdef":
            await self._append(mover, partition, value)
        partition.advance_log_start(Offset(2))
        self.told.log_start = 2
        await mover.moves.move(partition, PATHS[1])
        # To the very end, so that there is something that only the swap copies.
        while partition.move is not None:
            assert len(self.told.appended) < 50, "the copy does not catch up"
            await self._append(mover, partition, f"{len(self.told.appended)}")
            await asyncio.sleep(0)
        await self._settled(partition)
        self.told.log_start = 5
        partition.advance_log_start(Offset(5))
        await self._append(mover, partition, "l")

    async def _settled(self, partition: Partition) -> None:
        await asyncio.sleep(0.02)
        await until(lambda: partition.move is None or self.disk.is_off, within_s=60)

    async def _append(self, mover: Mover, partition: Partition, value: str, producer_id: int = -1) -> None:
        self.told.appended.append(value)
        partition.append(batch(value, producer_id=producer_id, sequence=-1 if producer_id < 0 else 0), -1)
        await asyncio.sleep(0)
        mover.sync()
        self._note_acknowledged()
        if producer_id >= 0:
            self.told.producers.add(producer_id)

    def _note_acknowledged(self) -> None:
        """Every record is a batch, so offsets count them. What the log says is durable may have been told."""
        assert self.partition is not None
        self.told.acknowledged = max(self.told.acknowledged, self.partition.log.synced_end_offset)

    def _check_all_is_there(self, partition: Partition) -> None:
        start, end = partition.log.log_start_offset, partition.log.log_end_offset
        assert self.told.acknowledged <= end <= len(self.told.appended)
        assert start <= self.told.log_start
        values = values_in(partition)
        assert values == self.told.appended[start:end]
        assert self.told.producers <= set(partition.log.producers)
        # What was lost without a word had no number yet.
        del self.told.appended[end:]


class NotingDisk(SimDisk):
    first_of_copy = 0
    """The point at which the copy is begun."""

    def make_dir(self, path: str) -> None:
        if path.endswith("-future"):
            self.first_of_copy = self.points + 1
        super().make_dir(path)


def formatted(disk: SimDisk | None = None) -> SimDisk:
    disk = disk or SimDisk()
    for path in PATHS:
        disk.make_dir(path)
    disk.sync_dir("")
    return disk


def crashed(disk: SimDisk, mode: CrashMode, seed: int) -> None:
    """A process that died leaves what is unsynced to the power's next failure."""
    disk.crash(mode, Random(seed))


def points_of_a_move() -> tuple[int, int]:
    """From the one at which it is asked for, to the last."""
    disk = NotingDisk()
    assert Life(formatted(disk), Told()).live("moves")
    return disk.first_of_copy, disk.points


def test_a_move_without_a_crash_ends_in_the_other_directory() -> None:
    disk, told = formatted(), Told()
    life = Life(disk, told)
    assert life.live("moves")
    assert life.partition is not None
    assert life.partition.log_directory == PATHS[1]
    assert told.acknowledged == len(told.appended) > 12
    first, last = points_of_a_move()
    assert last - first > 80


@pytest.mark.parametrize("mode", CrashMode)
def test_a_crash_anywhere_in_a_move_leaves_one_replica_with_all_that_was_acknowledged(mode: CrashMode) -> None:
    first, last = points_of_a_move()
    ends = set()
    # Each point in half of the modes, which is enough and takes half the time.
    for point in range(first + [*CrashMode].index(mode) % 2, last + 1, 2):
        disk, told = formatted(), Told()
        disk.stop_at = point
        assert not Life(disk, told).live("moves"), f"point {point} was not reached"
        operation = disk.last_operation
        crashed(disk, mode, seed=point)
        again = Life(disk, told)
        assert again.live("goes on"), operation
        assert again.partition is not None
        ends.add(again.partition.log_directory)
    # Before the wish is durable it may be lost.
    assert ends in ({*PATHS}, {PATHS[1]})


def test_a_second_crash_in_what_follows_does_no_more_harm() -> None:
    first, last = points_of_a_move()
    modes, draw = cycle(product(CrashMode, CrashMode)), Random(7)
    looked_at = 0
    for point in range(first, last + 1, 2):
        mode, second = next(modes)
        disk, told = formatted(), Told()
        disk.stop_at = point
        Life(disk, told).live("moves")
        crashed(disk, mode, seed=point)
        disk.stop_at = disk.points + draw.randint(1, 25)
        if not Life(disk, told).live("goes on"):
            looked_at += 1
            crashed(disk, second, seed=point)
        disk.stop_at = None
        assert Life(disk, told).live("goes on")
    assert looked_at > 30
