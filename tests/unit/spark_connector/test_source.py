from __future__ import annotations

import pytest
from pyspark.sql.types import StructType

from spark_connector import KraftDataSource
from spark_connector.arrow import source_schema
from spark_connector.options import OptionError

OPTIONS = {"bootstrap.servers": "localhost:9094", "subscribe": "flights"}


def test_spark_knows_the_source_as_kraft() -> None:
    assert KraftDataSource.name() == "kraft"


def test_headers_are_a_column_when_they_are_asked_for() -> None:
    assert KraftDataSource(OPTIONS).schema() == source_schema(include_headers=False)
    assert KraftDataSource({**OPTIONS, "includeHeaders": "true"}).schema() == source_schema(include_headers=True)


def test_a_wrong_option_is_named_when_the_source_is_loaded() -> None:
    with pytest.raises(OptionError, match="subscribePattern"):
        KraftDataSource({**OPTIONS, "subscribePattern": "f.*"}).schema()


def test_a_topic_cannot_be_overwritten() -> None:
    schema = StructType().add("value", "string")
    options = {"bootstrap.servers": "localhost:9094", "topic": "flights"}
    with pytest.raises(OptionError, match="mode overwrite: a topic cannot be overwritten; use mode append"):
        KraftDataSource(options).writer(schema, overwrite=True)
    KraftDataSource(options).writer(schema, overwrite=False)
    KraftDataSource(options).streamWriter(schema, overwrite=True)
