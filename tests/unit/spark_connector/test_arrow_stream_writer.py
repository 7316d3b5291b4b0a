"""Before Spark 4.1, a stream is written as rows, of which Arrow batches are made."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import ArrayType, BinaryType, IntegerType, StringType, StructField, StructType

from spark_connector.arrow_stream_writer import ArrowOfRows

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
SCHEMA = StructType(
    [StructField("value", BinaryType()), StructField("partition", IntegerType()), StructField("headers", HEADERS)]
)


class Noting(ArrowOfRows):
    def __init__(self) -> None:
        self.schema = SCHEMA
        self.batches: list[pa.RecordBatch] = []

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        self.batches += iterator
        return WriterCommitMessage()


def test_rows_become_batches() -> None:
    writer = Noting()
    rows = [Row(value=b"%d" % number, partition=None, headers=[Row(key="h", value=b"x")]) for number in range(10_001)]
    writer.write(iter(rows))
    assert [batch.num_rows for batch in writer.batches] == [10_000, 1]
    assert writer.batches[1].to_pylist() == [
        {"value": b"10000", "partition": None, "headers": [{"key": "h", "value": b"x"}]}
    ]
