"""Checkpoint files of the high watermarks of a broker's partitions, written periodically.

Each log directory has its own file, for its partitions. An offset in it may be behind the real high watermark, never
ahead of it. A partition is in the file before it takes any record: one that is in the file and has no directory was
lost.
Format, as Kafka's: version 0, the number of lines, then "topic partition offset" lines; Kraft adds a checksum line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from crc32c import crc32c

from kraft.log.disk import Disk
from kraft.model.ids import LogDirectory, Offset, TopicPartition

FILE_NAME: Final = "replication-offset-checkpoint"
EARLIER_SUFFIX: Final = ".earlier"


class HighWatermarks:
    """The high watermarks read at the start, each until its partition is opened."""

    def __init__(self, disk: Disk, directories: Sequence[LogDirectory]) -> None:
        self._disk = disk
        self._unopened: dict[LogDirectory, dict[TopicPartition, Offset]] = {each: {} for each in directories}
        self.is_complete = True
        """False if a log directory has no readable file, for example because it is new or was emptied."""

    def read(self) -> None:
        """Read the files, before the first partition is opened. Blocks on the disk."""
        for directory in self._unopened:
            read = _read(self._disk, directory)
            self.is_complete = self.is_complete and read is not None
            self._unopened[directory] = read or {}

    def contains(self, topic_partition: TopicPartition) -> bool:
        """Return whether a file had this partition at the start, and it was not taken since."""
        return any(topic_partition in offsets for offsets in self._unopened.values())

    def take(self, topic_partition: TopicPartition, directory: LogDirectory | None = None) -> Offset | None:
        """Remove and return the offset of a partition that is opened, from that directory's file or from any."""
        found = {
            read_from: offsets.pop(topic_partition)
            for read_from, offsets in self._unopened.items()
            if topic_partition in offsets
        }
        return found.get(directory) if directory is not None else min(found.values(), default=None)

    def forget_unopened(self) -> None:
        """Drop the other entries: every partition of this broker is open or offline by now."""
        for offsets in self._unopened.values():
            offsets.clear()

    def write(self, directory: LogDirectory, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Write the file of one log directory. Blocks on the disk. Raises OSError.

        The names of new partitions' directories are durable before the file has them: none seems to be lost.
        """
        self._disk.sync_dir(directory)
        write_high_watermarks(self._disk, directory, offsets)


def write_high_watermarks(disk: Disk, directory: LogDirectory, offsets: Mapping[TopicPartition, Offset]) -> None:
    """Replace the file; the one before is kept beside it."""
    path = f"{directory}/{FILE_NAME}"
    if disk.exists(path):
        disk.write_atomically(path + EARLIER_SUFFIX, disk.read_file(path))
    lines = [f"{each.topic} {each.partition} {offset}\n" for each, offset in sorted(offsets.items())]
    body = "".join(["0\n", f"{len(lines)}\n", *lines]).encode("ascii")
    disk.write_atomically(path, body + f"# crc32c={crc32c(body):08x}\n".encode("ascii"))


def read_high_watermarks(disk: Disk, directory: LogDirectory) -> dict[TopicPartition, Offset]:
    """Return the offsets last written, from the earlier file if the latest is damaged; empty if there is none.

    A high watermark that is too low is safe: the leader computes the real one from its followers' fetches.
    """
    return _read(disk, directory) or {}


def _read(disk: Disk, directory: LogDirectory) -> dict[TopicPartition, Offset] | None:
    for path in (f"{directory}/{FILE_NAME}", f"{directory}/{FILE_NAME}{EARLIER_SUFFIX}"):
        try:
            return _decode(disk.read_file(path))
        except (OSError, ValueError):
            continue
    return None


def _decode(data: bytes) -> dict[TopicPartition, Offset]:
    body, mark, checksum = data.rpartition(b"# crc32c=")
    if not mark or int(checksum, 16) != crc32c(body):
        raise ValueError("checksum mismatch")
    version, count, *lines = body.decode("ascii").splitlines()
    if version != "0" or int(count) != len(lines):
        raise ValueError("not a checkpoint of version 0")
    offsets = {}
    for line in lines:
        topic, partition, offset = line.split(" ")
        offsets[TopicPartition(topic, int(partition))] = Offset(int(offset))
    return offsets
