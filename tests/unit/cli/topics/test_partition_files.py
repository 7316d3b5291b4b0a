from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from kraft.cli.topics.partition_files import (
    assignment_text,
    read_assignment,
    read_directories,
    read_partitions,
    read_topics,
)
from kraft.model.ids import TopicPartition, TopicPartitionReplica

ASSIGNMENT = {TopicPartition("b", 0): [2, 1], TopicPartition("a", 10): [3], TopicPartition("a", 2): [1]}


def written(directory: Path, text: str) -> Path:
    path = directory / "file.json"
    path.write_text(text, encoding="utf-8")
    return path


def test_what_is_written_is_read_back_sorted(tmp_path: Path) -> None:
    found = read_assignment(written(tmp_path, assignment_text(ASSIGNMENT)), "--x")
    assert found == ASSIGNMENT
    assert list(found) == sorted(ASSIGNMENT)


def test_kafkas_files_are_read(tmp_path: Path) -> None:
    moves = '{"version":1,"partitions":[{"topic":"foo1","partition":0,"replicas":[5,6]}]}'
    assert read_assignment(written(tmp_path, moves), "--x") == {TopicPartition("foo1", 0): [5, 6]}
    assert read_topics(written(tmp_path, '{"topics": [{"topic": "foo1"},{"topic": "foo2"}],"version":1}'), "--x") == [
        "foo1",
        "foo2",
    ]
    elections = '{"partitions": [{"topic": "foo", "partition": 1}, {"topic": "bar", "partition": 2}]}'
    assert read_partitions(written(tmp_path, elections), "--x") == [TopicPartition("foo", 1), TopicPartition("bar", 2)]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is not JSON"),
        ("[]", 'expected {"version": 1, "partitions": [...]}'),
        ('{"partitions": []}', "names no partitions"),
        ('{"version": 2, "partitions": [{}]}', "version 2 is not supported"),
        ('{"partitions": [7]}', "is not"),
        ('{"partitions": [{"topic": 7, "partition": 0, "replicas": [1]}]}', '7, "partition": 0'),
        ('{"partitions": [{"topic": "a", "partition": true, "replicas": [1]}]}', '"partition": number'),
        ('{"partitions": [{"topic": "a", "partition": 0}]}', 'has no "replicas"'),
        ('{"partitions": [{"topic": "a", "partition": 0, "replicas": ["1"]}]}', 'has no "replicas"'),
        ('{"partitions": [{"topic": "a", "partition": 0, "replicas": []}]}', "at least one broker"),
        ('{"partitions": [{"topic": "a", "partition": 0, "replicas": [1, 1]}]}', "none twice"),
        (
            '{"partitions": [{"topic": "a", "partition": 0, "replicas": [1], "log_dirs": []}]}',
            'one of "log_dirs" for each replica',
        ),
        (
            '{"partitions": [{"topic": "a", "partition": 0, "replicas": [1], "log_dirs": [7]}]}',
            'a path or "any" in "log_dirs"',
        ),
    ],
)
def test_a_file_that_is_wrong_is_named_with_what_is_wrong(tmp_path: Path, content: str, words: str) -> None:
    path = written(tmp_path, content)
    with pytest.raises(typer.BadParameter) as refused:
        read_assignment(path, "--x")
    assert words in refused.value.message
    assert str(path) in refused.value.message


def test_a_partition_named_twice_is_refused(tmp_path: Path) -> None:
    entry = {"topic": "a", "partition": 0, "replicas": [1]}
    path = written(tmp_path, json.dumps({"partitions": [entry, entry]}))
    for read in (read_assignment, read_partitions):
        with pytest.raises(typer.BadParameter, match="names a-0 2 times"):
            read(path, "--x")


def test_log_directories_are_those_that_are_chosen(tmp_path: Path) -> None:
    entry = {"topic": "a", "partition": 0, "replicas": [1, 2], "log_dirs": ["/data", "any"]}
    path = written(tmp_path, json.dumps({"partitions": [entry, {"topic": "b", "partition": 3, "replicas": [1]}]}))
    assert read_directories(path, "--x") == {TopicPartitionReplica("a", 0, 1): "/data"}
    assert list(read_assignment(path, "--x")) == [TopicPartition("a", 0), TopicPartition("b", 3)]
