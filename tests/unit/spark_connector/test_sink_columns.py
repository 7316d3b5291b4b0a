"""Columns of a query: which can be written, and how rows become records."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from kraft.client import partition_for_key
from spark_connector.arrow import source_schema
from spark_connector.sink_columns import RowError, Rows, SchemaError, check_schema, rows_of

PARTITIONS = 3
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def batch(**columns: Any) -> pa.RecordBatch:
    arrays = {name: column if isinstance(column, pa.Array) else pa.array(column) for name, column in columns.items()}
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


TEXT, BYTES, INT = StringType(), BinaryType(), IntegerType()


def headers_of(key: DataType, value: DataType) -> DataType:
    return ArrayType(StructType([StructField("key", key), StructField("value", value)]))


def schema_of(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


@pytest.mark.parametrize(
    "schema",
    [
        schema_of(value=TEXT),
        schema_of(key=BYTES, value=BYTES, partition=INT),
        schema_of(key=TEXT, value=TEXT, headers=headers_of(TEXT, BYTES)),
    ],
)
def test_a_query_with_these_columns_can_be_written(schema: StructType) -> None:
    check_schema(schema, "orders")


def test_what_the_source_reads_can_be_written() -> None:
    check_schema(source_schema(include_headers=True), None)


@pytest.mark.parametrize(
    ("schema", "topic", "error"),
    [
        (schema_of(value=TEXT), None, "a topic is missing: set the option topic, or select a column topic"),
        (schema_of(key=TEXT), "orders", "the column value is missing"),
        (schema_of(value=INT), "orders", "column value has type INT, and must be STRING or BINARY"),
        (schema_of(value=TEXT, topic=BYTES), None, "column topic has type BINARY, and must be STRING"),
        (schema_of(value=TEXT, partition=LongType()), "orders", "column partition has type BIGINT, and must be INT"),
        (schema_of(value=TEXT, headers=headers_of(TEXT, TEXT)), "orders", "column headers has type .* must be ARRAY"),
        (schema_of(value=TEXT, headers=ArrayType(TEXT)), "orders", "column headers has type ARRAY<STRING>"),
        (schema_of(value=TEXT, header=TEXT), "orders", "column header is unknown to the kraft sink"),
    ],
)
def test_a_query_with_wrong_columns_is_refused_in_one_line(schema: StructType, topic: str | None, error: str) -> None:
    with pytest.raises(SchemaError, match=error) as refused:
        check_schema(schema, topic)
    assert "\n" not in str(refused.value)


def written(option: str | None, **columns: Any) -> list[Rows]:
    return list(rows_of(batch(**columns), option, lambda _: PARTITIONS))


def test_text_is_written_as_utf_8_and_null_as_null() -> None:
    key = "ü".encode()
    found = written("orders", key=["ü", None, "ü"], value=["1", "", None])
    place = partition_for_key(key, PARTITIONS)
    assert found == [Rows("orders", None, [b""], None, None), Rows("orders", place, [b"1", None], [key, key], None)]


def test_a_slice_of_a_batch_is_written() -> None:
    (rows,) = rows_of(batch(value=["a", "b", "c", "d"]).slice(1, 2), "orders", lambda _: PARTITIONS)
    assert rows.values == [b"b", b"c"]


def test_rows_go_to_the_topic_and_the_partition_of_their_columns_in_their_order() -> None:
    partitions = pa.array([0, 1, None, 0], pa.int32())
    found = written(None, value=["1", "2", "3", "4"], topic=["a", "b", "a", "a"], partition=partitions)
    assert found == [
        Rows("a", None, [b"3"], None, None),
        Rows("a", 0, [b"1", b"4"], None, None),
        Rows("b", 1, [b"2"], None, None),
    ]


def test_headers_keep_their_order_and_may_be_null() -> None:
    headers = pa.array([[{"key": "a", "value": b"1"}, {"key": "a", "value": None}], None, []], HEADERS)
    (rows,) = written("orders", value=["1", "2", "3"], headers=headers)
    assert rows.headers == [(("a", b"1"), ("a", None)), (), ()]


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"value": ["1", "2"], "topic": ["a", None]}, "the column topic is null"),
        ({"value": ["1"], "topic": [""]}, "a row has an empty topic"),
        ({"value": ["1"], "topic": ["a"], "partition": pa.array([3], pa.int32())}, "partition 3, and .* 0 to 2"),
        ({"value": ["1"], "topic": ["a"], "partition": pa.array([-1], pa.int32())}, "partition -1"),
        (
            {"value": ["1"], "topic": ["a"], "headers": pa.array([[{"key": None, "value": b"1"}]], HEADERS)},
            "a header without a key",
        ),
    ],
)
def test_a_row_that_cannot_be_written_is_an_error(columns: dict[str, Any], error: str) -> None:
    with pytest.raises(RowError, match=error):
        written(None, **columns)
