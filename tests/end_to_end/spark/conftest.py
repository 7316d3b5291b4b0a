"""The Spark session that the files of this folder share; it takes longer to start than most tests take."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.support.maven_jars import JarsMissing
from tests.support.spark.official_connector import official_connector
from tests.support.spark.spark_session import spark_session


@pytest.fixture(scope="package")
def shared_spark() -> Iterator[SparkSession]:
    """A session for all files; each has a new one of it, in which it may register a data source of its own.

    It has Spark's own connector for Kafka, if that can be fetched.
    """
    try:
        jars = official_connector()
    except JarsMissing:
        jars = []
    with spark_session(jars=jars) as session:
        yield session
