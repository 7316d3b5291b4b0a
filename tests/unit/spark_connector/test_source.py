from __future__ import annotations

import pickle
import subprocess
import sys

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from spark_connector import KraftDataSource
from spark_connector.connector import Connector
from spark_connector.given import OptionError

OPTIONS = {"bootstrap.servers": "localhost:9094", "subscribe": "flights"}


def test_spark_knows_the_source_as_kraft() -> None:
    assert KraftDataSource.name() == "kraft"


def test_a_wrong_option_is_named_when_the_source_is_loaded() -> None:
    with pytest.raises(OptionError, match="subscribe and subscribePattern exclude each other"):
        KraftDataSource({**OPTIONS, "subscribePattern": "f.*"}).schema()


def test_a_stream_that_is_refused_says_why_at_its_first_call() -> None:
    """Spark replaces an error of `streamReader` by one of its own."""
    refused = KraftDataSource({**OPTIONS, "endingOffsets": "latest"})
    reader = refused.streamReader(refused.schema())
    for call in (reader.getDefaultReadLimit, reader.prepareForTriggerAvailableNow, reader.initialOffset):
        with pytest.raises(OptionError, match="option endingOffsets: a stream has no end"):
            call()
    reader.stop()
    wrong = KraftDataSource(OPTIONS).streamReader(StructType().add("value", "string"))
    with pytest.raises(OptionError, match="column 'value' is binary in the kraft source, not string"):
        wrong.latestOffset({}, ReadAllAvailable())


PLAN = """
import sys
from spark_connector import KraftDataSource
source = KraftDataSource({"bootstrap.servers": "localhost:9094", "subscribe": "a", "kafka.fetch.max.bytes": "500"})
source.reader(source.schema())
source.streamReader(source.schema())
print(sorted(name for name in sys.modules if name.split(".")[0] in ("grpc", "google") or name == "kraft.rpc"))
"""


def test_the_processes_that_check_options_or_make_readers_do_without_grpc() -> None:
    done = subprocess.run([sys.executable, "-c", PLAN], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "[]\n", done.stderr


def test_settings_of_the_client_are_those_of_the_connection() -> None:
    settings = {"kafka.isolation.level": "read_uncommitted", "kraft.fetch.max.bytes": "500"}
    connector = KraftDataSource({**OPTIONS, **settings}).connector()
    assert connector == Connector((("fetch.max.bytes", "500"), ("isolation.level", "read_uncommitted")))
    assert pickle.loads(pickle.dumps(connector)) == connector  # noqa: S301 - the bytes are our own


def test_a_topic_cannot_be_overwritten() -> None:
    schema = StructType().add("value", "string")
    options = {"bootstrap.servers": "localhost:9094", "topic": "flights"}
    with pytest.raises(OptionError, match="mode overwrite: a topic cannot be overwritten; use mode append"):
        KraftDataSource(options).writer(schema, overwrite=True)
    KraftDataSource(options).writer(schema, overwrite=False)
    KraftDataSource(options).streamWriter(schema, overwrite=True)
