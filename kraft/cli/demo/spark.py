"""A small Spark: one Java process with two task slots, which ends with the demo."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import psutil
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from kraft.cli.demo.failure import DemoFailed

_STOP_DEADLINE_S: Final = 20.0


def log_file(directory: Path) -> Path:
    """Return the file of Spark's output."""
    return directory / "spark.log"


@contextmanager
def spark_session(directory: Path) -> Iterator[SparkSession]:
    """Start Spark with its files in `directory`, and stop it afterwards. Its Python workers run this interpreter."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # If DNS does not have the machine's name, Spark searches for an address, and warns.
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    conf = SparkConf().setMaster("local[2]").setAppName("kraft demo")
    for key, setting in _settings(directory).items():
        conf.set(key, setting)
    # py4j logs Ctrl-C with a traceback to the root logger, which prints it if it has no handler.
    logging.getLogger().addHandler(logging.NullHandler())
    gateway = _launched(conf, directory)
    try:
        yield SparkSession(_context(conf, gateway))
    finally:
        _stop(gateway)


def _settings(directory: Path) -> dict[str, str]:
    return {
        # Half of Spark's work here is start-up: the fast compiler and the simple collector shorten it.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(directory / "spark"),
        "spark.sql.warehouse.dir": str(directory / "spark-warehouse"),
        # The table has 185 groups: more tasks than slots would only wait.
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        # By default Spark sorts when a task aggregates more than 128 groups.
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "1000",
        "spark.sql.streaming.stopTimeout": "10s",
    }


def _launched(conf: SparkConf, directory: Path) -> Any:
    """Start the Java process and return its gateway. Raises DemoFailed and leaves no process behind."""
    before = set(psutil.Process().children())
    try:
        with log_file(directory).open("ab") as log:
            # In a session of its own it does not get the terminal's Ctrl-C, and is stopped in order like the nodes.
            popen = {"stdout": log, "stderr": log, "start_new_session": True}
            return launch_gateway(conf, popen)  # type: ignore[no-untyped-call]  # pyspark has no types for it.
    except BaseException as error:
        for child in set(psutil.Process().children()) - before:
            child.kill()
            child.wait(_STOP_DEADLINE_S)
        if isinstance(error, PySparkRuntimeError):
            raise DemoFailed(
                f"Spark did not start: {error}: run the demo with --keep and see {log_file(directory)}"
            ) from None
        raise


def _context(conf: SparkConf, gateway: Any) -> SparkContext:
    handler = signal.getsignal(signal.SIGINT)
    with warnings.catch_warnings():
        # pyspark loads pandas for its own tests and warns of its version; nothing here uses it.
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
        context = SparkContext(conf=conf, gateway=gateway)
    # Spark's handler calls Java from any point of the program, perhaps in the middle of another call to Java.
    signal.signal(signal.SIGINT, handler)
    context.setLogLevel("WARN")
    return context


def _stop(gateway: Any) -> None:
    """End the Java process; its Python workers end with it."""
    context = SparkContext._active_spark_context
    with suppress(Py4JError, OSError):
        if context is not None:
            context.stop()
    with suppress(Py4JError, OSError):
        gateway.shutdown()
    # Java ends when its standard input is closed.
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(_STOP_DEADLINE_S)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait(_STOP_DEADLINE_S)
