"""What the connector asks of a cluster: `kraft_cluster` answers by the client, the tests by a directory of files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from kraft.client import TopicPartition

Header = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnChunk:
    """Records of one partition as equally long columns, in the order of their offsets; never empty.

    `timestamp_type` is Kafka's: 0 for the producer's time, 1 for the time of the append. `size_bytes` is about what
    keys and values take.
    """

    offsets: Sequence[int]
    timestamps_ms: Sequence[int]
    timestamp_type: int
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[Sequence[Header]]
    size_bytes: int


class TopicMissing(Exception):
    """The cluster answers, and has no such topic."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"topic {topic!r} does not exist")
        self.topic = topic


class OffsetOutOfRange(Exception):
    """The log begins behind the offset asked for, or ends before it."""


class TruncatedWhileRead(Exception):
    """An unclean election took back, or replaced, records that were read already. Says which."""


class Cluster(Protocol):
    """A cluster as the connector sees it. Every call ends within its own deadline."""

    def partitions(self, topic: str) -> Sequence[int]:
        """The partition numbers of `topic`. Raises TopicMissing."""

    def earliest_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset of the first record that each partition still holds."""

    def latest_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The high watermark of each partition: everything below it is committed and can be read."""

    def read(self, partition: TopicPartition, start: int, end: int) -> Iterator[ColumnChunk]:
        """The records from `start` up to, without, `end`.

        Raises OffsetOutOfRange and TruncatedWhileRead, at any chunk.
        """

    def close(self) -> None:
        """Frees connections and threads."""


Connect = Callable[[Sequence[str]], Cluster]
"""Reaches the cluster through any of these `host:port` addresses. It is pickled, a connected `Cluster` never is."""
