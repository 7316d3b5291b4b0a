"""What a log writes beside its segments: its checkpoint, the leader epochs, snapshots of what producers have written.

Each is durable when the change is over. None may claim to know more than the segments hold after a crash.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from kraft.log.change import Change
from kraft.log.disk import Disk, is_disk_full
from kraft.log.format.record_batch import BatchHeader
from kraft.log.leader_epochs import CHECKPOINT_NAME, LeaderEpochCache
from kraft.log.recovery.log_checkpoint import LogCheckpoint, write_checkpoint
from kraft.log.recovery.producer_snapshot import ProducerSnapshots
from kraft.log.recovery.producer_state import ProducerState
from kraft.model.ids import LeaderEpoch, Offset


class SideFiles:
    """Changes raise OSError from the disk."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        checkpoint: LogCheckpoint,
        epochs: LeaderEpochCache,
        snapshots: ProducerSnapshots,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self.checkpoint = checkpoint
        self.epochs = epochs
        self.epochs_are_written = True
        """The file says what `epochs` says."""
        self.snapshots = snapshots

    def moved_to(self, directory: str) -> None:
        """The directory has this name now."""
        self._directory = directory
        self.snapshots.moved_to(directory)

    # --- the checkpoint ---

    def remember(self, checkpoint: LogCheckpoint) -> Change[None]:
        """Nothing is written when it is no news."""
        if checkpoint != self.checkpoint:
            directory = self._directory
            yield partial(write_checkpoint, self._disk, directory, checkpoint)
            if checkpoint.log_start_offset != self.checkpoint.log_start_offset:
                # So that the file before says so, too: a front that was let go must not seem to be missing.
                yield partial(write_checkpoint, self._disk, directory, checkpoint)
            self.checkpoint = checkpoint

    def remember_holes(self) -> Change[None]:
        """Before there is one: otherwise it would be taken for rot after a crash."""
        yield from self.remember(replace(self.checkpoint, is_sparse=True))

    def advance_start(self, offset: Offset) -> Change[None]:
        yield from self.remember(replace(self.checkpoint, log_start_offset=offset))
        self.epochs.truncate_to_start(offset)
        yield from self.write_epochs()

    def forget_from(self, offset: Offset, growing: Offset) -> Change[None]:
        """Nothing on the disk may claim to know more than a log that ends at `offset`, before it does.

        `growing` is where its last segment will begin.
        """
        before, directory = self.checkpoint, self._directory
        yield from self.snapshots.remove_above(offset)
        yield lambda: self._disk.sync_dir(directory)
        yield from self.remember(
            replace(
                before,
                recovery_point=min(before.recovery_point, growing),
                cleaned_end_offset=min(before.cleaned_end_offset, offset),
            )
        )

    def take_over(
        self, others: SideFiles, log_start: Offset, log_end: Offset, states: Mapping[int, ProducerState]
    ) -> Change[None]:
        """What `others` know of the same batches, whose producers' states are given."""
        # Not the recovery point, which is a claim about these files.
        checkpoint = replace(
            self.checkpoint,
            log_start_offset=log_start,
            cleaned_end_offset=others.checkpoint.cleaned_end_offset,
            is_sparse=self.checkpoint.is_sparse or others.checkpoint.is_sparse,
        )
        yield from self.remember(checkpoint)
        yield from self._take_over_epochs(others.epochs)
        yield from self.snapshots.write(log_end, states)

    def _take_over_epochs(self, others: LeaderEpochCache) -> Change[None]:
        before = self.epochs.entries
        if before == others.entries:
            return
        self.epochs.replace(others.entries)
        try:
            yield from self.write_epochs()
        except OSError:
            self.epochs.replace(before)
            raise

    # --- leader epochs ---

    def write_epochs(self) -> Change[None]:
        path, data = f"{self._directory}/{CHECKPOINT_NAME}", self.epochs.encode()
        yield lambda: self._disk.write_atomically(path, data)
        self.epochs_are_written = True

    def begin_epochs(self, headers: Sequence[BatchHeader]) -> Change[None]:
        """Before the first batch of an epoch: recovery asks the file which epoch a batch is of."""
        for header in headers:
            if header.leader_epoch != self.epochs.latest_epoch:
                self.epochs.assign(LeaderEpoch(header.leader_epoch), Offset(header.base_offset))
        yield from self.write_epochs()

    def forget_epochs(self, log_end: Offset) -> None:
        """Forgets epochs begun for records that were then refused. The next append writes the file first."""
        before = self.epochs.latest_epoch
        self.epochs.truncate_from(log_end)
        if self.epochs.latest_epoch != before:
            self.epochs_are_written = False

    def cut_epochs(self, log_end: Offset) -> Change[None]:
        """The log ends at `log_end` now. Without room for the file it is removed: recovery then asks the batches."""
        self.epochs.truncate_from(log_end)
        try:
            yield from self.write_epochs()
        except OSError as error:
            if not is_disk_full(error):
                raise
            # One that named later epochs would deny, after a crash, what is appended in an earlier one.
            yield partial(self._remove_durably, self._directory, CHECKPOINT_NAME)

    def _remove_durably(self, directory: str, name: str) -> None:
        if self._disk.exists(f"{directory}/{name}"):
            self._disk.remove(f"{directory}/{name}")
            self._disk.sync_dir(directory)

    # --- producers ---

    def write_producers(
        self, offset: Offset, states: Mapping[int, ProducerState], recovery_point: Offset
    ) -> Change[None]:
        """What producers have written below `offset`; then recovery may begin at `recovery_point`."""
        yield from self.snapshots.write(offset, states)
        yield from self.remember(replace(self.checkpoint, recovery_point=recovery_point))

    def drop_stale_snapshots(self, segment_bases: Iterable[Offset]) -> Change[None]:
        """One is kept for each segment, for truncations, and the latest."""
        yield from self.snapshots.keep_only([*segment_bases, *self.snapshots.offsets[-1:]])
