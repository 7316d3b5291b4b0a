from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructField, StructType, TimestampType

from kraft.client import TopicPartition
from spark_connector import arrow
from spark_connector.cluster import ColumnChunk
from spark_connector.given import OptionError

FLIGHTS_3 = TopicPartition("flights", 3)


def chunk(start: int, count: int, **columns: Any) -> ColumnChunk:
    defaults: dict[str, Any] = {
        "offsets": list(range(start, start + count)),
        "timestamps_ms": [1_700_000_000_123] * count,
        "timestamp_type": 0,
        "keys": [None] * count,
        "values": [b"v"] * count,
        "headers": [[]] * count,
        "size_bytes": count,
    }
    return ColumnChunk(**(defaults | columns))


def batches(chunks: Iterable[ColumnChunk], schema: StructType | None = None) -> list[pa.RecordBatch]:
    requested = schema or arrow.source_schema(include_headers=True)
    return list(arrow.record_batches(chunks, FLIGHTS_3, arrow.arrow_schema(requested, include_headers=True)))


def test_the_schema_is_that_of_sparks_kafka_source() -> None:
    assert arrow.source_schema(include_headers=True).simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    assert "headers" not in arrow.source_schema(include_headers=False).fieldNames()


def test_a_record_becomes_a_row_with_every_column() -> None:
    [batch] = batches([chunk(41, 1, keys=[b"AA"], timestamp_type=1, headers=[[("h", b"1"), ("h", None)]])])
    assert batch.to_pylist() == [
        {
            "key": b"AA",
            "value": b"v",
            "topic": "flights",
            "partition": 3,
            "offset": 41,
            "timestamp": datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC),
            "timestampType": 1,
            "headers": [{"key": "h", "value": b"1"}, {"key": "h", "value": None}],
        }
    ]


def test_what_a_record_has_not_is_null() -> None:
    [batch] = batches([chunk(0, 1, values=[None])])
    row = batch.to_pylist()[0]
    assert (row["key"], row["value"], row["headers"]) == (None, None, None)


def test_batches_have_the_schema_that_spark_compares_them_with() -> None:
    [batch] = batches([chunk(0, 2)])
    assert batch.schema == arrow.arrow_schema(arrow.source_schema(include_headers=True), include_headers=True)
    assert batch.schema.field("timestamp").type == pa.timestamp("us", tz="UTC")


def test_only_the_columns_asked_for_are_built_in_the_order_asked_for() -> None:
    requested = StructType().add("offset", "long").add("VALUE", "binary")
    [batch] = batches([chunk(7, 2)], requested)
    assert batch.to_pydict() == {"offset": [7, 8], "VALUE": [b"v", b"v"]}


def test_a_column_that_may_not_be_null_is_built_as_such() -> None:
    requested = StructType([StructField("timestamp", TimestampType(), nullable=False)])
    [batch] = batches([chunk(0, 1)], requested)
    assert not batch.schema.field("timestamp").nullable


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("value", "column 'value' is binary in the kraft source, not string"),
        ("carrier", "the kraft source has no column 'carrier'"),
        ("headers", "column headers needs the option includeHeaders=true"),
    ],
)
def test_a_column_that_the_source_has_not_is_named(column: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        arrow.arrow_schema(StructType().add(column, "string"), include_headers=False)


def test_many_small_chunks_become_few_batches_with_every_record_in_order() -> None:
    built = batches(chunk(start, 100) for start in range(0, 50_000, 100))
    assert [batch.num_rows for batch in built] == [20_000, 20_000, 10_000]
    assert [offset for batch in built for offset in batch["offset"].to_pylist()] == list(range(50_000))


def test_batches_are_bounded_in_bytes_too() -> None:
    built = batches([chunk(start, 10, size_bytes=arrow.BATCH_BYTES_MAX // 2) for start in range(0, 50, 10)])
    assert [batch.num_rows for batch in built] == [20, 20, 10]


def test_a_chunk_above_the_bounds_stays_whole() -> None:
    built = batches([chunk(0, 30_000), chunk(30_000, 1)])
    assert [batch.num_rows for batch in built] == [30_000, 1]


def test_records_with_different_timestamp_types_do_not_share_a_batch() -> None:
    built = batches([chunk(0, 1), chunk(1, 1, timestamp_type=1), chunk(2, 1, timestamp_type=1)])
    assert [batch["timestampType"].to_pylist() for batch in built] == [[0], [1, 1]]


def test_a_time_that_spark_has_no_value_for_becomes_null_and_spares_the_others() -> None:
    nanoseconds = 1_700_000_000_123_456_789
    [batch] = batches([chunk(0, 3, timestamps_ms=[0, nanoseconds, -1])], StructType().add("timestamp", "timestamp"))
    assert batch["timestamp"].cast(pa.int64()).to_pylist() == [0, None, -1_000]


def test_no_chunk_makes_no_batch() -> None:
    assert batches([]) == []
