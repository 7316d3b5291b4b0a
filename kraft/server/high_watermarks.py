"""The high watermarks of a broker's partitions, written down from time to time, as Kafka's checkpoint file.

What is read back is behind the truth, never ahead of it: the high watermark only says what is known to be committed.
Format, as Kafka's: version 0, the number of lines, then "topic partition offset" lines; ours adds a checksum line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from crc32c import crc32c

from kraft.log.disk import Disk
from kraft.model.ids import Offset, TopicPartition

FILE_NAME: Final = "replication-offset-checkpoint"
EARLIER_SUFFIX: Final = ".earlier"


class HighWatermarks:
    """What was read at the start stands for each partition until its log is open; then the partition itself tells."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._unopened = read_high_watermarks(disk, directory)

    def take(self, topic_partition: TopicPartition) -> Offset | None:
        """What was read for a partition whose log is open from now on."""
        return self._unopened.pop(topic_partition, None)

    def forget_unopened(self) -> None:
        """Every partition of this broker is open: the others are gone."""
        self._unopened.clear()

    def with_unopened(self, of_open: Mapping[TopicPartition, Offset]) -> dict[TopicPartition, Offset]:
        """All that is to be written."""
        return {**self._unopened, **of_open}

    def write(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Blocks on the disk."""
        write_high_watermarks(self._disk, self._directory, offsets)


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
    for path in (f"{directory}/{FILE_NAME}", f"{directory}/{FILE_NAME}{EARLIER_SUFFIX}"):
        try:
            return _decode(disk.read_file(path))
        except (FileNotFoundError, ValueError):
            continue
    return {}


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
