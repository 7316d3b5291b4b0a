"""A small Spark of one process and two task slots, for tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

_JAVA_ENDS_WITHIN_S = 30
SHORT_LIVED_JAVA = (
    # Nothing here runs long enough for its code to be compiled twice; that took a third of the time.
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
    # Spark's classes are as they were released.
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
_REPOSITORY = Path(__file__).resolve().parents[3]
QUICK_WORKERS = Path(__file__).with_name("python_path")
"""A folder for the PYTHONPATH of Spark's Python workers, with which they start in half the time."""


@contextmanager
def spark_session(master: str = "local[2]", jars: Sequence[Path] = ()) -> Iterator[SparkSession]:
    """A session whose Python workers run this interpreter and import this repository; it leaves no files.

    `jars` are connectors in Java.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    paths = [str(QUICK_WORKERS), str(_REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    session = (
        SparkSession.builder.master(master)
        .appName("kraft-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", SHORT_LIVED_JAVA)
        # Driver and tasks are one process.
        .config("spark.driver.extraClassPath", os.pathsep.join(map(str, jars)))
        # Each query is short: to generate code for it takes longer than to interpret it.
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()
        _end_java()


def _end_java() -> None:
    """End the Java process, which a stopped session leaves running until some time after Python has ended."""
    gateway: Any = SparkContext._gateway
    gateway.shutdown()
    # Java reads its standard input to know that Python is still there.
    gateway.proc.stdin.close()
    gateway.proc.wait(_JAVA_ENDS_WITHIN_S)
    SparkContext._gateway = SparkContext._jvm = None
