"""Limits of one micro-batch: the most records and bytes, and the fewest records that are worth one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from kraft.client import TopicPartition
from spark_connector.cluster import Cluster
from spark_connector.offsets import Offsets

SAMPLE_AGE_MAX_S: Final = 30.0
"""Age at which the mean size of a partition's records is sampled again."""

RECORD_BYTES_UNKNOWN: Final = 1_024.0
"""Size that is taken for records while no partition has been sampled."""


def limited(begin: Offsets, latest: Offsets, records_max: int) -> dict[TopicPartition, int]:
    """Return the end of a micro-batch of about `records_max` records, shared in proportion to each partition's rest.

    A partition with few records left gets at least one, so that the large ones never starve it; the batch may exceed
    `records_max` by that. Spark's Kafka source does the same.
    """
    left = _left(begin, latest)
    total = sum(left.values())
    if total <= records_max:
        return dict(latest)
    return _with_shares(begin, latest, {each: max(1, records_max * count // total) for each, count in left.items()})


def limited_bytes(
    begin: Offsets, latest: Offsets, bytes_max: int, record_bytes: Mapping[TopicPartition, float]
) -> dict[TopicPartition, int]:
    """Return the end of a micro-batch of about `bytes_max` bytes, with an estimate of the size of a record.

    The same part of each partition's rest is taken, and at least one record.
    """
    left = _left(begin, latest)
    total_bytes = sum(count * record_bytes[each] for each, count in left.items())
    if total_bytes <= bytes_max:
        return dict(latest)
    part = bytes_max / total_bytes
    return _with_shares(begin, latest, {each: max(1, int(count * part)) for each, count in left.items()})


def _left(begin: Offsets, latest: Offsets) -> dict[TopicPartition, int]:
    left = {partition: end - begin.get(partition, 0) for partition, end in latest.items()}
    return {partition: count for partition, count in left.items() if count > 0}


def _with_shares(begin: Offsets, latest: Offsets, shares: Offsets) -> dict[TopicPartition, int]:
    return {
        partition: min(end, begin.get(partition, 0) + shares[partition]) if partition in shares else end
        for partition, end in latest.items()
    }


class RecordSizes:
    """Mean size of key and value in each partition, from a sample of the records that are read next."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._sampled_at: dict[TopicPartition, float] = {}
        self._means: dict[TopicPartition, float] = {}

    def of(self, cluster: Cluster, begin: Offsets, latest: Offsets) -> dict[TopicPartition, float]:
        """Return the mean size for each partition with something to read; at least one byte."""
        left = _left(begin, latest)
        for partition in left:
            self._sample(cluster, partition, begin.get(partition, 0), latest[partition])
        known = [self._means[partition] for partition in left if partition in self._means]
        usual = sum(known) / len(known) if known else RECORD_BYTES_UNKNOWN
        return {partition: max(1.0, self._means.get(partition, usual)) for partition in left}

    def _sample(self, cluster: Cluster, partition: TopicPartition, begin: int, end: int) -> None:
        now = self._clock_s()
        if now - self._sampled_at.get(partition, float("-inf")) < SAMPLE_AGE_MAX_S:
            return
        self._sampled_at[partition] = now
        mean = cluster.record_bytes(partition, begin, end)
        if mean is not None:
            self._means[partition] = mean


@dataclass(slots=True)
class TriggerDelay:
    """`minOffsetsPerTrigger`: a trigger waits until so many records have come, for at most some time."""

    records_min: int
    delay_max_s: float
    clock_s: Callable[[], float]
    _last_s: float | None = None

    def delays(self, begin: Offsets, latest: Offsets) -> bool:
        """True if there is to be no micro-batch yet. As in Spark's Kafka source, the first trigger never waits."""
        now = self.clock_s()
        is_due = self._last_s is None or now - self._last_s >= self.delay_max_s
        if is_due or sum(_left(begin, latest).values()) >= self.records_min:
            self._last_s = now
            return False
        return True
