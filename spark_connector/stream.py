"""Reader of `spark.readStream`: plans the offsets of each micro-batch on the driver, reads in the tasks.

One process on the driver keeps one reader for the life of a query and asks it for offsets and ranges. Tasks read with
pickled copies, which do not share that reader's state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from spark_connector import connections, ranges
from spark_connector.arrow import arrow_schema, record_batches, wanted_columns
from spark_connector.bounds import resolve
from spark_connector.cluster import Cluster, Connect
from spark_connector.data_loss import LossPolicy
from spark_connector.group_progress import GroupProgress, generated_group_id
from spark_connector.offsets import Offsets, Position
from spark_connector.options import SourceOptions
from spark_connector.planner import Planner
from spark_connector.subscription import at_start, partitions_of
from spark_connector.worker_memory import settled


class KraftStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Stream reader. Picklable, because everything that belongs to one process is created at its first use."""

    def __init__(self, options: SourceOptions, schema: StructType, connect: Connect) -> None:
        self._options = options
        self._schema = arrow_schema(schema, include_headers=options.include_headers)
        self._connect = connect
        self._planner = Planner(options)
        self._initial: Position | None = None
        self._generated_group_id: str | None = None
        self._progress: GroupProgress | None = None

    # --- on the driver ----------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """Return the offsets at which the query starts.

        Cached: Spark may call this again before the first batch is in its checkpoint, and `latest` must not move.
        """
        if self._initial is None:
            cluster = self._cluster()
            topics = at_start(self._options.subscription, cluster)
            partitions = partitions_of(topics)
            self._initial = Position(
                offsets=resolve(cluster, self._options.starting, partitions) if partitions else {},
                topic_ids={name: topic.topic_id for name, topic in topics.items()},
                is_initial=True,
            )
        return self._initial.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return one of the limits; `latestOffset` applies them all, because Spark has no composite one for Python."""
        options = self._options
        if options.offsets_per_trigger_max is not None:
            return ReadMaxRows(options.offsets_per_trigger_max)
        if options.bytes_per_trigger_max is not None:
            return ReadMaxBytes(options.bytes_per_trigger_max)
        if options.offsets_per_trigger_min is not None:
            return ReadMinRows(options.offsets_per_trigger_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._planner.stop_at_present(self._cluster())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        position = self._with_group(Position.from_json(start))
        end = self._planner.end(self._cluster(), position, is_limited=self._is_limited(limit))
        # All that lies before the start is processed. This is the only sign of it for the last batch of AvailableNow.
        self._show_progress(position)
        if end is None and self._planner.stops_at_target and self._progress is not None:
            # Spark now ends the query, and this process with it.
            self._progress.flush()
        if end is None:
            # Spark compares offsets as text, so without new records the text must be the same.
            return start
        return dict(self._planner.planned(end.to_json()))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return what `latestOffset` last saw, so that a query's progress shows its lag without another request."""
        seen = self._planner.seen
        return None if seen is None else Position(offsets=seen.latest).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return self._planner.tasks(self._cluster(), start, end)

    def commit(self, end: dict[str, Any]) -> None:
        self._show_progress(Position.from_json(end))

    def stop(self) -> None:
        if self._progress is not None:
            self._progress.stop()
        connections.close(self._connect, self._options.bootstrap_servers)

    # --- in the tasks -----------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ranges.OffsetRange), "Spark passes a range that `partitions` planned"
        losses = LossPolicy(fail=self._options.fail_on_data_loss)
        columns = wanted_columns(self._schema)
        chunks = ranges.read(self._cluster(), partition, losses, columns, self._options.patience)
        return settled(record_batches(chunks, self._schema))

    # --- within -----------------------------------------------------------------------------------------------

    def __getstate__(self) -> Mapping[str, Any]:
        """Leave out what belongs to the process that plans."""
        return {**self.__dict__, "_planner": Planner(self._options), "_progress": None}

    def _cluster(self) -> Cluster:
        return connections.cluster(self._connect, self._options.bootstrap_servers)

    def _is_limited(self, limit: ReadLimit) -> bool:
        """Return False if Spark asks for everything, as for Trigger.Once."""
        if isinstance(limit, ReadAllAvailable):
            return False
        if limit != self.getDefaultReadLimit():
            raise NotImplementedError(f"the kraft source does not support the read limit {limit!r}")
        return True

    # --- the consumer group -----------------------------------------------------------------------------------

    def _with_group(self, position: Position) -> Position:
        """Return the position with the group of groupIdPrefix, which the checkpoint keeps for the next run."""
        prefix = self._options.group_id_prefix
        if prefix is None:
            return replace(position, group_id=None)
        if position.group_id is not None and position.group_id.startswith(f"{prefix}-"):
            return position
        if self._generated_group_id is None:
            self._generated_group_id = generated_group_id(prefix)
        return replace(position, group_id=self._generated_group_id)

    def _show_progress(self, position: Position) -> None:
        group_id = self._options.group_id or position.group_id
        seen = self._planner.seen
        if group_id is None or seen is None:
            return
        if self._progress is None:
            self._progress = GroupProgress(self._commit)
        present = {each: offset for each, offset in position.offsets.items() if each in seen.latest}
        if present:
            self._progress.show(group_id, present)

    def _commit(self, group_id: str, offsets: Offsets) -> None:
        self._cluster().commit_offsets(group_id, offsets)
