"""Reader of `spark.readStream`: plans the offsets of each micro-batch on the driver, reads in the tasks.

One process on the driver keeps one reader for the life of a query and asks it for offsets and ranges. Tasks read with
pickled copies, which do not share that reader's state.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from kraft.client import TopicPartition
from spark_connector import connections, ranges
from spark_connector.arrow import arrow_schema, record_batches, wanted_columns
from spark_connector.bounds import partitions_of, resolve
from spark_connector.cluster import Cluster, Connect, TopicMissing
from spark_connector.data_loss import LossPolicy
from spark_connector.offsets import (
    Offsets,
    beginning_of_batch,
    from_checkpoint,
    limited,
    to_checkpoint,
)
from spark_connector.options import SourceOptions


class KraftStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Stream reader. Picklable, because everything that belongs to one process is created at its first use."""

    settle_timeout_s: ClassVar[float] = 10.0
    settle_poll_s: ClassVar[float] = 0.1

    def __init__(self, options: SourceOptions, schema: StructType, connect: Connect) -> None:
        self._options = options
        self._schema = arrow_schema(schema, include_headers=options.include_headers)
        self._connect = connect
        self._losses = LossPolicy(fail=options.fail_on_data_loss)
        self._initial: dict[TopicPartition, int] | None = None
        self._target: dict[TopicPartition, int] | None = None
        self._latest: dict[TopicPartition, int] | None = None
        self._topics_missing: set[str] = set()

    # --- on the driver ---------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """Return the offsets at which the query starts.

        Cached: Spark may call this again before the first batch is in its checkpoint, and `latest` must not move.
        """
        if self._initial is None:
            cluster = self._cluster()
            partitions = partitions_of(cluster, self._options.topics)
            self._initial = resolve(cluster, "startingOffsets", self._options.starting_offsets, partitions)
        return to_checkpoint(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:
        records_max = self._options.offsets_per_trigger_max
        return ReadAllAvailable() if records_max is None else ReadMaxRows(records_max)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._latest_offsets()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begin = from_checkpoint(start)
        self._latest = dict(self._target) if self._target is not None else self._latest_offsets()
        self._account_for_lost(begin, self._latest)
        end = self._within(limit, begin, self._latest)
        if end == begin:
            # Spark compares offsets as text, so without new records the text must be the same.
            return start
        return to_checkpoint(end, began=begin if begin == self._initial else None)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return what `latestOffset` last saw, so that a query's progress shows its lag without another request."""
        return None if self._latest is None else to_checkpoint(self._latest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return ranges.plan(beginning_of_batch(start, end), from_checkpoint(end))

    def stop(self) -> None:
        connections.close(self._connect, self._options.bootstrap_servers)

    # --- in the tasks ----------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ranges.OffsetRange), "Spark passes a range that `partitions` planned"
        losses = LossPolicy(fail=self._options.fail_on_data_loss)
        chunks = ranges.read(self._cluster(), partition, losses, wanted_columns(self._schema))
        return record_batches(chunks, self._schema)

    # --- within ----------------------------------------------------------------------------------------------

    def _cluster(self) -> Cluster:
        return connections.cluster(self._connect, self._options.bootstrap_servers)

    def _latest_offsets(self) -> dict[TopicPartition, int]:
        """Return the latest offsets of the present partitions. Skips a missing topic if failOnDataLoss=false."""
        cluster = self._cluster()
        partitions: list[TopicPartition] = []
        for topic in self._options.topics:
            try:
                partitions += partitions_of(cluster, [topic])
                self._topics_missing.discard(topic)
            except TopicMissing as missing:
                self._report_missing(missing)
        return cluster.latest_offsets(partitions) if partitions else {}

    def _report_missing(self, missing: TopicMissing) -> None:
        """Report a missing topic, once until it is back: an idle query checks many times a second."""
        if self._losses.fail:
            raise missing
        if missing.topic not in self._topics_missing:
            self._topics_missing.add(missing.topic)
            self._losses.report(str(missing), records=0)

    @staticmethod
    def _within(limit: ReadLimit, begin: Offsets, latest: Offsets) -> Offsets:
        match limit:
            case ReadAllAvailable():
                return latest
            case ReadMaxRows():
                return limited(begin, latest, limit.max_rows)
            case _:
                raise NotImplementedError(f"the kraft source does not support the read limit {limit!r}")

    def _account_for_lost(self, begin: Offsets, latest: dict[TopicPartition, int]) -> None:
        """Handle partitions whose `latest` is below `begin`: wait, correct `latest` in place, and report a loss.

        A partition's new leader may have a lower high watermark than the old one returned, so such a partition gets
        some time to catch up; until then it has nothing new.
        """
        for partition in sorted(set(begin) - set(latest)):
            self._losses.report(
                f"{partition} does not exist any more; the query's offset there is {begin[partition]}", records=0
            )
        behind = [partition for partition in latest if latest[partition] < begin.get(partition, 0)]
        if not behind:
            return
        settled = self._wait_until_caught_up(begin, behind)
        for partition in behind:
            latest[partition] = min(settled[partition], begin[partition])
            if latest[partition] < begin[partition]:
                what = f"{partition} ends at offset {latest[partition]}, below the query's offset {begin[partition]}"
                why = "the log was truncated by an unclean election, or the topic was deleted and created again"
                self._losses.report(f"{what}: {why}", records=0)

    def _wait_until_caught_up(self, begin: Offsets, behind: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        deadline = time.monotonic() + self.settle_timeout_s
        while True:
            latest = self._cluster().latest_offsets(behind)
            if all(latest[partition] >= begin[partition] for partition in behind) or time.monotonic() > deadline:
                return latest
            time.sleep(self.settle_poll_s)
