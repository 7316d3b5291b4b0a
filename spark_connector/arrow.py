"""Converts chunks of records to Arrow record batches in the schema of Spark's Kafka source.

The client decodes records into Arrow's buffers; here Arrow wraps them and copies keys and values out of the fetched
bytes, once. No work is per record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kraft.client import WantedColumns
from spark_connector.given import OptionError
from spark_connector.spark_versions import to_arrow_schema

PYARROW_MIN: Final = 19
"""The first that makes arrays of views from buffers."""

if TYPE_CHECKING:
    # Their module leads to the network; the processes that only plan do without.
    from kraft.client import ArrowChunk, ColumnBuffers, Views

if int(pa.__version__.partition(".")[0]) < PYARROW_MIN:
    raise ImportError(f"the kraft source needs pyarrow {PYARROW_MIN} or later, not {pa.__version__}")

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_COLUMNS = (
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
)
_HEADERS = StructField("headers", ArrayType(_HEADER))

_MICROSECONDS = pa.timestamp("us", tz="UTC")


def source_schema(*, include_headers: bool) -> StructType:
    """Return the schema of a query that does not set one."""
    return StructType([*_COLUMNS, _HEADERS] if include_headers else [*_COLUMNS])


def arrow_schema(requested: StructType, *, include_headers: bool) -> pa.Schema:
    """Return the Arrow schema of the `requested` columns, against which Spark checks the first batch.

    Raises OptionError for a column that the source does not have, or has with another type.
    """
    offered = {field.name.lower(): field.dataType for field in source_schema(include_headers=include_headers)}
    for field in requested:
        name, wanted = field.name, field.dataType.simpleString()
        if name.lower() == "headers" and not include_headers:
            raise OptionError("column headers needs the option includeHeaders=true")
        if name.lower() not in offered:
            raise OptionError(f"the kraft source has no column {name!r}; it has {', '.join(offered)}")
        offered_type = offered[name.lower()].simpleString()
        if wanted != offered_type:
            raise OptionError(
                f"column {name!r} is {offered_type} in the kraft source, not {wanted}: cast it in the query"
            )
    return to_arrow_schema(requested)


def wanted_columns(schema: pa.Schema) -> WantedColumns:
    """Return the columns of records that the columns of `schema` are built from."""
    names = {name.lower() for name in schema.names}
    return WantedColumns(
        offsets="offset" in names,
        timestamps="timestamp" in names,
        keys="key" in names,
        values="value" in names,
        headers="headers" in names,
    )


def record_batches(chunks: Iterable[ArrowChunk], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the chunks, of the `wanted_columns`, as batches with the columns of `schema`, from `arrow_schema`."""
    builders = [_BUILDERS[name.lower()] for name in schema.names]
    for chunk in chunks:
        yield pa.RecordBatch.from_arrays([build(chunk) for build in builders], schema=schema)


def _constant(value: int | str, arrow_type: pa.DataType, chunk: ArrowChunk) -> pa.Array:
    return pa.repeat(pa.scalar(value, arrow_type), chunk.columns.record_count)


def _viewed(views: Views | None, view_type: pa.DataType, count: int, columns: ColumnBuffers) -> pa.Array:
    """Return the bytes that the views point to, copied: Spark does not read views."""
    assert views is not None, "the column was asked for"
    buffers = [_validity(views.validity, views.null_count), views.views, *columns.data]
    viewed = pa.Array.from_buffers(view_type, count, _wrapped(buffers))
    return viewed.cast(pa.string() if view_type == pa.string_view() else pa.binary())


def _binary(views: Views | None, columns: ColumnBuffers) -> pa.Array:
    return _viewed(views, pa.binary_view(), columns.record_count, columns)


def _numbers(arrow_type: pa.DataType, numbers: bytes | None, count: int, validity: bytes | None) -> pa.Array:
    assert numbers is not None, "the column was asked for"
    return pa.Array.from_buffers(arrow_type, count, _wrapped([validity, numbers]))


def _timestamps(columns: ColumnBuffers) -> pa.Array:
    """Return timestamps in microseconds, as Spark has them. One outside Spark's range is null."""
    validity = _validity(columns.timestamp_validity, columns.timestamp_null_count)
    return _numbers(_MICROSECONDS, columns.timestamps_us, columns.record_count, validity)


def _headers(columns: ColumnBuffers) -> pa.Array:
    """Return the headers column, with null for a record without headers, as in Spark's Kafka source."""
    headers = columns.headers
    assert headers is not None, "the column was asked for"
    pairs = pa.StructArray.from_arrays(
        [
            _viewed(headers.names, pa.string_view(), headers.header_count, columns),
            _viewed(headers.values, pa.binary_view(), headers.header_count, columns),
        ],
        fields=list(_HEADERS_ARROW.value_type),
    )
    buffers = [_validity(headers.validity, headers.null_count), headers.ends]
    return pa.Array.from_buffers(_HEADERS_ARROW, columns.record_count, _wrapped(buffers), children=[pairs])


def _wrapped(buffers: Iterable[bytes | None]) -> list[pa.Buffer | None]:
    return [None if each is None else pa.py_buffer(each) for each in buffers]


def _validity(bits: bytes, null_count: int) -> bytes | None:
    return bits if null_count else None


_HEADERS_ARROW = to_arrow_schema(StructType([_HEADERS])).field("headers").type

_BUILDERS: dict[str, Callable[[ArrowChunk], pa.Array]] = {
    "key": lambda chunk: _binary(chunk.columns.keys, chunk.columns),
    "value": lambda chunk: _binary(chunk.columns.values, chunk.columns),
    "topic": lambda chunk: _constant(chunk.partition.topic, pa.string(), chunk),
    "partition": lambda chunk: _constant(chunk.partition.partition, pa.int32(), chunk),
    "offset": lambda chunk: _numbers(pa.int64(), chunk.columns.offsets, chunk.columns.record_count, None),
    "timestamp": lambda chunk: _timestamps(chunk.columns),
    "timestamptype": lambda chunk: _constant(int(chunk.timestamp_type), pa.int32(), chunk),
    "headers": lambda chunk: _headers(chunk.columns),
}
