"""CSV files of offsets that `kraft groups reset-offsets` exports and reads, in the format of kafka-consumer-groups.

A line is `topic,partition,offset`, or `group,topic,partition,offset` if there are several groups.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import typer

from kraft.model.ids import TopicPartition

GroupOffsets = Mapping[str, Mapping[TopicPartition, int]]
"""Offset by group and partition."""

_OPTION: Final = "--from-file"
_OFFSET_MAX: Final = (1 << 63) - 1


def read_offsets(path: Path, group_ids: Sequence[str]) -> GroupOffsets:
    """Return the offsets that the file has for these groups. Raises BadParameter, which names the file and the line."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be read: {error.strerror}", param_hint=_OPTION) from None
    except UnicodeDecodeError:
        raise typer.BadParameter(f"{path} is not a text in UTF-8", param_hint=_OPTION) from None
    try:
        found = _parsed(text, group_ids)
        if not found:
            raise ValueError("is empty")
        missing = [group_id for group_id in group_ids if group_id not in found]
        if missing:
            raise ValueError(f"names no offset of group {missing[0]!r}")
    except (ValueError, csv.Error) as error:
        raise typer.BadParameter(f"{path}: {error}", param_hint=_OPTION) from None
    return {group_id: found[group_id] for group_id in group_ids}


def offset_lines(offsets: GroupOffsets) -> str:
    """Return the content of a file that `read_offsets` reads."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for group_id, by_partition in offsets.items():
        for partition, offset in sorted(by_partition.items()):
            group = [] if len(offsets) == 1 else [group_id]
            writer.writerow([*group, partition.topic, partition.partition, offset])
    return out.getvalue()


def _parsed(text: str, group_ids: Sequence[str]) -> dict[str, dict[TopicPartition, int]]:
    found: dict[str, dict[TopicPartition, int]] = {}
    reader = csv.reader(io.StringIO(text), skipinitialspace=True, strict=True)
    for cells in reader:
        if not any(cell.strip() for cell in cells):
            continue
        line = f"line {reader.line_num}"
        match [cell.strip() for cell in cells]:
            case [topic, partition, offset]:
                if len(group_ids) != 1:
                    raise ValueError(f"{line} names no group: expected group,topic,partition,offset")
                group_id = group_ids[0]
            case [group_id, topic, partition, offset]:
                pass
            case _:
                raise ValueError(f"{line}: expected [group,]topic,partition,offset")
        name = TopicPartition(topic, _number(partition, line, "partition"))
        offsets = found.setdefault(group_id, {})
        if name in offsets:
            raise ValueError(f"{line} names {name} of group {group_id!r} again")
        offsets[name] = _number(offset, line, "offset")
    return found


def _number(text: str, line: str, what: str) -> int:
    # Texts of more digits than any number has are not converted: that takes long.
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= _OFFSET_MAX):
        raise ValueError(f"{line}: {text[:100]!r} is not a{'n' if what == 'offset' else ''} {what}")
    return int(text)
