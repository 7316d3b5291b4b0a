"""Spark at a cluster where clients have to log in, inside TLS, by the options of Spark's own Kafka source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kraft.client import Admin
from spark_connector import KraftDataSource
from tests.support.closed_clusters import PASSWORD, ClosedCluster, closed_cluster
from tests.support.kafka.logins.places import closed_nodes
from tests.support.kafka.logins.rows import PROGRAMS, brief
from tests.support.maven_jars import JarsMissing
from tests.support.spark.logged_in_spark import spark_clients
from tests.support.spark.official_connector import official_connector

# The first test also starts Java and its Python workers, which takes a minute or two on a busy machine.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

TOPIC = "orders"


@pytest.fixture(scope="module")
def spark(shared_spark: SparkSession) -> SparkSession:
    shared_spark.dataSource.register(KraftDataSource)
    return shared_spark


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClosedCluster]:
    with closed_cluster(tmp_path_factory.mktemp("closed"), nodes=1) as running:
        with Admin(running.bootstrap_servers, **running.settings()) as admin:
            admin.create_topic(TOPIC, 2, 1)
        yield running


def options(closed: ClosedCluster, **login: str) -> dict[str, str]:
    named = {f"kafka.{name}": str(value) for name, value in closed.settings(**login).items()}
    return {"kafka.bootstrap.servers": closed.bootstrap_servers, **named}


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
def test_spark_writes_and_reads_with_a_login(spark: SparkSession, closed: ClosedCluster, mechanism: str) -> None:
    given = options(closed, mechanism=mechanism)
    numbers = spark.range(100).selectExpr(f"CONCAT('{mechanism} ', id) AS value")
    numbers.write.format("kraft").options(**given).option("topic", TOPIC).mode("append").save()
    read = spark.read.format("kraft").options(**given).option("subscribe", TOPIC).load()
    values = {row.value for row in read.selectExpr("CAST(value AS STRING) AS value").collect()}
    assert {value for value in values if value.startswith(mechanism)} == {f"{mechanism} {each}" for each in range(100)}


def test_a_wrong_password_is_named_and_not_shown(spark: SparkSession, closed: ClosedCluster) -> None:
    read = spark.read.format("kraft").options(**options(closed, password="wrong one")).option("subscribe", TOPIC)
    with pytest.raises(PySparkException) as refused:
        read.load().count()
    assert "SASL_AUTHENTICATION_FAILED" in str(refused.value)
    assert "wrong one" not in str(refused.value)
    assert PASSWORD not in str(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1], ids=["official", "ours"])
def test_both_connectors_write_and_read_where_they_have_to_log_in(
    spark: SparkSession, tmp_path: Path, number: int
) -> None:
    """Their rows of the table whose others are in `tests/end_to_end/kafka/test_login_pairs.py`."""
    try:
        official_connector()
    except JarsMissing as missing:
        pytest.skip(str(missing))
    row = brief([*PROGRAMS, *spark_clients(spark)])[len(PROGRAMS) + number]
    with closed_nodes(tmp_path, [row.transport]) as nodes:
        row.run(nodes, "written-by-spark")
