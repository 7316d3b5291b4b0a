"""Interface between the connector and a cluster. `kraft_cluster` implements it by the client, tests by files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from kraft.client import ArrowChunk, TopicPartition, WantedColumns


class TopicMissing(Exception):
    """A topic does not exist in the cluster."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"topic {topic!r} does not exist")
        self.topic = topic


class OffsetOutOfRange(Exception):
    """A requested offset is before the start of the log, or after its end."""


class TruncatedWhileRead(Exception):
    """Records that were read are lost or replaced after an unclean election. The text says which."""


class Cluster(Protocol):
    """A cluster as the connector uses it. Every call has its own deadline."""

    def partitions(self, topic: str) -> Sequence[int]:
        """Return the partition numbers of `topic`. Raises TopicMissing."""

    def earliest_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset of the first record that each partition still holds."""

    def latest_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the end of each partition: all records below it are committed and readable.

        It is the last stable offset, or the high watermark if uncommitted records of transactions are read, too.
        """

    def read(self, partition: TopicPartition, start: int, end: int, wanted: WantedColumns) -> Iterator[ArrowChunk]:
        """Yield the wanted columns of the records from `start` up to `end`, excluded.

        Raises OffsetOutOfRange and TruncatedWhileRead, at any chunk.
        """

    def close(self) -> None:
        """Close the connections."""


Connect = Callable[[Sequence[str]], Cluster]
"""Returns the cluster at the given `host:port` addresses. The function is pickled, a `Cluster` never is."""
