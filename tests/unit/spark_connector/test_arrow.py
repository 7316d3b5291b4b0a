from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructField, StructType, TimestampType

from kraft.client import TopicPartition
from kraft.log.format.record_codec import Record
from spark_connector import arrow
from spark_connector.given import OptionError
from tests.support.arrow_columns import chunk_of

FLIGHTS_3 = TopicPartition("flights", 3)


ALL = arrow.source_schema(include_headers=True)
NOON_MS = 1_700_000_000_123


def record(offset: int = 0, value: bytes | None = b"v", **fields: Any) -> Record:
    return Record(**{"offset": offset, "timestamp_ms": NOON_MS, "key": None, "value": value, **fields})


def batch(*records: Record, schema: StructType = ALL, timestamp_type: int = 0) -> pa.RecordBatch:
    requested = arrow.arrow_schema(schema, include_headers=True)
    chunk = chunk_of(FLIGHTS_3, records, arrow.wanted_columns(requested), timestamp_type)
    [built] = arrow.record_batches([chunk], requested)
    built.validate(full=True)
    return built


def test_what_a_record_has_not_is_null() -> None:
    [row] = batch(record(0, None)).to_pylist()
    assert (row["key"], row["value"], row["headers"]) == (None, None, None)


def test_batches_have_the_schema_that_spark_compares_them_with() -> None:
    found = batch(record(0), record(1))
    assert found.schema == arrow.arrow_schema(ALL, include_headers=True)
    assert found.schema.field("timestamp").type == pa.timestamp("us", tz="UTC")


def test_a_column_that_may_not_be_null_is_built_as_such() -> None:
    requested = StructType([StructField("timestamp", TimestampType(), nullable=False)])
    assert not batch(record(), schema=requested).schema.field("timestamp").nullable


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


def test_a_time_that_spark_has_no_value_for_becomes_null_and_spares_the_others() -> None:
    times = [0, 1_700_000_000_123_456_789, -1]
    records = [record(at, timestamp_ms=timestamp_ms) for at, timestamp_ms in enumerate(times)]
    found = batch(*records, schema=StructType().add("timestamp", "timestamp"))
    assert found["timestamp"].cast(pa.int64()).to_pylist() == [0, None, -1_000]


def test_no_chunk_makes_no_batch() -> None:
    assert list(arrow.record_batches([], arrow.arrow_schema(ALL, include_headers=True))) == []
