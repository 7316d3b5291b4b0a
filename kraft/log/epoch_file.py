"""The leader epochs of one log, and the file that has them: recovery checks batches against it."""

from __future__ import annotations

from collections.abc import Sequence

from kraft.log.change import Change
from kraft.log.disk import Disk, is_shortage
from kraft.log.format.record_batch import BatchHeader
from kraft.log.leader_epochs import CHECKPOINT_NAME, LeaderEpochCache
from kraft.log.log_health import LogHealth
from kraft.log.recovery.recovery import RecoveredLog
from kraft.model.ids import LeaderEpoch, Offset


class EpochFile:
    """The file names an epoch before a batch of it is appended. Changes are durable at their end, and raise OSError."""

    def __init__(self, disk: Disk, directory: str, recovered: RecoveredLog, health: LogHealth) -> None:
        self._disk = disk
        self._directory = directory
        self._health = health
        self.cache = recovered.epochs
        self._is_written = not recovered.epochs_changed
        """False if the file may name epochs that the log has dropped."""

    def moved_to(self, directory: str) -> None:
        self._directory = directory

    def begins(self, headers: Sequence[BatchHeader]) -> bool:
        """Return whether `begin` has to run before these batches are appended: they begin a leader epoch."""
        return headers[-1].leader_epoch != self.cache.latest_epoch or not self._is_written

    def begin(self, headers: Sequence[BatchHeader], log_end: Offset) -> Change[None]:
        """Write the epochs that these batches begin, before the batches. Also raises Refusal."""
        for header in headers:
            self.cache = self.cache.with_epoch(LeaderEpoch(header.leader_epoch), Offset(header.base_offset))
        try:
            yield from self._write()
        except OSError as error:
            self._health.tolerate_shortage(error)
            yield from self.cut(log_end)
            raise

    def write_changed(self) -> Change[None]:
        """Write the file unless it has the epochs already."""
        if not self._is_written:
            yield from self._write()

    def drop_empty(self, log_end: Offset) -> Change[None]:
        """Drop epochs in which this replica led and wrote nothing: its next leader may send records of earlier ones."""
        if self.cache.entries[-1].start_offset >= log_end:
            yield from self.cut(log_end)

    def drop_unused(self, log_end: Offset) -> None:
        """Drop epochs whose records could not be written. The next append writes the file first."""
        # Otherwise followers would be sent an epoch beyond the log's end, and the next records would have to be of it.
        before = self.cache.latest_epoch
        self.cache = self.cache.up_to(log_end)
        if self.cache.latest_epoch != before:
            self._is_written = False

    def cut(self, log_end: Offset) -> Change[None]:
        """Drop the epochs from `log_end` on. Without room for the file it is removed, and recovery rebuilds it."""
        self.cache = self.cache.up_to(log_end)
        try:
            yield from self._write()
        except OSError as error:
            if not is_shortage(error):
                raise
            # A file with later epochs would make recovery reject records that are appended in an earlier one.
            directory = self._directory
            yield lambda: self._remove_from(directory)

    def start_at(self, offset: Offset) -> Change[None]:
        """Drop the epochs of records below `offset`."""
        self.cache = self.cache.starting_at(offset)
        yield from self._write()

    def take_over(self, cache: LeaderEpochCache) -> Change[None]:
        """Have these epochs instead, which are those of a log with the same batches."""
        before, self.cache = self.cache, cache
        try:
            if cache != before:
                yield from self._write()
        except OSError:
            self.cache = before
            raise

    def _write(self) -> Change[None]:
        path, data = f"{self._directory}/{CHECKPOINT_NAME}", self.cache.encode()
        yield lambda: self._disk.write_atomically(path, data)
        self._is_written = True

    def _remove_from(self, directory: str) -> None:
        if self._disk.exists(f"{directory}/{CHECKPOINT_NAME}"):
            self._disk.remove(f"{directory}/{CHECKPOINT_NAME}")
            self._disk.sync_dir(directory)
