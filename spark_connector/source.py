"""Entry point for Spark: `format("kraft")`.

Spark also imports this module to find out the name of the source. So a reader, and Arrow with it, is imported where it
is made: that takes longer than all the rest.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

try:
    from pyspark.sql.datasource import DataSource
except ModuleNotFoundError as missing:
    raise ImportError(
        "the kraft source needs PySpark 4.0, because Spark 3.5 knows no sources in Python: "
        "read the brokers' Kafka listener with Spark's own connector there"
    ) from missing
from pyspark.sql.types import StructType

from spark_connector.given import OptionError
from spark_connector.options import batch_options, shared_options, stream_options
from spark_connector.spark_versions import STREAMS, require

if TYPE_CHECKING:
    from spark_connector.batch import KraftBatchReader
    from spark_connector.cluster import Connect
    from spark_connector.refused_stream import RefusedStreamReader
    from spark_connector.sink import KraftBatchWriter, KraftStreamWriter
    from spark_connector.stream import KraftStreamReader


class KraftDataSource(DataSource):
    """Reads and writes topics of a Kraft cluster, as a batch or as a stream, in the schema of Spark's Kafka source."""

    @classmethod
    def name(cls) -> str:
        return "kraft"

    def connector(self) -> Connect:
        """Return the function by which readers connect to the cluster. Tests override it."""
        from spark_connector.connector import Connector

        return Connector(shared_options(self.options).client_settings)

    def schema(self) -> StructType:
        """Return the schema. Spark calls this at `load()`, so a wrong option fails there, not when the query starts."""
        from spark_connector.arrow import source_schema

        return source_schema(include_headers=shared_options(self.options).include_headers)

    def reader(self, schema: StructType) -> KraftBatchReader:
        return _batch_reader()(batch_options(self.options), schema, self.connector())

    def streamReader(self, schema: StructType) -> KraftStreamReader | RefusedStreamReader:
        require("reading a stream", STREAMS)
        from spark_connector.refused_stream import RefusedStreamReader
        from spark_connector.stream import KraftStreamReader

        try:
            return KraftStreamReader(stream_options(self.options), schema, self.connector())
        except OptionError as error:
            return RefusedStreamReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> KraftBatchWriter:
        from spark_connector.sink import KraftBatchWriter
        from spark_connector.sink_options import sink_options

        if overwrite:
            raise OptionError("mode overwrite: a topic cannot be overwritten; use mode append")
        return KraftBatchWriter(sink_options(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> KraftStreamWriter:
        """Return the writer. As with Spark's Kafka sink, output mode complete appends the whole result each time."""
        from spark_connector.sink import KraftStreamWriter
        from spark_connector.sink_options import sink_options

        return KraftStreamWriter(sink_options(self.options), schema)


def _batch_reader() -> type[KraftBatchReader]:
    """Return the reader that takes filters in the process where Spark asks for one, which has this module loaded."""
    if "pyspark.sql.worker.data_source_pushdown_filters" not in sys.modules:
        from spark_connector.batch import KraftBatchReader

        return KraftBatchReader
    # Spark 4.0 does not have what this imports.
    from spark_connector.pushdown import FilteringBatchReader

    return FilteringBatchReader
