"""Ranges of partitions that Spark's tasks read; lost records are reported."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never

from pyspark.sql.datasource import InputPartition

from kraft.client import TopicPartition, WantedColumns
from spark_connector.cluster import Cluster, Missing, OffsetOutOfRange, ReadStalled, TruncatedWhileRead
from spark_connector.data_loss import LossPolicy
from spark_connector.offsets import Offsets
from spark_connector.patience import Patience

if TYPE_CHECKING:
    # Its module leads to the network; the processes that only plan do without.
    from kraft.client import ArrowChunk


@dataclass(frozen=True, kw_only=True)
class OffsetRange(InputPartition):
    """The records of a partition from `start` up to `end`, excluded."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


class ReadTimedOut(Exception):
    """Records that exist did not arrive in time."""


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


def existing(
    cluster: Cluster, planned: Iterable[OffsetRange], losses: LossPolicy, patience: Patience
) -> list[OffsetRange]:
    """Return what exists of the planned ranges; the rest is reported as lost. Raises DataLoss and Missing."""
    wanted = {each.partition: each for each in planned}
    if not wanted:
        return []
    latest = patience.settled(
        lambda: cluster.latest_offsets(list(wanted)),
        lambda found: all(found[partition] >= each.end for partition, each in wanted.items()),
    )
    earliest = cluster.earliest_offsets(list(wanted))
    found: list[OffsetRange] = []
    for partition, each in wanted.items():
        start = _after_deleted(each, each.start, earliest[partition], losses)
        end = _before_lost(each, start, latest[partition], losses)
        if start < end:
            found.append(replace(each, start=start, end=end))
    return found


def report_starts_above_end(cluster: Cluster, starts: Offsets, losses: LossPolicy, patience: Patience) -> None:
    """Report partitions whose log ends below the offset at which it is to be read from. Raises DataLoss and Missing."""
    latest = patience.settled(
        lambda: cluster.latest_offsets(list(starts)),
        lambda found: all(found[partition] >= start for partition, start in starts.items()),
    )
    for partition, start in sorted(starts.items()):
        if start > latest[partition]:
            losses.report(f"{partition} ends at offset {latest[partition]}, below offset {start}, its start")


def read(
    cluster: Cluster,
    wanted: OffsetRange,
    losses: LossPolicy,
    columns: WantedColumns,
    patience: Patience | None = None,
) -> Iterator[ArrowChunk]:
    """Yield the range's records. Raises DataLoss if some are lost and the policy is to fail, and ReadTimedOut."""
    patience = patience or Patience()
    rest, progress_at = wanted, time.monotonic()
    while rest.size > 0:
        try:
            for chunk in cluster.read(rest.partition, rest.start, rest.end, columns):
                rest = replace(rest, start=chunk.next_offset)
                yield chunk
                # Spark may take long for a chunk: only from now on, this waits for the cluster.
                progress_at = time.monotonic()
            return
        except TruncatedWhileRead as truncated:
            # Records that were read stay in the result, as if the election had come later. The number lost is unknown.
            losses.report(str(truncated))
        except (OffsetOutOfRange, ReadStalled, Missing) as problem:
            rest = _resumed(cluster, rest, problem, time.monotonic() - progress_at, losses, patience)


def _resumed(
    cluster: Cluster,
    rest: OffsetRange,
    problem: OffsetOutOfRange | ReadStalled | Missing,
    waited_s: float,
    losses: LossPolicy,
    patience: Patience,
) -> OffsetRange:
    """Return what there is to read after the problem. Raises DataLoss and ReadTimedOut."""
    try:
        match problem:
            case OffsetOutOfRange():
                left = replace(rest, start=_skip_lost(cluster, rest, losses, patience))
            case ReadStalled():
                left = replace(rest, end=_end_of_log(cluster, rest, losses, patience))
            case Missing():
                raise problem
            case _:
                assert_never(problem)
    except Missing as missing:
        if waited_s < patience.settle_s:
            # The metadata of a broker may be behind.
            time.sleep(patience.poll_s)
            return rest
        what = f"{missing}: offsets {rest.start} to {rest.end - 1} of {rest.partition} are lost"
        losses.report(what, partition=rest.partition, records=rest.size)
        return replace(rest, start=rest.end)
    if left == rest:
        # All of it exists, and its leader has yet to send it.
        if waited_s > patience.read_s:
            raise ReadTimedOut(f"{problem}; kafkaConsumer.pollTimeoutMs gives it more time")
        time.sleep(patience.poll_s)
    return left


def _skip_lost(cluster: Cluster, rest: OffsetRange, losses: LossPolicy, patience: Patience) -> int:
    """Return the next offset of the range that exists, or its end."""
    earliest = cluster.earliest_offsets([rest.partition])[rest.partition]
    if earliest > rest.start:
        return _after_deleted(rest, rest.start, earliest, losses)
    latest = _settled_end(cluster, rest, patience)
    if latest <= rest.start:
        # The start is above the end of the log: nothing of the range exists.
        _before_lost(rest, rest.start, latest, losses)
        return rest.end
    return rest.start


def _end_of_log(cluster: Cluster, rest: OffsetRange, losses: LossPolicy, patience: Patience) -> int:
    """Return the end of the range, or the end of its log if that is before."""
    return _before_lost(rest, rest.start, _settled_end(cluster, rest, patience), losses)


def _settled_end(cluster: Cluster, wanted: OffsetRange, patience: Patience) -> int:
    return patience.settled(
        lambda: cluster.latest_offsets([wanted.partition])[wanted.partition], lambda latest: latest >= wanted.end
    )


def _after_deleted(wanted: OffsetRange, position: int, earliest: int, losses: LossPolicy) -> int:
    """Return the position, or the first offset after it that was not deleted, at most the end of the range."""
    if earliest <= position:
        return position
    resumed = min(earliest, wanted.end)
    what = f"offsets {position} to {resumed - 1} of {wanted.partition} were deleted before they were read"
    losses.report(what, partition=wanted.partition, records=resumed - position)
    return resumed


def _before_lost(wanted: OffsetRange, position: int, latest: int, losses: LossPolicy) -> int:
    """Return the end of the range, or the end of its log if that is before."""
    end = max(position, min(latest, wanted.end))
    if end < wanted.end:
        what = f"{wanted.partition} ends at offset {latest}, offsets {end} to {wanted.end - 1} are lost"
        losses.report(what, partition=wanted.partition, records=wanted.end - end)
    return end
