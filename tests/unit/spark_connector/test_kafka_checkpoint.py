"""Checkpoints of Spark's Kafka source; the files are like those that Spark 4.3 writes with the connector's jar."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kraft.client import TopicPartition
from spark_connector.kafka_checkpoint import CheckpointError, main, move_checkpoint
from spark_connector.offsets import beginning_of_batch

METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":1767225600000,"conf":{"spark.sql.shuffle.partitions":"2"}}'
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.fixture
def kafka(tmp_path: Path) -> Path:
    """Two micro-batches, the second of which is not completed."""
    checkpoint = tmp_path / "kafka"
    for folder in ("offsets", "commits", "state/0/0", "sources/0"):
        (checkpoint / folder).mkdir(parents=True)
    (checkpoint / "metadata").write_text('{"id":"c4a760a8"}')
    (checkpoint / "offsets" / "0").write_text(f'v1\n{METADATA}\n{{"orders":{{"1":4,"0":7}}}}')
    (checkpoint / "offsets" / "1").write_text(f'v1\n{METADATA}\n{{"orders":{{"1":9,"0":7}}}}')
    (checkpoint / "offsets" / ".1.crc").write_bytes(b"crc\0")
    (checkpoint / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')
    (checkpoint / "state" / "0" / "0" / "1.delta").write_bytes(b"state")
    (checkpoint / "sources" / "0" / "0").write_bytes(b'\0v1\n{"orders":{"1":2,"0":0}}')
    return checkpoint


def offsets_of(checkpoint: Path, batch: int) -> dict[str, object]:
    version, metadata, line = (checkpoint / "offsets" / str(batch)).read_text().splitlines()
    assert (version, metadata) == ("v1", METADATA)
    document: dict[str, object] = json.loads(line)
    return document


def test_offsets_are_translated_and_all_else_is_copied(kafka: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in kafka.rglob("*") if path.is_file()}
    moved = tmp_path / "kraft"
    assert move_checkpoint(kafka, moved) == 2
    assert offsets_of(moved, 1) == {"version": 1, "topics": {"orders": {"0": 7, "1": 9}}}
    assert (moved / "state" / "0" / "0" / "1.delta").read_bytes() == b"state"
    assert (moved / "commits" / "0").exists()
    assert not (moved / "offsets" / ".1.crc").exists(), "it is the checksum of the former content"
    assert {path: path.read_bytes() for path in kafka.rglob("*") if path.is_file()} == before


def test_the_first_micro_batch_can_be_repeated_from_where_it_began(kafka: Path, tmp_path: Path) -> None:
    move_checkpoint(kafka, tmp_path / "kraft")
    end = offsets_of(tmp_path / "kraft", 0)
    latest_by_now = {"version": 1, "topics": {"orders": {"0": 50, "1": 50}}}
    assert beginning_of_batch(latest_by_now, end) == {P0: 0, P1: 2}


def test_sources_of_other_kinds_keep_their_offsets(kafka: Path, tmp_path: Path) -> None:
    for batch in "01":
        path = kafka / "offsets" / batch
        path.write_text(f'{path.read_text()}\n{{"logOffset":3}}\n-')
    move_checkpoint(kafka, tmp_path / "kraft")
    assert (tmp_path / "kraft" / "offsets" / "1").read_text().splitlines()[3:] == ['{"logOffset":3}', "-"]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("v2\n{}\n{}", "has version 'v2'"),
        (f'v1\n{METADATA}\n{{"logOffset":3}}', "has no offsets of Spark's Kafka source"),
    ],
)
def test_what_cannot_be_moved_is_refused_and_nothing_is_written(
    kafka: Path, tmp_path: Path, content: str, line: str
) -> None:
    (kafka / "offsets" / "1").write_text(content)
    with pytest.raises(CheckpointError, match=line):
        move_checkpoint(kafka, tmp_path / "kraft")
    assert [path.name for path in tmp_path.iterdir()] == ["kafka"]


def test_a_directory_that_exists_or_is_no_checkpoint_is_refused(kafka: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="exists"):
        move_checkpoint(kafka, tmp_path)
    with pytest.raises(CheckpointError, match="has no offsets"):
        move_checkpoint(tmp_path / "absent", tmp_path / "kraft")


def test_the_command_says_what_it_did(kafka: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    moved = str(tmp_path / "kraft")
    assert main([str(kafka), moved]) == 0
    assert capsys.readouterr().out == f"{moved}: offsets of 2 micro-batches translated\n"
    assert main([str(kafka), moved]) == 1
    assert main([]) == 2
    assert capsys.readouterr().err.startswith(f"kafka_checkpoint: {moved} exists")
