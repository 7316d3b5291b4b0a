"""What Spark does where it has to log in, with our connector and with its own for Kafka: writes and reads.

Neither joins a group, nor administers. Ours writes in transactions.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from tests.support.kafka.logged_in_clients import VALUES
from tests.support.kafka.logins.places import Place
from tests.support.kafka.logins.rows import PRODUCE, TRANSACTIONS, Client


def spark_clients(spark: SparkSession) -> tuple[Client, ...]:
    """Return both; the session has both connectors."""

    def official(place: Place, topic: str) -> list[bytes]:
        # Kafka's client reads a token from a file only if a property of the whole JVM allows it.
        allowed = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
        jvm: Any = spark.sparkContext._jvm
        jvm.java.lang.System.setProperty(allowed, place.token_file.as_uri())
        return _written_and_read("kafka", place.kafka_servers, place, topic)

    def ours(place: Place, topic: str) -> list[bytes]:
        return _written_and_read("kraft", place.grpc_servers, place, topic)

    def _written_and_read(connector: str, servers: str, place: Place, topic: str) -> list[bytes]:
        options = {"kafka.bootstrap.servers": servers}
        options |= {f"kafka.{name}": value for name, value in place.of_java.items()}
        values = spark.createDataFrame([(value.decode(),) for value in VALUES], "value STRING")
        values.write.format(connector).options(**options).option("topic", topic).mode("append").save()
        read = spark.read.format(connector).options(**options).option("subscribe", topic).load()
        return [bytes(row.value) for row in read.select("value").collect()]

    return (
        Client(name="Spark's connector", exercise=official, operations=(PRODUCE,), read=tuple(VALUES)),
        Client(name="ours for Spark", exercise=ours, operations=(PRODUCE, TRANSACTIONS), read=tuple(VALUES)),
    )
