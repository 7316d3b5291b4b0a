"""A cluster in a directory: `<topic>/<partition>.jsonl`, one record a line, the offset being the line's number.

Processes share it through the file system, so Spark's workers read the records that a test appended.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kraft.client import TopicPartition
from spark_connector.cluster import ColumnChunk, OffsetOutOfRange, TopicMissing

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

    def read(self, partition: TopicPartition, start: int, end: int) -> Iterator[ColumnChunk]:
        lines = self._lines(partition)
        while start < end:
            if not self._start(partition) <= start < len(lines):
                raise OffsetOutOfRange(f"{start} of {partition}")
            until = min(start + CHUNK_RECORDS, end, len(lines))
            yield chunk(start, [json.loads(line) for line in lines[start:until]])
            start = until

    def close(self) -> None:
        self.closed = True

    def _lines(self, partition: TopicPartition) -> list[str]:
        return (self._directory / partition.topic / f"{partition.partition}.jsonl").read_text().splitlines()

    def _start(self, partition: TopicPartition) -> int:
        start = self._directory / partition.topic / f"{partition.partition}.start"
        return int(start.read_text()) if start.exists() else 0


def chunk(
    start: int, records: Sequence[tuple[str | None, str | None, int, list[tuple[str, str | None]]]]
) -> ColumnChunk:
    """Return the records of `FileCluster.append` from offset `start` on."""
    values = [_bytes(value) for _, value, _, _ in records]
    return ColumnChunk(
        offsets=list(range(start, start + len(records))),
        timestamps_ms=[timestamp_ms for _, _, timestamp_ms, _ in records],
        timestamp_type=0,
        keys=[_bytes(key) for key, _, _, _ in records],
        values=values,
        headers=[[(name, _bytes(value)) for name, value in headers] for _, _, _, headers in records],
        size_bytes=sum(len(value or b"") for value in values),
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
