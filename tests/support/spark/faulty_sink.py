"""The sink with faults: a file in a folder asks for one, which then happens once.

`before-N` and `after-N`: the commit of batch N fails before or after the coordinator has committed it. `lost-N`: the
process of a task ends after it has written its part of batch N. `killed-N`: the driver is killed when the coordinator
has committed batch N; `drivers` has the ids of its processes.

As a program, it copies a topic to another one until it is killed: `faulty_sink SERVERS FROM TO CHECKPOINT FOLDER`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import SparkContext, TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from spark_connector import KraftDataSource
from spark_connector.sink import KraftStreamWriter, Written
from spark_connector.sink_options import sink_options

FORMAT = "faulty-kraft"
BATCH_RECORDS = 300


class Fault(Exception):
    """What a file asked for."""


class FaultySource(KraftDataSource):
    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamWriter(self, schema: StructType, overwrite: bool) -> KraftStreamWriter:
        options = {name: value for name, value in self.options.items() if name != "faults"}
        return FaultyWriter(Path(self.options["faults"]), options, schema)


class FaultyWriter(KraftStreamWriter):
    def __init__(self, faults: Path, options: dict[str, str], schema: StructType) -> None:
        super().__init__(sink_options(options), schema)
        self._faults = faults

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        written = super().write(iterator)
        context = TaskContext.get()
        assert context is not None
        if written.records and self._is_asked(f"lost-{context.getLocalProperty('streaming.sql.batchId')}"):
            os.kill(os.getpid(), signal.SIGKILL)
        return written

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        if self._is_asked(f"before-{batchId}"):
            raise Fault("before the commit")
        super().commit(messages, batchId)
        if self._is_asked(f"after-{batchId}"):
            raise Fault("after the commit")
        if self._is_asked(f"killed-{batchId}"):
            for process in (self._faults / "drivers").read_text().split():
                os.kill(int(process), signal.SIGKILL)

    def _is_asked(self, fault: str) -> bool:
        try:
            (self._faults / fault).unlink()
        except FileNotFoundError:
            return False
        return True


def copy(
    spark: SparkSession,
    servers: str,
    source: str,
    target: str,
    checkpoint: Path,
    faults: Path,
    batch_records: int = BATCH_RECORDS,
) -> StreamingQuery:
    """Start a query that copies what there is of a topic, in batches."""
    read: dict[str, Any] = {"subscribe": source, "startingOffsets": "earliest", "maxOffsetsPerTrigger": batch_records}
    frame = spark.readStream.format("kraft").option("bootstrap.servers", servers).options(**read).load()
    writer = frame.select("key", "value", "partition").writeStream.format(FORMAT)
    options = {"bootstrap.servers": servers, "topic": target, "faults": str(faults)}
    return writer.options(**options).option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()


def main(servers: str, source: str, target: str, checkpoint: str, faults: str) -> None:
    from tests.support.spark.spark_session import spark_session

    with spark_session("local[2,3]") as spark:
        spark.dataSource.register(KraftDataSource)
        spark.dataSource.register(FaultySource)
        gateway: Any = SparkContext._gateway
        (Path(faults) / "drivers").write_text(f"{os.getpid()} {gateway.proc.pid}")
        copy(spark, servers, source, target, Path(checkpoint), Path(faults)).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
