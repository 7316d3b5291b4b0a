from __future__ import annotations

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql.pandas import types as pandas_types
from pyspark.sql.types import StructType, TimestampType

from spark_connector import spark_versions
from spark_connector.spark_versions import STREAMS, SparkTooOld, require, to_arrow_schema

TIME = StructType().add("timestamp", TimestampType())


def test_every_version_that_is_new_enough_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("4.2.0", "4.2.0.dev1", "4.10.1", "5.0.0"):
        monkeypatch.setattr(pyspark, "__version__", version)
        require("reading a stream", STREAMS)


@pytest.mark.parametrize(("version", "least"), [("4.1.3", STREAMS), ("4.0.4", STREAMS), ("4.3.0", (5, 0))])
def test_an_older_one_is_refused_by_its_number(
    monkeypatch: pytest.MonkeyPatch, version: str, least: tuple[int, int]
) -> None:
    monkeypatch.setattr(pyspark, "__version__", version)
    with pytest.raises(SparkTooOld, match=rf"needs PySpark {least[0]}\.{least[1]}, this is {version}"):
        require("reading a stream", least)


def test_times_are_in_utc_with_the_older_function_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def before_4_2(schema: StructType, timestamp_utc: bool = True) -> pa.Schema:
        return pa.schema([pa.field("timestamp", pa.timestamp("us", "UTC" if timestamp_utc else None))])

    newer = to_arrow_schema(TIME)
    monkeypatch.setattr(pandas_types, "to_arrow_schema", before_4_2)
    assert spark_versions.to_arrow_schema(TIME) == newer
