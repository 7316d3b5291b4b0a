"""How far the user has come with the records that polls returned, for commits.

Two answers differ while records are in the user's hands. What is *read* was returned by a poll or yielded by an
iteration; the user who asks for a commit means it. What is *processed* is that without the last poll's records, or in
an iteration without the last record: the user may still fail with them, so an automatic commit after an error stops
there.
"""

from __future__ import annotations

from collections.abc import Iterator

from kraft.client.model.values import ConsumerRecord
from kraft.model.ids import TopicPartition


class Progress:
    """Offsets of partitions whose positions are ahead of what was read or processed."""

    def __init__(self) -> None:
        self._processed: dict[TopicPartition, int] = {}
        self._read: dict[TopicPartition, int] = {}

    def poll_began(self) -> dict[TopicPartition, int]:
        """All records in the user's hands are processed. Return where to continue after an iteration that was left."""
        left, self._read = self._read, {}
        self._processed.clear()
        return left

    def taken_back(self) -> dict[TopicPartition, int]:
        """The caller of the last poll did not get its records. Return where to continue."""
        taken, self._processed = self._processed, {}
        self._read.clear()
        return taken

    def returned(self, partition: TopicPartition, start: int) -> None:
        """A poll returns records of the partition from `start` on."""
        self._processed.setdefault(partition, start)

    def each(self, records: list[ConsumerRecord]) -> Iterator[ConsumerRecord]:
        """Return the records of a poll one by one. From now on, what was not yielded was not read.

        The iterator may be interrupted and left at any point.
        """
        last = {TopicPartition(record.topic, record.partition): record.offset for record in records}
        for record in reversed(records):
            self._read[TopicPartition(record.topic, record.partition)] = record.offset
        return self._yielded(records, last)

    def _yielded(self, records: list[ConsumerRecord], last: dict[TopicPartition, int]) -> Iterator[ConsumerRecord]:
        for record in records:
            partition = TopicPartition(record.topic, record.partition)
            if partition not in self._read:
                # The partition was taken away, or another position chosen, since the poll.
                continue
            self._processed[partition] = record.offset
            if record.offset == last[partition]:
                # The position of the partition says it from here on.
                del self._read[partition]
            else:
                self._read[partition] = record.offset + 1
            yield record

    def forget(self, partition: TopicPartition) -> None:
        """The partition has another position, or is no longer assigned."""
        self._processed.pop(partition, None)
        self._read.pop(partition, None)

    def read(self, partition: TopicPartition, position: int) -> int:
        """Return the offset up to which the partition was read; `position` is that of the next poll."""
        return self._read.get(partition, position)

    def processed(self, partition: TopicPartition, position: int) -> int:
        """Return the offset up to which the partition was processed."""
        return self._processed.get(partition, position)
