"""The Spark session that the files of this folder share; it takes longer to start than most tests take."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.support.spark.spark_session import spark_session


@pytest.fixture(scope="package")
def shared_spark() -> Iterator[SparkSession]:
    """A session in which a file registers its own data source."""
    with spark_session() as session:
        yield session
