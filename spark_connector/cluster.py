"""Interface between the connector and a cluster. `kraft_cluster` implements it by the client, tests by files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kraft.client import TopicPartition, WantedColumns

if TYPE_CHECKING:
    # Its module leads to the network; the processes that only plan do without.
    from kraft.client import ArrowChunk


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic that exists. A topic that is deleted and created again has another id."""

    topic_id: str
    partitions: tuple[int, ...]


class Missing(Exception):
    """A topic or partition does not exist in the cluster. The text names it."""


class TopicMissing(Missing):
    """A topic, or partition, of the query does not exist in the cluster."""

    def __init__(self, name: str, *, is_partition: bool = False) -> None:
        what, option = ("partition", "assign") if is_partition else ("topic", "subscribe")
        super().__init__(f"{what} {name!r} does not exist: create it, or correct the option {option}")


class ClusterError(Exception):
    """A call to the cluster failed. The text is one line that says why."""


class OffsetOutOfRange(Exception):
    """A requested offset is before the start of the log, or after its end."""


class ReadStalled(Exception):
    """Nothing arrived for some seconds: the log ends before the range does, or its leader is slow or unreachable."""


class TruncatedWhileRead(Exception):
    """Records that were read are lost or replaced after an unclean election. The text says which."""


class Cluster(Protocol):
    """A cluster as the connector uses it. Every call has its own deadline, and may raise ClusterError."""

    def topics(self, names: Sequence[str] | None) -> dict[str, Topic]:
        """Return those of these topics that exist, or all topics, by name. One request."""

    def earliest_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset of the first record that each partition still holds. Raises Missing."""

    def latest_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the end of each partition: all records below it are committed and readable. Raises Missing.

        It is the last stable offset, or the high watermark if uncommitted records of transactions are read, too.
        """

    def offsets_at(self, timestamps_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the offset of each partition's first record at or after its timestamp; None if all are older."""

    def record_bytes(self, partition: TopicPartition, offset: int, end: int) -> float | None:
        """Return the mean size of key and value of some records from `offset` on; None if nothing is there to read."""

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets for a group without members. Raises an error that names what was not committed."""

    def read(self, partition: TopicPartition, start: int, end: int, wanted: WantedColumns) -> Iterator[ArrowChunk]:
        """Yield the wanted columns of the records from `start` up to `end`, excluded.

        Raises OffsetOutOfRange, ReadStalled, TruncatedWhileRead and Missing, at any chunk. As a broker does, it waits
        at the end of the log for more; only above the end or below the start, an offset is out of range.
        """

    def close(self) -> None:
        """Close the connections."""


Connect = Callable[[Sequence[str]], Cluster]
"""Returns the cluster at the given `host:port` addresses. The function is pickled, a `Cluster` never is."""
