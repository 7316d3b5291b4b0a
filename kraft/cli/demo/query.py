"""The streaming query: Spark counts the flights and averages their delays while they are being published."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from kraft.cli.demo.delays import DelayCell, Delays
from kraft.cli.demo.failure import DemoFailed
from kraft.client import TopicPartition
from spark_connector import KraftDataSource

_TABLE: Final = "delays"
_FLIGHT_SCHEMA: Final = "id INT, carrier STRING, month INT, dep_delay INT"
"""The columns of a published flight that the query needs."""


class DelayQuery:
    """A running query. Its table is in memory, and complete after every micro-batch."""

    def __init__(self, session: SparkSession, bootstrap_servers: str, topic: str, directory: Path) -> None:
        self._session = session
        self._topic = topic
        session.dataSource.register(KraftDataSource)
        records = (
            session.readStream.format("kraft")
            .schema("value BINARY")
            .option("bootstrap.servers", bootstrap_servers)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .load()
        )
        self._query: StreamingQuery = (
            delays_by_group(records)
            .writeStream.format("memory")
            .queryName(_TABLE)
            .outputMode("complete")
            .option("checkpointLocation", str(directory / "checkpoint"))
            .trigger(processingTime="1 second")
            .start()
        )

    def has_read(self, end_offsets: dict[TopicPartition, int]) -> bool:
        """Return whether the table has every record below these offsets. Raises DemoFailed if the query has ended."""
        self.check()
        progress = self._query.lastProgress
        if progress is None:
            return False
        read = _offsets(progress["sources"][0]["endOffset"], self._topic)
        return all(read.get(partition, 0) >= end for partition, end in end_offsets.items())

    def check(self) -> None:
        """Raise DemoFailed with the reason if the query has ended."""
        if not self._query.isActive:
            raise DemoFailed(f"the Spark query ended early: {self._query.exception()}")

    def table(self) -> dict[DelayCell, Delays]:
        """Return the figures as of the last micro-batch."""
        return {
            DelayCell(row["carrier"], row["month"]): Delays(
                flights=row["flights"],
                distinct_flights=row["distinct_flights"],
                departed=row["departed"],
                delay_total_min=row["delay_total_min"] or 0,
                delay_average_min=row["delay_average_min"],
            )
            for row in self._session.table(_TABLE).collect()
        }

    def stop(self) -> None:
        self._query.stop()


def delays_by_group(records: DataFrame) -> DataFrame:
    """Count all flights; averages ignore cancelled ones, which have no delay."""
    flights = records.select(f.from_json(f.col("value").cast("string"), _FLIGHT_SCHEMA).alias("flight")).select(
        "flight.*"
    )
    return flights.groupBy("carrier", "month").agg(
        f.count("*").alias("flights"),
        f.size(f.collect_set("id")).alias("distinct_flights"),
        f.count("dep_delay").alias("departed"),
        f.sum("dep_delay").alias("delay_total_min"),
        f.avg("dep_delay").alias("delay_average_min"),
    )


def _offsets(document: object, topic: str) -> dict[TopicPartition, int]:
    """Parse the JSON in which Spark reports the offsets that it has read."""
    offsets = json.loads(document) if isinstance(document, str) else document
    if not isinstance(offsets, dict):
        return {}
    partitions = offsets["topics"].get(topic, {})
    return {TopicPartition(topic, int(partition)): offset for partition, offset in partitions.items()}
