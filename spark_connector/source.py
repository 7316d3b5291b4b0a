"""Entry point for Spark: `format("kraft")`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from spark_connector.arrow import source_schema
from spark_connector.batch import KraftBatchReader
from spark_connector.cluster import Connect
from spark_connector.connector import Connector
from spark_connector.given import OptionError
from spark_connector.options import batch_options, shared_options, stream_options
from spark_connector.stream import KraftStreamReader

if TYPE_CHECKING:
    from spark_connector.sink import KraftBatchWriter, KraftStreamWriter


class KraftDataSource(DataSource):
    """Reads and writes topics of a Kraft cluster, as a batch or as a stream, in the schema of Spark's Kafka source."""

    @classmethod
    def name(cls) -> str:
        return "kraft"

    def connector(self) -> Connect:
        """Return the function by which readers connect to the cluster. Tests override it."""
        return Connector(shared_options(self.options).client_settings)

    def schema(self) -> StructType:
        """Return the schema. Spark calls this at `load()`, so a wrong option fails there, not when the query starts."""
        return source_schema(include_headers=shared_options(self.options).include_headers)

    def reader(self, schema: StructType) -> KraftBatchReader:
        return KraftBatchReader(batch_options(self.options), schema, self.connector())

    def streamReader(self, schema: StructType) -> KraftStreamReader:
        return KraftStreamReader(stream_options(self.options), schema, self.connector())

    def writer(self, schema: StructType, overwrite: bool) -> KraftBatchWriter:
        # Imported here, because most processes of a query never write.
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
