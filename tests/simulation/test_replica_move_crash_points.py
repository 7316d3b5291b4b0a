"""The power fails, or the process dies, at every point of a replica's move between two log directories.

At any moment and with any unsynced data lost: the next process finds the replica in one place, with every acknowledged
record, and completes the move.
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
from kraft.server.replica import replica_move
from kraft.server.replica.partition import Partition
from tests.support.disks.sim_content import CrashMode
from tests.support.disks.sim_disk import PowerFailure, SimDisk
from tests.support.server.moving import Mover
from tests.support.server.replicas import append_to, batch, lead, made, until, values_in
from tests.support.virtual_time import run_virtually

PATHS = (LogDirectory("a"), LogDirectory("b"))
SOME_WAY = 150
"""Bytes that are copied at once: two batches."""


@dataclass(slots=True)
class Reported:
    """The records that the broker got, and what it acknowledged."""

    appended: list[str] = field(default_factory=list)
    acknowledged: int = 0
    log_start: int = 0
    producers: set[int] = field(default_factory=set)


class Life:
    """One process over the disk, until it stops or the power fails."""

    def __init__(self, disk: SimDisk, reported: Reported) -> None:
        self.disk = disk
        self.reported = reported
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
        assert places or not self.reported.appended, "the replica is gone"
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
        made(partition, partition.advance_log_start(Offset(2)))
        self.reported.log_start = 2
        await mover.moves.move(partition, PATHS[1])
        # Up to the end, so that there is something that only the swap copies.
        while partition.replica_log.move is not None:
            assert len(self.reported.appended) < 50, "the copy does not catch up"
            await self._append(mover, partition, f"{len(self.reported.appended)}")
            await asyncio.sleep(0)
        await self._settled(partition)
        self.reported.log_start = 5
        made(partition, partition.advance_log_start(Offset(5)))
        await self._append(mover, partition, "l")

    async def _settled(self, partition: Partition) -> None:
        await asyncio.sleep(0.02)
        await until(lambda: partition.replica_log.move is None or self.disk.is_off, within_s=60)

    async def _append(self, mover: Mover, partition: Partition, value: str, producer_id: int = -1) -> None:
        self.reported.appended.append(value)
        append_to(partition, batch(value, producer_id=producer_id, sequence=-1 if producer_id < 0 else 0), -1)
        await asyncio.sleep(0)
        mover.sync()
        self._note_acknowledged()
        if producer_id >= 0:
            self.reported.producers.add(producer_id)

    def _note_acknowledged(self) -> None:
        """Note as acknowledged what the log reports as durable. Every record is a batch, so offsets count them."""
        assert self.partition is not None
        self.reported.acknowledged = max(self.reported.acknowledged, self.partition.log.synced_end_offset)

    def _check_all_is_there(self, partition: Partition) -> None:
        start, end = partition.log.log_start_offset, partition.log.log_end_offset
        assert self.reported.acknowledged <= end <= len(self.reported.appended)
        assert start <= self.reported.log_start
        values = values_in(partition)
        assert values == self.reported.appended[start:end]
        assert self.reported.producers <= set(partition.log.producers)
        # Records that were lost before an acknowledgement had no number yet.
        del self.reported.appended[end:]


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
    """After a kill, unsynced data stays unsynced until the next power failure."""
    disk.crash(mode, Random(seed))


def points_of_a_move() -> tuple[int, int]:
    """Return the points of a move, from its request to its end."""
    disk = NotingDisk()
    assert Life(formatted(disk), Reported()).live("moves")
    return disk.first_of_copy, disk.points


def test_a_move_without_a_crash_ends_in_the_other_directory() -> None:
    disk, reported = formatted(), Reported()
    life = Life(disk, reported)
    assert life.live("moves")
    assert life.partition is not None
    assert life.partition.log_directory == PATHS[1]
    assert reported.acknowledged == len(reported.appended) > 12
    first, last = points_of_a_move()
    assert last - first > 80


@pytest.mark.parametrize("mode", CrashMode)
def test_a_crash_anywhere_in_a_move_leaves_one_replica_with_all_that_was_acknowledged(mode: CrashMode) -> None:
    first, last = points_of_a_move()
    ends = set()
    # Each point in half of the modes, which is enough and takes half the time.
    for point in range(first + [*CrashMode].index(mode) % 2, last + 1, 2):
        disk, reported = formatted(), Reported()
        disk.stop_at = point
        assert not Life(disk, reported).live("moves"), f"point {point} was not reached"
        operation = disk.last_operation
        crashed(disk, mode, seed=point)
        again = Life(disk, reported)
        assert again.live("goes on"), operation
        assert again.partition is not None
        ends.add(again.partition.log_directory)
    # Before the request is durable it may be lost.
    assert ends in ({*PATHS}, {PATHS[1]})


def test_a_second_crash_in_what_follows_does_no_more_harm() -> None:
    first, last = points_of_a_move()
    modes, draw = cycle(product(CrashMode, CrashMode)), Random(7)
    looked_at = 0
    for point in range(first, last + 1, 2):
        mode, second = next(modes)
        disk, reported = formatted(), Reported()
        disk.stop_at = point
        Life(disk, reported).live("moves")
        crashed(disk, mode, seed=point)
        disk.stop_at = disk.points + draw.randint(1, 25)
        if not Life(disk, reported).live("goes on"):
            looked_at += 1
            crashed(disk, second, seed=point)
        disk.stop_at = None
        assert Life(disk, reported).live("goes on")
    assert looked_at > 30
