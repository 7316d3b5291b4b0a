from __future__ import annotations

import pytest
from pyspark.sql.types import StructType

from spark_connector import KraftDataSource
from spark_connector.arrow import source_schema
from spark_connector.options import OptionError
from spark_connector.source import WriteNotSupported

OPTIONS = {"bootstrap.servers": "localhost:9094", "subscribe": "flights"}


def test_spark_knows_the_source_as_kraft() -> None:
    assert KraftDataSource.name() == "kraft"


def test_headers_are_a_column_when_they_are_asked_for() -> None:
    assert KraftDataSource(OPTIONS).schema() == source_schema(include_headers=False)
    assert KraftDataSource({**OPTIONS, "includeHeaders": "true"}).schema() == source_schema(include_headers=True)


def test_a_wrong_option_is_named_when_the_source_is_loaded() -> None:
    with pytest.raises(OptionError, match="subscribePattern"):
        KraftDataSource({**OPTIONS, "subscribePattern": "f.*"}).schema()


def test_writing_says_that_it_is_not_supported_yet() -> None:
    with pytest.raises(WriteNotSupported, match="not supported yet"):
        KraftDataSource(OPTIONS).writer(StructType(), overwrite=False)
    with pytest.raises(WriteNotSupported, match="not supported yet"):
        KraftDataSource(OPTIONS).streamWriter(StructType(), overwrite=False)
