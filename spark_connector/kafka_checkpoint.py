"""Moves a streaming query from Spark's Kafka source to this one, with its checkpoint: progress, state and batch ids.

`python -m spark_connector.kafka_checkpoint OLD NEW` copies the checkpoint OLD and translates the offsets of its Kafka
sources. Stop the query, start it with `format("kraft")` and NEW. OLD remains as it is, so that the query can go back.
Both sources have to read the same log: this cluster's topics through its Kafka listener, or copies with equal offsets.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from spark_connector.offsets import OffsetsError, from_topics

Topics = dict[str, dict[str, int]]

_KRAFT_VERSION: Final = 1
"""Version of our offsets that has no topic ids, which Spark's Kafka source does not know either."""

_VERSION: Final = "v1"
_NO_OFFSETS: Final = "-"
"""Line of a source that had nothing yet."""


class CheckpointError(ValueError):
    """The directory is not a checkpoint that can be moved. The text is one line that says why."""


def move_checkpoint(kafka: Path, kraft: Path) -> int:
    """Copy the checkpoint in the directory `kafka` to `kraft`, which must not exist, for the source `kraft`.

    Returns the number of micro-batches whose offsets were translated. A micro-batch that was planned and not completed
    is repeated with the same records. Raises CheckpointError, without a new directory.
    """
    if kraft.exists():
        raise CheckpointError(f"{kraft} exists: name a directory that does not")
    logs = sorted(_offset_logs(kafka), key=lambda path: int(path.name))
    if not logs:
        raise CheckpointError(f"{kafka} has no offsets: expected the checkpoint directory of a query that has run")
    initial = _initial_offsets(kafka)
    # Everything is read and checked before anything is written.
    translated = {path.name: _translated(path, initial) for path in logs}
    unfinished = kraft.with_name(f"{kraft.name}.unfinished")
    try:
        shutil.copytree(kafka, unfinished, dirs_exist_ok=True)
        for name, text in translated.items():
            (unfinished / "offsets" / name).write_text(text)
            # Hadoop's checksum of the former content; without one, it checks nothing.
            (unfinished / "offsets" / f".{name}.crc").unlink(missing_ok=True)
        unfinished.rename(kraft)
    except OSError as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise CheckpointError(f"{kafka} cannot be copied to {kraft}: {error}") from None
    return len(translated)


def _offset_logs(checkpoint: Path) -> list[Path]:
    folder = checkpoint / "offsets"
    return [path for path in folder.iterdir() if path.name.isdigit()] if folder.is_dir() else []


def _initial_offsets(checkpoint: Path) -> dict[int, Topics]:
    """Return where each Kafka source began, which Spark needs to repeat the first micro-batch."""
    found: dict[int, Topics] = {}
    folder = checkpoint / "sources"
    for path in folder.glob("*/0") if folder.is_dir() else ():
        # A byte 0 for the oldest versions of Spark, then the version of this file in a line of its own.
        lines = path.read_bytes().lstrip(b"\0").decode(errors="replace").splitlines()
        if path.parent.name.isdigit() and len(lines) == 2 and (offsets := _kafka_offsets(lines[1])) is not None:
            found[int(path.parent.name)] = offsets
    return found


def _translated(path: Path, initial: dict[int, Topics]) -> str:
    version, *rest = path.read_text().splitlines()
    if version != _VERSION or not rest:
        raise CheckpointError(
            f"{path} has version {version[:20]!r} of Spark's offset log; only {_VERSION} can be moved"
        )
    metadata, *lines = rest
    sources = [_translated_line(line, initial.get(number), path.name) for number, line in enumerate(lines)]
    if sources == lines and set(lines) - {_NO_OFFSETS}:
        raise CheckpointError(f"{path} has no offsets of Spark's Kafka source")
    return "\n".join([version, metadata, *sources])


def _translated_line(line: str, initial: Topics | None, batch: str) -> str:
    offsets = _kafka_offsets(line)
    if offsets is None:
        return line
    document: dict[str, object] = {"version": _KRAFT_VERSION, "topics": offsets}
    if batch == "0" and initial is not None:
        document["began"] = initial
    return json.dumps(document, separators=(",", ":"))


def _kafka_offsets(line: str) -> Topics | None:
    """Return the offsets of a Kafka source, `{"topic":{"0":12}}`; None for a line of another source."""
    try:
        document: Topics = json.loads(line)
        from_topics(document)
    except (ValueError, OffsetsError):
        return None
    return document


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 2:
        print("usage: python -m spark_connector.kafka_checkpoint OLD NEW", file=sys.stderr)
        return 2
    kafka, kraft = map(Path, arguments)
    try:
        count = move_checkpoint(kafka, kraft)
    except (CheckpointError, OSError, UnicodeDecodeError) as error:
        print(f"kafka_checkpoint: {error}", file=sys.stderr)
        return 1
    print(f"{kraft}: offsets of {count} micro-batches translated")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
