"""JSON file of the offsets before which records are deleted, in the format of kafka-delete-records.

{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "offset": 1500}]}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import typer

from kraft.cli.options import Output, json_file
from kraft.cli.printing import print_json, say
from kraft.model.errors import KraftError
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


def show_deleted(outcomes: Mapping[TopicPartition, int | KraftError], output: Output) -> None:
    """Print the low watermark of each partition, and the errors of the others, the last of which is raised."""
    kept = [(each, outcome) for each, outcome in outcomes.items() if not isinstance(outcome, KraftError)]
    failed = [(each, outcome) for each, outcome in outcomes.items() if isinstance(outcome, KraftError)]
    if output is Output.JSON and kept:
        print_json(
            [{"topic": each.topic, "partition": each.partition, "low_watermark": offset} for each, offset in kept]
        )
    elif output is not Output.JSON:
        for each, offset in kept:
            print(f"partition: {each}\tlow_watermark: {offset}")
    for each, error in failed[:-1]:
        say(f"kraft: {error}" if str(each) in str(error) else f"kraft: {each}: {error}")
    for _, error in failed[-1:]:
        raise error


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
