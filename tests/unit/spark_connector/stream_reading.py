"""A reader of a stream as Spark uses it, over the cluster of files."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

from kraft.client import TopicPartition
from spark_connector.arrow import source_schema
from spark_connector.options import stream_options
from spark_connector.patience import Patience
from spark_connector.stream import KraftStreamReader
from tests.support.file_cluster import FileCluster

AT_ONCE = Patience(settle_s=0.0, poll_s=0.0, topics_age_s=0.0)

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def reader(cluster: FileCluster, patience: Patience = AT_ONCE, /, **options: str) -> KraftStreamReader:
    given = {"bootstrap.servers": "localhost:9094", "subscribe": "a", "startingOffsets": "earliest", **options}
    if "subscribePattern" in given or "assign" in given:
        del given["subscribe"]
    parsed = dataclasses.replace(stream_options(given), patience=patience)
    return KraftStreamReader(parsed, source_schema(include_headers=False), cluster)


def at(first: int, second: int) -> dict[str, Any]:
    """A position of version 1, which has no topic ids."""
    return {"version": 1, "topics": {"a": {"0": first, "1": second}}}


def topics(document: dict[str, Any] | None) -> dict[str, dict[str, int]]:
    assert document is not None
    found: dict[str, dict[str, int]] = document["topics"]
    return found


def end_of(stream: KraftStreamReader, start: dict[str, Any]) -> dict[str, Any]:
    return stream.latestOffset(start, stream.getDefaultReadLimit())


def values(stream: KraftStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[str]:
    """Return what the tasks of one micro-batch read, each with a pickled copy of its reader and range."""
    read: list[str] = []
    for partition in stream.partitions(start, end):
        copy, own = pickle.loads(pickle.dumps((stream, partition)))  # noqa: S301 - the bytes are our own
        read += [value.decode() for batch in copy.read(own) for value in batch["value"].to_pylist()]
    return read
