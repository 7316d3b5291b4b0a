"""Converts columns of records to Arrow record batches in the schema of Spark's Kafka source.

All work is per batch, never per record: thousands of records from many small chunks become one batch, because each
batch costs time on both sides of Spark's socket.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

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

from kraft.client import TopicPartition
from spark_connector.cluster import ColumnChunk, Header
from spark_connector.options import OptionError
from spark_connector.spark_versions import to_arrow_schema

BATCH_RECORDS_MAX = 20_000
BATCH_BYTES_MAX = 4 << 20

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

_MILLISECONDS = pa.timestamp("ms", tz="UTC")
_MICROSECONDS = pa.timestamp("us", tz="UTC")
_TIMESTAMP_MS_MAX = ((1 << 63) - 1) // 1000


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


def record_batches(
    chunks: Iterable[ColumnChunk], partition: TopicPartition, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the chunks of `partition` as batches with the columns of `schema`, which `arrow_schema` returned."""
    builders = [_BUILDERS[name.lower()] for name in schema.names]
    for chunk in _merged(chunks):
        columns = [build(chunk, partition) for build in builders]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _merged(chunks: Iterable[ColumnChunk]) -> Iterator[ColumnChunk]:
    """Yield the same records in larger chunks. A chunk above the limits stays whole."""
    waiting: list[ColumnChunk] = []
    records = size_bytes = 0
    for chunk in chunks:
        full = records + len(chunk.offsets) > BATCH_RECORDS_MAX or size_bytes + chunk.size_bytes > BATCH_BYTES_MAX
        if waiting and (full or chunk.timestamp_type != waiting[0].timestamp_type):
            yield _joined(waiting)
            waiting, records, size_bytes = [], 0, 0
        waiting.append(chunk)
        records += len(chunk.offsets)
        size_bytes += chunk.size_bytes
    if waiting:
        yield _joined(waiting)


def _joined(chunks: Sequence[ColumnChunk]) -> ColumnChunk:
    if len(chunks) == 1:
        return chunks[0]
    offsets: list[int] = []
    timestamps_ms: list[int] = []
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    headers: list[Sequence[Header]] = []
    for chunk in chunks:
        offsets += chunk.offsets
        timestamps_ms += chunk.timestamps_ms
        keys += chunk.keys
        values += chunk.values
        headers += chunk.headers
    return ColumnChunk(
        offsets=offsets,
        timestamps_ms=timestamps_ms,
        timestamp_type=chunks[0].timestamp_type,
        keys=keys,
        values=values,
        headers=headers,
        size_bytes=sum(chunk.size_bytes for chunk in chunks),
    )


def _constant(value: int | str, arrow_type: pa.DataType, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, arrow_type), count)


def _timestamps(timestamps_ms: Sequence[int]) -> pa.Array:
    """Return timestamps in microseconds, as Spark has them. One outside Spark's range becomes null."""
    try:
        return pa.array(timestamps_ms, _MILLISECONDS).cast(_MICROSECONDS)
    except pa.ArrowInvalid:
        representable = [value if abs(value) <= _TIMESTAMP_MS_MAX else None for value in timestamps_ms]
        return pa.array(representable, _MILLISECONDS).cast(_MICROSECONDS)


def _headers(headers: Sequence[Sequence[Header]]) -> pa.Array:
    """Return the headers column, with null for a record without headers, as in Spark's Kafka source."""
    arrow_type = to_arrow_schema(StructType([_HEADERS])).field("headers").type
    return pa.array([record_headers or None for record_headers in headers], arrow_type)


_BUILDERS: dict[str, Callable[[ColumnChunk, TopicPartition], pa.Array]] = {
    "key": lambda chunk, _: pa.array(chunk.keys, pa.binary()),
    "value": lambda chunk, _: pa.array(chunk.values, pa.binary()),
    "topic": lambda chunk, partition: _constant(partition.topic, pa.string(), len(chunk.offsets)),
    "partition": lambda chunk, partition: _constant(partition.partition, pa.int32(), len(chunk.offsets)),
    "offset": lambda chunk, _: pa.array(chunk.offsets, pa.int64()),
    "timestamp": lambda chunk, _: _timestamps(chunk.timestamps_ms),
    "timestamptype": lambda chunk, _: _constant(chunk.timestamp_type, pa.int32(), len(chunk.offsets)),
    "headers": lambda chunk, _: _headers(chunk.headers),
}
