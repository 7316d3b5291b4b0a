"""Columns that the sink writes: checks of a query's schema, and Arrow record batches as lists for the client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructType

from spark_connector.sink_places import ANY, places_of, rows_by_place

Header = tuple[str, bytes | None]

Columns = dict[str, pa.Array]

_COLUMNS: Final = ("key", "value", "topic", "partition", "headers")

_OF_THE_SOURCE: Final = frozenset({"offset", "timestamp", "timestampType"})
"""Columns of the source that a sink does not write: a query may hand them on, as with Spark's Kafka sink."""


class SchemaError(ValueError):
    """A query has columns that cannot be written. The text is one line that names the column and what to do."""


class RowError(ValueError):
    """A row cannot be written. The text is one line that says why."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Records for one topic and partition, as columns of equal length."""

    topic: str
    partition: int | None
    """None if they may go to any."""

    values: list[bytes | None]
    keys: list[bytes | None] | None
    headers: list[tuple[Header, ...]] | None


def check_schema(schema: StructType, topic: str | None) -> None:
    """Raise SchemaError unless a query with this schema can be written; `topic` is the option."""
    types = {field.name: field.dataType for field in schema.fields}
    for name in types:
        if name not in _COLUMNS and name not in _OF_THE_SOURCE:
            raise SchemaError(f"column {name} is unknown to the kraft sink: it writes {', '.join(_COLUMNS)}")
    if "value" not in types:
        raise SchemaError("the column value is missing: select the value of each record as value")
    if topic is None and "topic" not in types:
        raise SchemaError("a topic is missing: set the option topic, or select a column topic")
    for name in ("key", "value"):
        _check_type(types, name, is_text_or_bytes, "STRING or BINARY")
    _check_type(types, "topic", lambda found: isinstance(found, StringType), "STRING")
    _check_type(types, "partition", lambda found: isinstance(found, IntegerType), "INT")
    _check_type(types, "headers", _are_headers, "ARRAY<STRUCT<key: STRING, value: BINARY>>")


def is_text_or_bytes(found: DataType) -> bool:
    return isinstance(found, (StringType, BinaryType))


def _are_headers(found: DataType) -> bool:
    if not isinstance(found, ArrayType) or not isinstance(found.elementType, StructType):
        return False
    parts = [(part.name, type(part.dataType)) for part in found.elementType.fields]
    return parts == [("key", StringType), ("value", BinaryType)]


def _check_type(types: dict[str, DataType], name: str, is_right: Any, expected: str) -> None:
    found = types.get(name)
    if found is not None and not is_right(found):
        raise SchemaError(f"column {name} has type {found.simpleString().upper()}, and must be {expected}")


# --- rows ------------------------------------------------------------------------------------------------------------


def rows_of(batch: pa.RecordBatch, topic: str | None, partition_count: Callable[[str], int]) -> Iterator[Rows]:
    """Yield the records of a batch by topic and partition, in their order. The option counts more than the column.

    Raises RowError for a row without a topic, and for a partition that the topic does not have.
    """
    columns = dict(zip(batch.schema.names, map(_binary, batch.columns), strict=True))
    for name, of_topic in _by_topic(columns, topic):
        if not name:
            raise RowError("a row has an empty topic: name a topic in each row, or set the option topic")
        count, partitions = partition_count(name), of_topic.get("partition")
        _check_partitions(partitions, name, count)
        places = places_of(of_topic.get("key"), partitions, len(of_topic["value"]), count)
        if places is None:
            yield _rows(of_topic, name, None)
            continue
        for place, rows in rows_by_place(places):
            yield _rows(_taken(of_topic, pa.array(rows)), name, None if place == ANY else place)


def _check_partitions(partitions: pa.Array | None, topic: str, count: int) -> None:
    if partitions is None or partitions.null_count == len(partitions):
        return
    for found in pc.min_max(partitions).as_py().values():
        if not 0 <= found < count:
            raise RowError(f"a row has partition {found}, and topic {topic!r} has partitions 0 to {count - 1}")


def _by_topic(columns: Columns, topic: str | None) -> Iterator[tuple[str, Columns]]:
    if topic is not None:
        yield topic, columns
        return
    topics = columns["topic"]
    if topics.null_count:
        raise RowError("a row has no topic: the column topic is null; set the option topic, or filter such rows")
    named = topics.unique()
    for each in named:
        taken = columns if len(named) == 1 else _taken(columns, pc.indices_nonzero(pc.equal(topics, each)))
        yield each.as_py().decode(), taken


def _taken(columns: Columns, rows: pa.Array) -> Columns:
    return {name: column.take(rows) for name, column in columns.items()}


def _rows(columns: Columns, topic: str, partition: int | None) -> Rows:
    keys, headers = columns.get("key"), columns.get("headers")
    return Rows(
        topic=topic,
        partition=partition,
        values=_listed(columns["value"]),
        keys=None if keys is None or keys.null_count == len(keys) else _listed(keys),
        headers=None if headers is None or headers.null_count == len(headers) else _headers(headers),
    )


def _binary(column: pa.Array) -> pa.Array:
    """Return text as the bytes of its UTF-8, which are the same buffers."""
    if pa.types.is_string(column.type):
        return column.view(pa.binary())
    return column.view(pa.large_binary()) if pa.types.is_large_string(column.type) else column


def _listed(column: pa.Array) -> list[bytes | None]:
    # Several times faster than to_pylist of earlier versions of Arrow, which makes a scalar of each.
    listed: list[bytes | None] = column.to_numpy(zero_copy_only=False).tolist()
    return listed


def _headers(column: pa.Array) -> list[tuple[Header, ...]]:
    found = []
    for headers in column.to_pylist():
        for header in headers or ():
            if header is None or header["key"] is None:
                raise RowError("a row has a header without a key: filter the column headers")
        found.append(tuple((header["key"], header["value"]) for header in headers or ()))
    return found
