"""Reader of `spark.read`: the offsets are fixed once, when Spark plans the query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from spark_connector import connections, ranges
from spark_connector.arrow import arrow_schema, record_batches, wanted_columns
from spark_connector.bounds import ExplicitOffsets, resolve
from spark_connector.cluster import Cluster, Connect
from spark_connector.data_loss import LossPolicy
from spark_connector.options import SourceOptions
from spark_connector.splitting import split
from spark_connector.subscription import at_start, partitions_of
from spark_connector.worker_memory import settled


class KraftBatchReader(DataSourceReader):
    """Batch reader. Picklable, because Spark plans with it in one process and reads with copies in others."""

    def __init__(self, options: SourceOptions, schema: StructType, connect: Connect) -> None:
        self._options = options
        self._schema = arrow_schema(schema, include_headers=options.include_headers)
        self._connect = connect

    def partitions(self) -> Sequence[InputPartition]:
        cluster = connections.cluster(self._connect, self._options.bootstrap_servers)
        options = self._options
        partitions = partitions_of(at_start(options.subscription, cluster))
        if not partitions:
            return []
        begin = resolve(cluster, options.starting, partitions)
        end = resolve(cluster, options.ending, partitions)
        planned = self._narrowed(cluster, ranges.plan(begin, end))
        if isinstance(options.starting, ExplicitOffsets):
            ranges.report_starts_above_end(cluster, begin, self._losses(), options.patience.brief())
        if isinstance(options.starting, ExplicitOffsets) or isinstance(options.ending, ExplicitOffsets):
            planned = ranges.existing(cluster, planned, self._losses(), options.patience.brief())
        return split(planned, options.tasks_min, options.records_per_task_max)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, ranges.OffsetRange):
            # Spark runs one task without a range when `partitions` plans none.
            return iter(())
        cluster = connections.cluster(self._connect, self._options.bootstrap_servers)
        chunks = ranges.read(cluster, partition, self._losses(), wanted_columns(self._schema), self._options.patience)
        return settled(record_batches(chunks, self._schema))

    def _narrowed(self, cluster: Cluster, planned: Sequence[ranges.OffsetRange]) -> list[ranges.OffsetRange]:
        """Return the part of what is planned that the query's filters admit; here there are none."""
        return list(planned)

    def _losses(self) -> LossPolicy:
        return LossPolicy(fail=self._options.fail_on_data_loss)
