"""Reader of `spark.read`: the offsets are fixed once, when Spark plans the query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from spark_connector import connections, ranges
from spark_connector.arrow import arrow_schema, record_batches, wanted_columns
from spark_connector.bounds import partitions_of, resolve
from spark_connector.cluster import Connect
from spark_connector.data_loss import LossPolicy
from spark_connector.options import SourceOptions


class KraftBatchReader(DataSourceReader):
    """Batch reader. Picklable, because Spark plans with it in one process and reads with copies in others."""

    def __init__(self, options: SourceOptions, schema: StructType, connect: Connect) -> None:
        self._options = options
        self._schema = arrow_schema(schema, include_headers=options.include_headers)
        self._connect = connect

    def partitions(self) -> Sequence[InputPartition]:
        cluster = connections.cluster(self._connect, self._options.bootstrap_servers)
        partitions = partitions_of(cluster, self._options.topics)
        begin = resolve(cluster, "startingOffsets", self._options.starting_offsets, partitions)
        end = resolve(cluster, "endingOffsets", self._options.ending_offsets, partitions)
        return ranges.plan(begin, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, ranges.OffsetRange):
            # Spark runs one task without a range when `partitions` plans none.
            return iter(())
        cluster = connections.cluster(self._connect, self._options.bootstrap_servers)
        losses = LossPolicy(fail=self._options.fail_on_data_loss)
        chunks = ranges.read(cluster, partition, losses, wanted_columns(self._schema))
        return record_batches(chunks, self._schema)
