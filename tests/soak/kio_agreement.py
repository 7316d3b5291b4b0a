"""`python -m tests.soak.kio_agreement`: compares Kraft's codec with kio's, in both directions.

kio is generated from Kafka's own message definitions. For a random message, kio must read each field from our bytes;
kio must write the same bytes again; and we must read the message back from them.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import cycle, islice
from random import Random
from typing import Any, Final
from uuid import UUID

from kio.index import load_entity_schema, load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from kraft.wire.codec import decode, encode
from kraft.wire.declaration import ZERO_UUID, Field, Message, Struct
from tests.support.random_messages import message_versions, random_message

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Disagreement(AssertionError):
    """kio and Kraft differ."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.kio_agreement", description=__doc__)
    parser.add_argument("--messages", type=int, default=10_000, help="how many, over all versions in turn (10,000)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    counted: Counter[tuple[str, int]] = Counter()
    disagreements = []
    for message, version, seed in islice(turns(options.seed), options.messages):
        counted[message.__name__, version] += 1
        try:
            check(message, version, seed)
        except Disagreement as disagreement:
            disagreements.append(f"{message.__name__} version {version}, seed {seed}: {disagreement}")
    print("\n".join(disagreements[:20]))
    names = {name for name, _ in counted}
    print(
        f"seed {options.seed}: {counted.total():,} random messages of {len(names)} kinds in {len(counted)} versions, "
        f"{counted.total() - len(disagreements):,} on which kio agrees"
    )
    return 1 if disagreements else 0


def turns(seed: int) -> Iterator[tuple[type[Message], int, int]]:
    """Yield every message and version in turn, endlessly, each time with a seed of its own."""
    for number, (message, version) in enumerate(cycle(message_versions())):
        yield message, version, seed * 1_000_000 + number


def check(message: type[Message], version: int, seed: int) -> None:
    """Compare one message. Raises Disagreement."""
    ours = random_message(message, version, Random(seed))
    data = b"".join(encode(ours, version))
    kind = kio_type(message, version)
    theirs, size = entity_reader(kind)(data, 0)
    if size != len(data):
        raise Disagreement(f"kio reads {size} of {len(data)} bytes")
    compare(ours, theirs, version)
    written = io.BytesIO()
    entity_writer(kind)(written, theirs)
    if written.getvalue() != data:
        raise Disagreement(f"kio writes {written.getvalue().hex()} for {data.hex()}")
    if decode(message, version, data) != ours:
        raise Disagreement("the message that we read differs from the one that we wrote")


@cache
def kio_type(message: type[Message], version: int) -> Any:
    if message.message_key == -1:
        return load_entity_schema(re.sub(r"(?<!^)(?=[A-Z])", "_", message.__name__).lower(), version, EntityType.data)
    load = load_request_schema if message.__name__.endswith("Request") else load_response_schema
    return load(message.message_key, version)


def compare(ours: Struct, theirs: Any, version: int) -> None:
    """Compare field by field, in the order of declaration, which is the order on the wire."""
    declared = [field for field in type(ours).fields if version in field.versions]
    if [_bare(field.name) for field in declared] != [_bare(field.name) for field in fields(theirs)]:
        raise Disagreement(f"{type(ours).__name__}: {declared} against {fields(theirs)}")
    for field, their_field in zip(declared, fields(theirs), strict=True):
        value, their_value = getattr(ours, field.name), getattr(theirs, their_field.name)
        if value != 0 and not value and not their_value:
            # Empty arrays or strings, or null on both sides; kio may have an absent struct for null.
            if (value is None) != (their_value is None):
                raise Disagreement(f"{type(ours).__name__}.{field.name}: {value!r} against {their_value!r}")
            continue
        _compare_values(f"{type(ours).__name__}.{field.name}", field, value, their_value, version)


def _compare_values(name: str, field: Field, value: Any, their_value: Any, version: int) -> None:
    if isinstance(value, tuple):
        if len(value) != len(their_value):
            raise Disagreement(f"{name}: {len(value)} items against {len(their_value)}")
        for item, their_item in zip(value, their_value, strict=True):
            _compare_values(name, field, item, their_item, version)
    elif isinstance(value, Struct):
        compare(value, their_value, version)
    elif value != _plain(their_value, value):
        raise Disagreement(f"{name}: {value!r} against {their_value!r}")


def _plain(theirs: Any, ours: Any) -> Any:
    """Convert a value of kio to our number or id."""
    match theirs:
        case timedelta():
            return theirs // timedelta(milliseconds=1)
        case datetime():
            return (theirs - _EPOCH) // timedelta(milliseconds=1)
        case None if isinstance(ours, UUID):
            return ZERO_UUID
        case None if isinstance(ours, int):
            return -1
        case _:
            return theirs


def _bare(name: str) -> str:
    # kio's names of durations and dates have no unit, and separate words differently.
    return re.sub(r"_ms$|_", "", name)


if __name__ == "__main__":
    sys.exit(main())
