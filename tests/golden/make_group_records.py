"""`python -m tests.golden.make_group_records`: has Kafka encode the golden records of `__consumer_offsets` again."""

from __future__ import annotations

import json
import subprocess
from base64 import b64encode, urlsafe_b64encode
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import typer

from kraft.wire.declaration import Struct
from tests.golden.group_records import GROUP_IDS, RECORDS, Golden
from tests.support.kafka.kafka_jars import kafka_jars

FOLDER: Final = Path(__file__).parent / "group_records"
_PROGRAM: Final = Path(__file__).with_name("GroupRecords.java")
PARTITIONS: Final = 50
_DEADLINE_S: Final = 120.0


def main() -> None:
    """Have Kafka encode the golden records of __consumer_offsets again, in place."""
    inputs = [json.dumps(each) for each in (*map(_as_json, RECORDS), *GROUP_IDS)]
    finished = subprocess.run(
        ["java", "-cp", f"{kafka_jars()}/*", str(_PROGRAM), str(PARTITIONS)],
        input="\n".join(inputs),
        stdout=subprocess.PIPE,
        text=True,
        timeout=_DEADLINE_S,
        check=True,
    )
    lines = finished.stdout.splitlines()
    records = zip((golden.name for golden in RECORDS), lines[: len(RECORDS)], strict=True)
    groups = zip(map(json.dumps, GROUP_IDS), lines[len(RECORDS) :], strict=True)
    write_lines(FOLDER / "records.txt", [f"{name} {encoded}" for name, encoded in records])
    write_lines(FOLDER / "partitions.txt", [f"{partition} {group}" for group, partition in groups])


def _as_json(golden: Golden) -> dict[str, Any]:
    """Return the record in the JSON of Kafka's own converters."""
    key, value = golden.record.key, golden.record.value
    return {
        "type": type(key).message_key if golden.type is None else golden.type,
        "version": golden.version,
        "key": json_value(key, 0),
        "value": None if value is None else json_value(value, golden.version),
    }


def json_value(value: object, version: int) -> Any:
    """Return a message, or a part of one, in the JSON of Kafka's converters."""
    match value:
        case Struct():
            return {
                _kafka_name(field.name): json_value(getattr(value, field.name), version)
                for field in type(value).fields
                if version in field.versions
            }
        case tuple():
            return [json_value(each, version) for each in value]
        case UUID():
            return urlsafe_b64encode(value.bytes).decode().rstrip("=")
        case bytes():
            return b64encode(value).decode()
        case _:
            return value


def _kafka_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def write_lines(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))
    print(f"{path.name}: {len(lines)} lines")


if __name__ == "__main__":
    typer.run(main)
