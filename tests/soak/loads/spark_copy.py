"""A Spark program that copies a topic with a stream, and starts its query again when it fails.

`python -m tests.soak.loads.spark_copy MASTER SERVERS SOURCE TARGET CHECKPOINT [OPTION=VALUE ...]`. Each line of its
output says that the query was started, or why it ended.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Final

import pyspark
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark_connector import KraftDataSource

_ROOT: Final = Path(__file__).resolve().parents[3]
_START_AGAIN_S: Final = 1.0
_LINE_MAX: Final = 400


def main(master: str, servers: str, source: str, target: str, checkpoint: str, *options: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = str(_ROOT)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["SPARK_HOME"] = str(_spark_home(Path(checkpoint).parent))
    session = (
        SparkSession.builder.master(master)
        .appName("kraft-copy")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.executorEnv.PYTHONPATH", str(_ROOT))
        # Executors die often here; each death is one failure of a task, and is to be survived.
        .config("spark.task.maxFailures", "8")
        .config("spark.executor.memory", "512m")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    session.dataSource.register(KraftDataSource)
    given = dict(option.split("=", 1) for option in options)
    while True:
        query = _start(session, servers, source, target, checkpoint, given)
        print("started", query.id, flush=True)
        try:
            query.awaitTermination()
        except StreamingQueryException as failure:
            print("failed", " ".join(str(failure).split())[:_LINE_MAX], flush=True)
        # What ended it may last a moment.
        time.sleep(_START_AGAIN_S)


def _spark_home(directory: Path) -> Path:
    """Return a home of Spark that leads to the installed one: the workers of a local cluster write into their home."""
    home = directory / "spark-home"
    if not home.exists():
        home.mkdir()
        for each in Path(pyspark.__file__).parent.iterdir():
            (home / each.name).symlink_to(each)
    return home


def _start(
    session: SparkSession, servers: str, source: str, target: str, checkpoint: str, options: dict[str, str]
) -> StreamingQuery:
    frame = (
        session.readStream.format("kraft")
        .option("bootstrap.servers", servers)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .options(**options)
        .load()
    )
    writer = frame.select("value").writeStream.format("kraft").option("bootstrap.servers", servers)
    return writer.option("topic", target).option("checkpointLocation", checkpoint).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
