"""Spark's writer of streams that takes Arrow batches; before Spark 4.1, one that makes them of rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

BATCH_ROWS: Final = 10_000


class ArrowOfRows(DataSourceStreamWriter):
    """Has the interface of Spark's Arrow writer for those who implement it, and that of its row writer for Spark."""

    schema: StructType

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        write_batches = cls.write

        def write(self: ArrowOfRows, iterator: Iterator[Row]) -> WriterCommitMessage:
            return write_batches(self, batches_of(iterator, self.schema))

        cls.write = write  # type: ignore[method-assign]  # Spark calls it with rows.

    @abstractmethod
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage: ...


def batches_of(rows: Iterator[Row], schema: StructType) -> Iterator[pa.RecordBatch]:
    arrow_schema = to_arrow_schema(schema)
    while some := [row.asDict(recursive=True) for row in islice(rows, BATCH_ROWS)]:
        yield pa.RecordBatch.from_pylist(some, arrow_schema)


if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:
    try:
        from pyspark.sql.datasource import DataSourceStreamArrowWriter
    except ImportError:
        DataSourceStreamArrowWriter = ArrowOfRows

__all__ = ["ArrowOfRows", "DataSourceStreamArrowWriter", "batches_of"]
