from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from kraft.cli.options import Output
from kraft.cli.topics.record_offsets import read_offsets, show_deleted
from kraft.model.errors import ErrorCode, KraftError, Refusal
from kraft.model.ids import TopicPartition


def written(directory: Path, text: str) -> Path:
    path = directory / "offsets.json"
    path.write_text(text)
    return path


def test_kafkas_own_file_is_read(tmp_path: Path) -> None:
    entries = [{"topic": "a", "partition": 0, "offset": 3}, {"topic": "b", "partition": 2, "offset": -1}]
    path = written(tmp_path, json.dumps({"version": 1, "partitions": entries}))
    assert read_offsets(path) == {TopicPartition("a", 0): 3, TopicPartition("b", 2): -1}
    assert read_offsets(written(tmp_path, json.dumps({"partitions": entries[:1]}))) == {TopicPartition("a", 0): 3}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "is not JSON"),
        ("[]", 'expected {"version": 1'),
        ('{"partitions": []}', "names no partition"),
        ('{"version": 2, "partitions": []}', "version 2 is not supported: expected 1"),
        ('{"partitions": [7]}', "7 is not {"),
        ('{"partitions": [{"topic": "a", "partition": 0}]}', "is not {"),
        ('{"partitions": [{"topic": "a", "partition": true, "offset": 0}]}', "is not {"),
        (json.dumps({"partitions": [{"topic": "a", "partition": 0, "offset": 0}] * 2}), "names a-0 twice"),
    ],
)
def test_any_other_file_is_one_line_that_says_what_is_wrong(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(typer.BadParameter) as caught:
        read_offsets(written(tmp_path, text))
    assert reason in caught.value.message
    assert "offsets.json" in caught.value.message


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match=r"nothing\.json cannot be read"):
        read_offsets(tmp_path / "nothing.json")


def test_what_was_deleted_is_shown_beside_each_partition_that_failed(capsys: pytest.CaptureFixture[str]) -> None:
    named = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "y-0: topic 'y' does not exist")
    outcomes: dict[TopicPartition, int | KraftError] = {
        TopicPartition("y", 0): named,
        TopicPartition("x", 0): 7,
        TopicPartition("z", 1): KraftError("gone"),
    }
    for output, shown in (
        (Output.TABLE, "partition: x-0\tlow_watermark: 7\n"),
        (Output.JSON, '"low_watermark": 7'),
    ):
        with pytest.raises(KraftError, match="gone"):
            show_deleted({TopicPartition("w", 2): KraftError("away"), **outcomes}, output)
        told = capsys.readouterr()
        assert shown in told.out
        assert told.err.splitlines() == ["kraft: w-2: away", f"kraft: {named}"]
