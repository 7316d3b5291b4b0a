from __future__ import annotations

import pickle
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from types import ModuleType

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from spark_connector.arrow import source_schema
from spark_connector.batch import KraftBatchReader
from spark_connector.options import batch_options
from spark_connector.pushdown import FilteringBatchReader
from spark_connector.source import KraftDataSource
from tests.support.file_cluster import ConnectedFileCluster, FileCluster

TOPIC, PARTITION, OFFSET, TIMESTAMP, VALUE = (
    (name,) for name in ("topic", "partition", "offset", "timestamp", "value")
)
FIRST_MS = 1_700_000_000_000
FIRST = datetime.fromtimestamp(FIRST_MS / 1_000, UTC)
OPTIONS = {"bootstrap.servers": "localhost:9094", "subscribe": "a,b"}


@pytest.fixture
def cluster(cluster: FileCluster) -> FileCluster:
    """Add topic b: a second for each record of partition 0, one of which is older than the one before."""
    cluster.create_topic("b", partitions=1)
    for second in (0, 1, 2, 5, 3, 6):
        cluster.append("b", 0, [f"b0-{second}s"], timestamp_ms=FIRST_MS + 1_000 * second)
    return cluster


def filtered(
    cluster: FileCluster, *filters: Filter, **options: str
) -> tuple[list[tuple[str, int, int, int]], Sequence[Filter]]:
    """Return the ranges planned, as topic, partition, start and end, and what is left for Spark."""
    reader = FilteringBatchReader(batch_options(OPTIONS | options), source_schema(include_headers=False), cluster)
    left = list(reader.pushFilters(list(filters)))
    planned = pickle.loads(pickle.dumps(reader)).partitions()  # noqa: S301  The bytes are our own.
    return [(each.partition.topic, each.partition.partition, each.start, each.end) for each in planned], left


A0, A1, B0 = ("a", 0, 0, 30), ("a", 1, 0, 10), ("b", 0, 0, 6)


@pytest.mark.parametrize(
    ("given", "planned"),
    [
        (EqualTo(TOPIC, "b"), [B0]),
        (EqualNullSafe(("TOPIC",), "b"), [B0]),
        (Not(EqualTo(TOPIC, "b")), [A0, A1]),
        (In(TOPIC, ("a", None, "c")), [A0, A1]),
        (Not(In(TOPIC, ("a", "c"))), [B0]),
        (StringStartsWith(TOPIC, "b"), [B0]),
        (StringEndsWith(TOPIC, "a"), [A0, A1]),
        (StringContains(TOPIC, "c"), []),
        (EqualTo(PARTITION, 1), [A1]),
        (GreaterThan(PARTITION, 0), [A1]),
        (GreaterThanOrEqual(PARTITION, 1), [A1]),
        (LessThan(PARTITION, 1), [A0, B0]),
        (LessThanOrEqual(PARTITION, 0), [A0, B0]),
        (Not(LessThan(PARTITION, 1)), [A1]),
        (EqualTo(OFFSET, 6), [("a", 0, 6, 7), ("a", 1, 6, 7)]),
        (GreaterThan(OFFSET, 8), [("a", 0, 9, 30), ("a", 1, 9, 10)]),
        (GreaterThanOrEqual(OFFSET, 9), [("a", 0, 9, 30), ("a", 1, 9, 10)]),
        (LessThan(OFFSET, 2), [("a", 0, 0, 2), ("a", 1, 0, 2), ("b", 0, 0, 2)]),
        (LessThanOrEqual(OFFSET, 1), [("a", 0, 0, 2), ("a", 1, 0, 2), ("b", 0, 0, 2)]),
        (LessThan(OFFSET, 0), []),
        (IsNotNull(TOPIC), [A0, A1, B0]),
        (IsNotNull(OFFSET), [A0, A1, B0]),
    ],
    ids=str,
)
def test_filters_by_topic_partition_and_offset_leave_nothing_for_spark(
    cluster: FileCluster, given: Filter, planned: list[tuple[str, int, int, int]]
) -> None:
    assert filtered(cluster, given) == (planned, [])


@pytest.mark.parametrize(
    ("given", "planned"),
    [
        (In(OFFSET, (7, 3)), [("a", 0, 3, 8), ("a", 1, 3, 8), ("b", 0, 3, 6)]),
        (GreaterThanOrEqual(TIMESTAMP, FIRST + timedelta(seconds=2)), [("b", 0, 2, 6)]),
        (GreaterThan(TIMESTAMP, FIRST + timedelta(seconds=2)), [("b", 0, 3, 6)]),
        (GreaterThan(TIMESTAMP, FIRST + timedelta(seconds=1, microseconds=999_999)), [("b", 0, 2, 6)]),
        (GreaterThanOrEqual(TIMESTAMP, FIRST + timedelta(seconds=1, microseconds=1)), [("b", 0, 2, 6)]),
        (EqualTo(TIMESTAMP, FIRST + timedelta(seconds=4)), [("b", 0, 3, 6)]),
        (GreaterThan(TIMESTAMP, FIRST + timedelta(seconds=6)), []),
        (GreaterThan(TIMESTAMP, datetime(1960, 1, 1, tzinfo=UTC)), [A0, A1, B0]),
        (LessThan(TIMESTAMP, FIRST), [A0, A1, B0]),
        (GreaterThan(TIMESTAMP, FIRST.replace(tzinfo=None)), [A0, A1, B0]),
        (Not(EqualTo(OFFSET, 3)), [A0, A1, B0]),
        (Not(GreaterThan(TIMESTAMP, FIRST)), [A0, A1, B0]),
        (Not(In(TOPIC, ("a", None))), [A0, A1, B0]),
        (IsNull(TOPIC), [A0, A1, B0]),
        (IsNotNull(TIMESTAMP), [A0, A1, B0]),
        (EqualTo(VALUE, b"a0-3"), [A0, A1, B0]),
        (EqualTo(("headers", "topic"), "b"), [A0, A1, B0]),
        (EqualTo(TOPIC, None), [A0, A1, B0]),
    ],
    ids=str,
)
def test_spark_checks_the_other_filters_itself(
    cluster: FileCluster, given: Filter, planned: list[tuple[str, int, int, int]]
) -> None:
    assert filtered(cluster, given) == (planned, [given])


def test_several_filters_hold_together(cluster: FileCluster) -> None:
    filters = [
        EqualTo(TOPIC, "b"),
        GreaterThanOrEqual(OFFSET, 1),
        LessThan(OFFSET, 5),
        GreaterThan(TIMESTAMP, FIRST + timedelta(seconds=1)),
        EqualTo(VALUE, b"x"),
    ]
    assert filtered(cluster, *filters) == ([("b", 0, 2, 5)], filters[3:])


def test_filters_never_reach_beyond_the_offsets_that_were_given(cluster: FileCluster) -> None:
    given = {"subscribe": "b", "startingOffsets": '{"b": {"0": 2}}', "endingOffsets": '{"b": {"0": 4}}'}
    for each in (GreaterThan(OFFSET, 0), LessThan(OFFSET, 9), GreaterThanOrEqual(TIMESTAMP, FIRST)):
        assert filtered(cluster, each, **given)[0] == [("b", 0, 2, 4)]


def test_a_time_before_1970_is_never_asked_for(cluster: FileCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(ConnectedFileCluster, "offsets_at")
    before = datetime(1969, 12, 31, tzinfo=UTC)
    assert filtered(cluster, GreaterThan(TIMESTAMP, before))[0] == [A0, A1, B0]


def test_what_is_no_number_or_no_column_narrows_nothing(cluster: FileCluster) -> None:
    filters: list[Filter] = [In(OFFSET, (1, None)), EqualTo(("topic", "part"), "zz")]
    assert filtered(cluster, *filters) == ([A0, A1, B0], filters)


def test_only_the_process_that_asks_gets_a_reader_that_takes_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    source = KraftDataSource(OPTIONS)
    assert type(source.reader(source.schema())) is KraftBatchReader
    module = "pyspark.sql.worker.data_source_pushdown_filters"
    monkeypatch.setitem(sys.modules, module, ModuleType(module))
    assert type(source.reader(source.schema())) is FilteringBatchReader
