"""A cluster in a directory: `<topic>/<partition>.jsonl`, one record a line, the offset being the line's number.

Processes share it through the file system, so Spark's workers read the records that a test appended.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kraft.client import ArrowChunk, TopicPartition, WantedColumns
from kraft.log.format.record_codec import Record
from spark_connector.cluster import OffsetOutOfRange, TopicMissing
from tests.support.arrow_columns import chunk_of

CHUNK_RECORDS = 7


@dataclass(frozen=True)
class FileCluster:
    """The test's side, and a `Connect` for the connector: picklable, and equal in every process."""

    directory: Path

    def __call__(self, bootstrap_servers: Sequence[str]) -> ConnectedFileCluster:
        return ConnectedFileCluster(self.directory)

    def create_topic(self, topic: str, *, partitions: int) -> None:
        (self.directory / topic).mkdir(exist_ok=True)
        for number in range(partitions):
            self._log(TopicPartition(topic, number)).touch()

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

    def _log(self, partition: TopicPartition) -> Path:
        return self.directory / partition.topic / f"{partition.partition}.jsonl"


class ConnectedFileCluster:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.closed = False

    def partitions(self, topic: str) -> Sequence[int]:
        if not (self._directory / topic).is_dir():
            raise TopicMissing(topic)
        return [int(log.stem) for log in (self._directory / topic).glob("*.jsonl")]

    def earliest_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {partition: self._start(partition) for partition in partitions}

    def latest_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {partition: len(self._lines(partition)) for partition in partitions}

    def read(self, partition: TopicPartition, start: int, end: int, wanted: WantedColumns) -> Iterator[ArrowChunk]:
        lines = self._lines(partition)
        while start < end:
            if not self._start(partition) <= start < len(lines):
                raise OffsetOutOfRange(f"{start} of {partition}")
            until = min(start + CHUNK_RECORDS, end, len(lines))
            records = [_record(start + at, *json.loads(line)) for at, line in enumerate(lines[start:until])]
            yield chunk_of(partition, records, wanted)
            start = until

    def close(self) -> None:
        self.closed = True

    def _lines(self, partition: TopicPartition) -> list[str]:
        return (self._directory / partition.topic / f"{partition.partition}.jsonl").read_text().splitlines()

    def _start(self, partition: TopicPartition) -> int:
        start = self._directory / partition.topic / f"{partition.partition}.start"
        return int(start.read_text()) if start.exists() else 0


def _record(
    offset: int, key: str | None, value: str | None, timestamp_ms: int, headers: list[tuple[str, str | None]]
) -> Record:
    fields = tuple((name, _bytes(content)) for name, content in headers)
    return Record(offset, timestamp_ms, _bytes(key), _bytes(value), fields)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
