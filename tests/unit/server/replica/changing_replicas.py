"""Replicas whose logs are changed in the thread of their directory, and a disk that holds that thread back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kraft.log.append_work import AppendMustWait, AwaitedChange
from kraft.model.ids import Offset
from kraft.replication.effects import TruncateTo
from kraft.server.replica.log_changes import ChangeOutcome
from kraft.server.replica.log_directories import as_log_directory
from kraft.server.replica.log_syncer import LogSyncer
from tests.support.server.replicas import ORDERS_0, Broker, FailingDisk, batch, follow, lead, leaders_batch, until

DEADLINE_S = 60.0


class WatchingDisk(FailingDisk):
    """Notes the thread of each sync, and holds steps back when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[tuple[int, str]] = []
        self.open_gate = threading.Event()
        self.open_gate.set()
        self.held = threading.Event()
        self.refuses = ""
        """No file with that in its name can be written for want of room."""
        self.holds_swap = ""
        """"before" or "behind": where in the swap of a compaction, at its last rename, the thread is held."""

    def open(self, path: str, create: bool) -> Any:
        file = super().open(path, create)
        sync = file._file.sync

        def noted() -> None:
            self._note(f"sync {path}")
            sync()

        file._file.sync = noted
        return file

    def write_atomically(self, path: str, data: bytes) -> None:
        self._note(f"write {path}")
        if self.refuses and self.refuses in path:
            raise OSError(28, "No space left on device")
        super().write_atomically(path, data)

    def sync_dir(self, path: str) -> None:
        self._note(f"sync directory {path}")
        super().sync_dir(path)

    def rename(self, source: str, target: str) -> None:
        is_swap = source.endswith(".swap")
        if is_swap and self.holds_swap == "before":
            self._hold_swap()
        super().rename(source, target)
        if is_swap and self.holds_swap == "behind":
            self._hold_swap()

    def _hold_swap(self) -> None:
        self.holds_swap = ""
        self.hold()
        self._note("swap")

    def _note(self, what: str) -> None:
        self.threads.append((threading.get_ident(), what))
        if not self.open_gate.is_set() and threading.current_thread() is not threading.main_thread():
            self.held.set()
            assert self.open_gate.wait(DEADLINE_S)

    def on_loop(self) -> list[str]:
        return [what for ident, what in self.threads if ident == threading.main_thread().ident]

    def hold(self) -> None:
        self.held.clear()
        self.open_gate.clear()


class Changing:
    """A replica whose log is changed as on a node: in the thread of its directory."""

    def __init__(
        self, broker: Broker, disk: WatchingDisk, syncer: LogSyncer, *, segment_bytes: int = 1_000, **configs: Any
    ) -> None:
        self.broker, self.disk, self.syncer = broker, disk, syncer
        self.partition = broker.open(ORDERS_0, segment_bytes=segment_bytes, **configs)
        disk.threads.clear()

    async def append(self, *values: str) -> None:
        await self.append_batch(batch(*values))

    async def append_batch(self, records: bytes) -> None:
        """Append as ProduceHandler does: wait and retry."""
        while True:
            try:
                self.partition.append(records, 1)
                return
            except AppendMustWait as wait:
                work = wait.work
            assert isinstance(work, AwaitedChange)
            await asyncio.wait_for(work.wait(), DEADLINE_S)

    async def lead_full_segment(self) -> None:
        """Leads four records that are synced; the next one of their size begins a segment."""
        lead(self.partition, replicas=(1,))
        for number in range(4):
            await self.append(f"{number}" * 150)
        await self.synced()

    async def follow_records(self, count: int) -> None:
        """Follows, with so many records that are synced."""
        follow(self.partition)
        for at in range(count):
            await self.over(self.partition.append_as_follower(leaders_batch("x" * 150, at=at)))
        await self.synced()

    async def over(self, outcome: ChangeOutcome[Any]) -> Any:
        return await asyncio.wait_for(outcome.wait(), DEADLINE_S)

    async def synced(self) -> None:
        await until(lambda: self.partition.log.synced_end_offset == self.partition.log.log_end_offset)


@asynccontextmanager
async def changing(directory: Path, **configs: Any) -> AsyncIterator[Changing]:
    disk = WatchingDisk()
    syncer = LogSyncer([as_log_directory(directory)])
    running = asyncio.create_task(syncer.run())
    try:
        yield Changing(Broker(directory, disk=disk, request_sync=syncer.request), disk, syncer, **configs)
    finally:
        disk.open_gate.set()
        running.cancel()
        await asyncio.wait([running])
        await syncer.close()


@asynccontextmanager
async def held_in_a_roll(directory: Path) -> AsyncIterator[tuple[Changing, asyncio.Task[None]]]:
    """A leader, and its fifth append, which waits for a roll that the disk holds back."""
    async with changing(directory) as replica:
        await replica.lead_full_segment()
        replica.disk.hold()
        appending = asyncio.create_task(replica.append("4" * 150))
        await until(replica.disk.held.is_set)
        yield replica, appending


@asynccontextmanager
async def held_in_a_truncation(directory: Path) -> AsyncIterator[tuple[Changing, ChangeOutcome[Any]]]:
    """A follower of twelve records that is cut back to two, which the disk holds back."""
    async with changing(directory) as replica:
        await replica.follow_records(12)
        replica.disk.hold()
        cut = replica.partition.truncate(TruncateTo(offset=Offset(2)))
        await until(replica.disk.held.is_set)
        yield replica, cut
