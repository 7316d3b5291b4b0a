"""Range of one partition that one Spark task reads; lost records are reported."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from kraft.client import ArrowChunk, TopicPartition, WantedColumns
from spark_connector.cluster import Cluster, OffsetOutOfRange, TruncatedWhileRead
from spark_connector.data_loss import LossPolicy
from spark_connector.offsets import Offsets


@dataclass(frozen=True, kw_only=True)
class OffsetRange(InputPartition):
    """The records of a partition from `start` up to `end`, excluded."""

    partition: TopicPartition
    start: int
    end: int


def plan(begin: Offsets, end: Offsets) -> list[OffsetRange]:
    """Return one range for each partition with something to read.

    A partition that is not in `begin` was added since: it is read from offset 0, because all its records are new. An
    end before the beginning was reported when the end was fixed, and there is nothing to read.
    """
    return [
        OffsetRange(partition=partition, start=begin.get(partition, 0), end=until)
        for partition, until in sorted(end.items())
        if until > begin.get(partition, 0)
    ]


def read(cluster: Cluster, wanted: OffsetRange, losses: LossPolicy, columns: WantedColumns) -> Iterator[ArrowChunk]:
    """Yield the range's records. Raises DataLoss if some are lost and the policy is to fail."""
    position = wanted.start
    while position < wanted.end:
        try:
            for chunk in cluster.read(wanted.partition, position, wanted.end, columns):
                position = chunk.next_offset
                yield chunk
        except TruncatedWhileRead as truncated:
            # Records that were read stay in the result, as if the election had come later. The number lost is unknown.
            losses.report(str(truncated), records=0)
        except OffsetOutOfRange:
            position = _skip_lost(cluster, wanted, position, losses)
        else:
            return


def _skip_lost(cluster: Cluster, wanted: OffsetRange, position: int, losses: LossPolicy) -> int:
    """Return the next offset of the range that exists, or its end. Always above `position`, so that reading ends."""
    partition = wanted.partition
    earliest = cluster.earliest_offsets([partition])[partition]
    if earliest > position:
        resumed = min(earliest, wanted.end)
        what = f"offsets {position} to {resumed - 1} of {partition} were deleted before they were read"
    else:
        resumed = wanted.end
        latest = cluster.latest_offsets([partition])[partition]
        what = f"{partition} ends at offset {latest}, offsets {position} to {resumed - 1} are lost"
    losses.report(what, records=resumed - position)
    return resumed
