"""JSON file of the offsets before which records are deleted, in the format of kafka-delete-records.

{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "offset": 1500}]}
"""

from __future__ import annotations

import json
from pathlib import Path

import typer

from kraft.cli.options import json_file
from kraft.model.ids import TopicPartition

_OPTION = "--offset-json-file"
_VERSION = 1


def read_offsets(path: Path) -> dict[TopicPartition, int]:
    """Return the first offset to keep, by partition. Raises BadParameter, which names the file and the fault."""
    content = json_file(path, _OPTION)
    try:
        return _offsets(content)
    except ValueError as error:
        raise typer.BadParameter(f"{path}: {error}", param_hint=_OPTION) from None


def _offsets(content: object) -> dict[TopicPartition, int]:
    if not isinstance(content, dict) or not isinstance(content.get("partitions"), list):
        raise ValueError('expected {"version": 1, "partitions": [...]}')
    if content.get("version", _VERSION) != _VERSION:
        raise ValueError(f"version {content['version']} is not supported: expected {_VERSION}")
    found: dict[TopicPartition, int] = {}
    for entry in content["partitions"]:
        partition, offset = _entry(entry)
        if partition in found:
            raise ValueError(f"names {partition} twice")
        found[partition] = offset
    if not found:
        raise ValueError("names no partition")
    return found


def _entry(entry: object) -> tuple[TopicPartition, int]:
    if isinstance(entry, dict):
        topic, partition, offset = (entry.get(name) for name in ("topic", "partition", "offset"))
        if isinstance(topic, str) and type(partition) is int and type(offset) is int:
            return TopicPartition(topic, partition), offset
    raise ValueError(f'{json.dumps(entry)[:100]} is not {{"topic": text, "partition": number, "offset": number}}')
