"""The high watermarks of a broker's partitions, written down from time to time, as Kafka's checkpoint files.

Each log directory has a file of its own, for the partitions in it. What is read back is behind the truth, never ahead
of it: the high watermark only says what is known to be committed. A partition that is named was on this broker, and is
named before it takes any record: so one that is named and cannot be found has been lost.
Format, as Kafka's: version 0, the number of lines, then "topic partition offset" lines; ours adds a checksum line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from crc32c import crc32c

from kraft.log.disk import Disk
from kraft.model.ids import Offset, TopicPartition

FILE_NAME: Final = "replication-offset-checkpoint"
EARLIER_SUFFIX: Final = ".earlier"


class HighWatermarks:
    """What was read at the start counts for each partition until it is held; then the partition itself tells."""

    def __init__(self, disk: Disk, directories: Sequence[str]) -> None:
        self._disk = disk
        self._unopened: dict[str, dict[TopicPartition, Offset]] = {}
        self.is_complete = True
        """False when some directory has no file that can be read, as one that is new or was emptied."""
        for directory in directories:
            read = _read(disk, directory)
            self.is_complete = self.is_complete and read is not None
            self._unopened[directory] = read or {}

    def names(self, topic_partition: TopicPartition) -> bool:
        """Whether some file named it at the start, and nothing was heard of it since."""
        return any(topic_partition in offsets for offsets in self._unopened.values())

    def take(self, topic_partition: TopicPartition, directory: str | None = None) -> Offset | None:
        """What was read for a partition that is held from now on, in that directory; or in any."""
        found = {
            named_in: offsets.pop(topic_partition)
            for named_in, offsets in self._unopened.items()
            if topic_partition in offsets
        }
        return found.get(directory) if directory is not None else min(found.values(), default=None)

    def forget_unopened(self) -> None:
        """Every partition of this broker is held: the others are gone."""
        for offsets in self._unopened.values():
            offsets.clear()

    def write(self, directory: str, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Blocks on the disk. Raises OSError."""
        write_high_watermarks(self._disk, directory, offsets)


def write_high_watermarks(disk: Disk, directory: str, offsets: Mapping[TopicPartition, Offset]) -> None:
    """Replaces the file; the one before is kept beside it."""
    path = f"{directory}/{FILE_NAME}"
    if disk.exists(path):
        disk.write_atomically(path + EARLIER_SUFFIX, disk.read_file(path))
    lines = [f"{each.topic} {each.partition} {offset}\n" for each, offset in sorted(offsets.items())]
    body = "".join(["0\n", f"{len(lines)}\n", *lines]).encode("ascii")
    disk.write_atomically(path, body + f"# crc32c={crc32c(body):08x}\n".encode("ascii"))


def read_high_watermarks(disk: Disk, directory: str) -> dict[TopicPartition, Offset]:
    """The offsets last written, from the earlier file when the latest is damaged; empty when there is none.

    Starting from too low a high watermark is safe: the leader learns the true one from its followers' fetches.
    """
    return _read(disk, directory) or {}


def _read(disk: Disk, directory: str) -> dict[TopicPartition, Offset] | None:
    for path in (f"{directory}/{FILE_NAME}", f"{directory}/{FILE_NAME}{EARLIER_SUFFIX}"):
        try:
            return _decode(disk.read_file(path))
        except (OSError, ValueError):
            continue
    return None


def _decode(data: bytes) -> dict[TopicPartition, Offset]:
    body, mark, checksum = data.rpartition(b"# crc32c=")
    if not mark or int(checksum, 16) != crc32c(body):
        raise ValueError("the checksum does not fit")
    version, count, *lines = body.decode("ascii").splitlines()
    if version != "0" or int(count) != len(lines):
        raise ValueError("not a checkpoint of version 0")
    offsets = {}
    for line in lines:
        topic, partition, offset = line.split(" ")
        offsets[TopicPartition(topic, int(partition))] = Offset(int(offset))
    return offsets
