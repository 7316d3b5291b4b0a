"""A cluster in a directory: `<topic>/<partition>.jsonl`, one record a line, the offset being the line's number.

Processes share it through the file system, so Spark's workers read the records that a test appended. What it answers at
the ends of a log is what a broker answers: `tests/end_to_end/spark/test_clusters.py` runs the same tests on both.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from uuid import uuid4

from kraft.client import ArrowChunk, TopicPartition, WantedColumns
from kraft.log.format.record_codec import Record
from spark_connector.cluster import Missing, OffsetOutOfRange, ReadStalled, Topic
from tests.support.arrow_columns import chunk_of

CHUNK_RECORDS = 7

_TOPIC_ID = "topic-id"
_POLL_S = 0.005


@dataclass(frozen=True)
class FileCluster:
    """The test's side, and a `Connect` for the connector: picklable, and equal in every process."""

    directory: Path

    def __call__(self, bootstrap_servers: Sequence[str]) -> ConnectedFileCluster:
        return ConnectedFileCluster(self.directory)

    def create_topic(self, topic: str, *, partitions: int) -> None:
        """Create the topic, or add partitions to it."""
        (self.directory / topic).mkdir(exist_ok=True)
        for number in range(partitions):
            self._log(TopicPartition(topic, number)).touch()
        if not (self.directory / topic / _TOPIC_ID).exists():
            (self.directory / topic / _TOPIC_ID).write_text(str(uuid4()))

    def delete_topic(self, topic: str) -> None:
        for file in (self.directory / topic).iterdir():
            file.unlink()
        (self.directory / topic).rmdir()

    def append(
        self,
        topic: str,
        partition: int,
        values: Sequence[str | None],
        *,
        key: str | None = None,
        timestamp_ms: int = 1_700_000_000_000,
        headers: Sequence[tuple[str, str | None]] = (),
    ) -> None:
        lines = [json.dumps([key, value, timestamp_ms, list(headers)]) + "\n" for value in values]
        with self._log(TopicPartition(topic, partition)).open("a") as log:
            log.write("".join(lines))

    def delete_records_before(self, topic: str, partition: int, offset: int) -> None:
        self._log(TopicPartition(topic, partition)).with_suffix(".start").write_text(str(offset))

    def truncate(self, topic: str, partition: int, offset: int) -> None:
        log = self._log(TopicPartition(topic, partition))
        log.write_text("".join(log.read_text().splitlines(keepends=True)[:offset]))

    def committed(self, group_id: str) -> dict[TopicPartition, int]:
        file = self.directory / f"{group_id}.group"
        found = json.loads(file.read_text()) if file.exists() else []
        return {TopicPartition(topic, partition): offset for topic, partition, offset in found}

    def _log(self, partition: TopicPartition) -> Path:
        return self.directory / partition.topic / f"{partition.partition}.jsonl"


class ConnectedFileCluster:
    stall_s: ClassVar[float] = 0.05
    """How long a read waits at the end of a log."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.closed = False

    def topics(self, names: Sequence[str] | None) -> dict[str, Topic]:
        existing = {path.name for path in self._directory.iterdir() if path.is_dir()}
        return {
            name: Topic(
                topic_id=(self._directory / name / _TOPIC_ID).read_text(),
                partitions=tuple(sorted(int(log.stem) for log in (self._directory / name).glob("*.jsonl"))),
            )
            for name in (existing if names is None else names)
            if name in existing
        }

    def earliest_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {partition: self._start(partition) for partition in partitions}

    def latest_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {partition: len(self._lines(partition)) for partition in partitions}

    def offsets_at(self, timestamps_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return {partition: self._offset_at(partition, wanted_ms) for partition, wanted_ms in timestamps_ms.items()}

    def record_bytes(self, partition: TopicPartition, offset: int, end: int) -> float | None:
        found = self._records(partition, offset, min(offset + CHUNK_RECORDS, end))
        sizes = [len(each.key or b"") + len(each.value or b"") for each in found]
        return sum(sizes) / len(sizes) if sizes else None

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        listed = [[each.topic, each.partition, offset] for each, offset in offsets.items()]
        # Readers of two runs of a query may commit at once.
        whole = self._directory / f"{group_id}.{uuid4()}"
        whole.write_text(json.dumps(listed))
        whole.replace(self._directory / f"{group_id}.group")

    def read(self, partition: TopicPartition, start: int, end: int, wanted: WantedColumns) -> Iterator[ArrowChunk]:
        stalls_at = time.monotonic() + self.stall_s
        while start < end:
            lines = self._lines(partition)
            if not self._start(partition) <= start <= len(lines):
                raise OffsetOutOfRange(f"{start} of {partition}")
            until = min(start + CHUNK_RECORDS, end, len(lines))
            if until > start:
                yield chunk_of(partition, self._records(partition, start, until), wanted)
                start, stalls_at = until, time.monotonic() + self.stall_s
            elif time.monotonic() >= stalls_at:
                raise ReadStalled(f"{partition}: nothing from offset {start} on")
            else:
                time.sleep(_POLL_S)

    def close(self) -> None:
        self.closed = True

    def _offset_at(self, partition: TopicPartition, wanted_ms: int) -> int | None:
        for offset, line in enumerate(self._lines(partition)):
            if offset >= self._start(partition) and json.loads(line)[2] >= wanted_ms:
                return offset
        return None

    def _records(self, partition: TopicPartition, start: int, end: int) -> list[Record]:
        lines = self._lines(partition)[start:end]
        return [_record(start + at, *json.loads(line)) for at, line in enumerate(lines)]

    def _lines(self, partition: TopicPartition) -> list[str]:
        try:
            return (self._directory / partition.topic / f"{partition.partition}.jsonl").read_text().splitlines()
        except FileNotFoundError:
            raise Missing(f"{partition} does not exist") from None

    def _start(self, partition: TopicPartition) -> int:
        self._lines(partition)
        start = self._directory / partition.topic / f"{partition.partition}.start"
        return int(start.read_text()) if start.exists() else 0


def _record(
    offset: int, key: str | None, value: str | None, timestamp_ms: int, headers: list[tuple[str, str | None]]
) -> Record:
    fields = tuple((name, _bytes(content)) for name, content in headers)
    return Record(offset, timestamp_ms, _bytes(key), _bytes(value), fields)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
