"""A log that Apache Kafka wrote, copied into a log directory: the checkpoint that it begins with here.

Kafka keeps the log start offset in a file of the log directory, not of the partition, so a copied partition may begin
at any offset. That its first segments are not missing is shown by `leader-epoch-checkpoint`, whose first epoch Kafka
moves up with the log start. But Kafka may also have lost earlier epochs (KAFKA-7959). So the first one is the log start
only inside the first segment, and only if the record before it has the same epoch: rather do records that Kafka deleted
reappear than others get lost.

A log of Kraft is never taken for Kafka's: its epochs have a checksum.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from kraft.log.disk import Disk
from kraft.log.leader_epochs import CHECKPOINT_NAME as EPOCH_CHECKPOINT_NAME
from kraft.log.leader_epochs import EpochStart, LeaderEpochCache, has_checksum
from kraft.log.recovery.log_checkpoint import CHECKPOINT_NAME, EARLIER_SUFFIX, LogCheckpoint
from kraft.log.segment.batches import scan_batches
from kraft.log.segment.paths import LOG_SUFFIX, file_name
from kraft.model.errors import Corruption
from kraft.model.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset


def checkpoint_of_kafka(disk: Disk, directory: str, base_offsets: Sequence[int]) -> LogCheckpoint | None:
    """Return the checkpoint of a log that Kafka wrote and Kraft has not opened yet; None for any other log.

    Kafka may have compacted it and may have aborted transactions in it. With a first epoch below the first segment, the
    log starts there, and `missing_front` says that segments are missing.
    """
    names = (f"{directory}/{CHECKPOINT_NAME}{suffix}" for suffix in ("", EARLIER_SUFFIX))
    if not base_offsets or any(disk.exists(path) for path in names):
        return None
    path = f"{directory}/{EPOCH_CHECKPOINT_NAME}"
    try:
        data = disk.read_file(path)
        epochs = LeaderEpochCache.decode(data, path)
    except (FileNotFoundError, Corruption):
        return None
    if has_checksum(data):
        return None
    start = epochs.entries[0].start_offset if epochs.entries else Offset(base_offsets[0])
    is_behind = len(base_offsets) > 1 and start >= base_offsets[1]
    if start > base_offsets[0] and (is_behind or not _was_moved(disk, directory, base_offsets[0], epochs.entries[0])):
        start = Offset(base_offsets[0])
    return LogCheckpoint(log_start_offset=start, is_sparse=True, aborted_from=Offset(0), is_latest=False)


def _was_moved(disk: Disk, directory: str, base_offset: int, first: EpochStart) -> bool:
    """Return whether the epoch began before its start offset, which is inside the segment."""
    path = f"{directory}/{file_name(base_offset, LOG_SUFFIX)}"
    epoch = NO_LEADER_EPOCH
    with closing(disk.open(path, create=False)) as file:
        try:
            for _, header in scan_batches(file, path):
                if header.base_offset >= first.start_offset:
                    break
                epoch = LeaderEpoch(header.leader_epoch)
        except Corruption:
            # Reported when the segment is read. The last whole batch decides.
            pass
    return epoch == first.epoch
