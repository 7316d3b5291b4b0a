from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from kraft.cli.topics.record_offsets import read_offsets
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
