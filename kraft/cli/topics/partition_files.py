"""JSON files of Kafka's tools that name partitions and topics, and target replicas.

{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "any"]}]}
{"version": 1, "topics": [{"topic": "orders"}]}
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import typer

from kraft.cli.options import json_file
from kraft.model.ids import TopicPartition, TopicPartitionReplica
from kraft.moves.assignments import Assignment

_VERSION = 1
_ANY_DIRECTORY = "any"
"""The broker chooses the log directory of a new replica, and leaves another where it is."""

Content = TypeVar("Content")


def read_partitions(path: Path, option: str) -> list[TopicPartition]:
    """Return the partitions that an election file names. Raises BadParameter."""
    return _read(path, option, lambda content: [_partition(entry) for entry in _entries(content, "partitions")])


def read_topics(path: Path, option: str) -> list[str]:
    """Return the topics to move. Raises BadParameter."""
    return _read(path, option, lambda content: [_topic(entry) for entry in _entries(content, "topics")])


def read_assignment(path: Path, option: str) -> dict[TopicPartition, list[int]]:
    """Return the target replicas by partition. Raises BadParameter."""
    found = _read(
        path,
        option,
        lambda content: [(_partition(entry), _replicas(entry)) for entry in _entries(content, "partitions")],
    )
    return dict(found)


def read_directories(path: Path, option: str) -> dict[TopicPartitionReplica, str]:
    """Return the log directories that the file of an assignment names, by replica. Raises BadParameter."""
    found = _read(
        path,
        option,
        lambda content: [(_partition(entry), _log_dirs(entry)) for entry in _entries(content, "partitions")],
    )
    return {
        TopicPartitionReplica(partition.topic, partition.partition, broker): directory
        for partition, directories in found
        for broker, directory in directories.items()
    }


def assignment_text(assignment: Assignment) -> str:
    """Return the assignment in one line, as Kafka's tool writes and reads it."""
    return json.dumps(as_assignment(assignment), separators=(",", ":"))


def as_assignment(assignment: Assignment) -> dict[str, Any]:
    return {
        "version": _VERSION,
        "partitions": [
            {
                "topic": each.topic,
                "partition": each.partition,
                "replicas": list(assignment[each]),
                "log_dirs": [_ANY_DIRECTORY] * len(assignment[each]),
            }
            for each in sorted(assignment)
        ],
    }


def _read(path: Path, option: str, take: Callable[[object], list[Content]]) -> list[Content]:
    content = json_file(path, option)
    try:
        found = take(content)
        _check_named_once(found)
    except ValueError as error:
        raise typer.BadParameter(f"{path}: {error}", param_hint=option) from None
    return found


def _check_named_once(found: Sequence[object]) -> None:
    names = Counter(each[0] if isinstance(each, tuple) else each for each in found)
    for name, times in names.items():
        if times > 1:
            raise ValueError(f"names {name} {times} times")


def _entries(content: object, what: str) -> list[object]:
    entries = content.get(what) if isinstance(content, dict) else None
    if not isinstance(content, dict) or not isinstance(entries, list):
        raise ValueError(f'expected {{"version": {_VERSION}, "{what}": [...]}}')
    if content.get("version", _VERSION) != _VERSION:
        raise ValueError(f"version {content['version']} is not supported: expected {_VERSION}")
    if not entries:
        raise ValueError(f"names no {what}")
    return entries


def _topic(entry: object) -> str:
    topic = entry.get("topic") if isinstance(entry, dict) else None
    if not isinstance(topic, str):
        raise ValueError(f'{_shown(entry)} is not {{"topic": text}}')
    return topic


def _partition(entry: object) -> TopicPartition:
    partition = entry.get("partition") if isinstance(entry, dict) else None
    if type(partition) is not int:
        raise ValueError(f'{_shown(entry)} is not {{"topic": text, "partition": number}}')
    return TopicPartition(_topic(entry), partition)


def _replicas(entry: object) -> list[int]:
    assert isinstance(entry, dict), "its partition was read before"
    replicas = entry.get("replicas")
    if not isinstance(replicas, list) or any(type(replica) is not int for replica in replicas):
        raise ValueError(f'{_shown(entry)} has no "replicas": [number, ...]')
    if not replicas or len(set(replicas)) < len(replicas):
        raise ValueError(f"{_shown(entry)}: expected at least one broker, and none twice")
    _log_dirs(entry)
    return replicas


def _log_dirs(entry: object) -> dict[int, str]:
    """Return the directory of each replica for which one is chosen, by broker."""
    assert isinstance(entry, dict), "its partition was read before"
    replicas, log_dirs = entry["replicas"], entry.get("log_dirs")
    if log_dirs is None:
        return {}
    if not isinstance(log_dirs, list) or len(log_dirs) != len(replicas):
        raise ValueError(f'{_shown(entry)}: expected one of "log_dirs" for each replica')
    if any(not isinstance(directory, str) or not directory for directory in log_dirs):
        raise ValueError(f'{_shown(entry)}: expected a path or "any" in "log_dirs"')
    return {
        broker: directory for broker, directory in zip(replicas, log_dirs, strict=True) if directory != _ANY_DIRECTORY
    }


def _shown(entry: object) -> str:
    return json.dumps(entry)[:100]
