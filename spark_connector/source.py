"""Entry point for Spark: `format("kraft")`."""

from __future__ import annotations

from typing import NoReturn

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from spark_connector.arrow import source_schema
from spark_connector.batch import KraftBatchReader
from spark_connector.cluster import Connect
from spark_connector.connector import Connector
from spark_connector.options import batch_options, shared_options, stream_options
from spark_connector.stream import KraftStreamReader


class WriteNotSupported(NotImplementedError):
    """Error of `df.write` and `df.writeStream`."""

    def __init__(self) -> None:
        super().__init__('writing with format("kraft") is not supported yet: write from foreachBatch with kraft.client')


class KraftDataSource(DataSource):
    """Reads topics of a Kraft cluster, as a batch or as a stream, in the schema of Spark's Kafka source."""

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

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        raise WriteNotSupported

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:
        raise WriteNotSupported
