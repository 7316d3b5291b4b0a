"""Columns that the sink writes: checks of a query's schema, and Arrow record batches as lists for the client."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructType

from spark_connector.cluster import Header

_COLUMNS: Final = ("key", "value", "topic", "partition", "headers")

_OF_THE_SOURCE: Final = frozenset({"offset", "timestamp", "timestampType"})
"""Columns of the source that a sink does not write: a query may hand them on, as with Spark's Kafka sink."""


class SchemaError(ValueError):
    """A query has columns that cannot be written. The text is one line that names the column and what to do."""


class RowError(ValueError):
    """A row cannot be written. The text is one line that says why."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Records for one topic, as columns of equal length."""

    topic: str
    values: list[bytes | None]
    keys: list[bytes | None] | None
    headers: list[tuple[Header, ...]] | None
    partitions: list[int | None] | None


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


def rows_of(batch: pa.RecordBatch, topic: str | None) -> Iterator[Rows]:
    """Yield the records of a batch by topic, in their order. The option `topic` counts more than the column.

    Raises RowError for a row without a topic.
    """
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    if topic is not None:
        yield _rows(columns, topic)
        return
    topics = columns["topic"]
    if topics.null_count:
        raise RowError("a row has no topic: the column topic is null; set the option topic, or filter such rows")
    unique = topics.unique().to_pylist()
    if len(unique) == 1:
        yield _rows(columns, unique[0])
        return
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, each in enumerate(topics.to_pylist()):
        places[each].append(place)
    for each, taken in places.items():
        indices = pa.array(taken)
        yield _rows({name: column.take(indices) for name, column in columns.items()}, each)


def _rows(columns: dict[str, pa.Array], topic: str) -> Rows:
    if not topic:
        raise RowError("a row has an empty topic: name a topic in each row, or set the option topic")
    keys, headers, partitions = columns.get("key"), columns.get("headers"), columns.get("partition")
    return Rows(
        topic=topic,
        values=_as_bytes(columns["value"]),
        keys=None if keys is None or keys.null_count == len(keys) else _as_bytes(keys),
        headers=None if headers is None or headers.null_count == len(headers) else _headers(headers),
        partitions=None if partitions is None or partitions.null_count == len(partitions) else partitions.to_pylist(),
    )


def _as_bytes(column: pa.Array) -> list[bytes | None]:
    if pa.types.is_string(column.type):
        # The same buffers: text is UTF-8.
        column = column.view(pa.binary())
    elif pa.types.is_large_string(column.type):
        column = column.view(pa.large_binary())
    # Several times faster than to_pylist, which makes an Arrow scalar of each.
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
