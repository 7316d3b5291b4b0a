"""Random messages of any kind and version, with any values that a Kafka client could send."""

from __future__ import annotations

import string
from collections.abc import Iterator
from random import Random
from typing import Any, Final, TypeVar
from uuid import UUID

from kraft.wire.api_keys import ApiKey, request_type, response_type
from kraft.wire.declaration import ZERO_UUID, ArrayOf, Field, Fixed, Form, Identifier, Message, Sized, Struct
from kraft.wire.schema.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription

S = TypeVar("S", bound=Struct)

ARRAY_ITEMS_MAX: Final = 4
_BITS: Final = {"b": 8, "h": 16, "i": 32, "q": 64}
_TEXT: Final = string.ascii_letters + string.digits + "._- äß€😀"
# kio converts these to dates: years have four digits, and fractions of a second are floats.
_SECONDS_MAX: Final = 200_000_000_000
_KNOWN_ERROR_CODES: Final = range(-1, 90)


def message_versions() -> Iterator[tuple[type[Message], int]]:
    """Every message in every version: requests, responses, and what consumers embed in them."""
    messages: list[type[Message]] = [ConsumerProtocolSubscription, ConsumerProtocolAssignment]
    for api_key in ApiKey:
        messages += [request_type(api_key), response_type(api_key)]
    for message in messages:
        for version in message.versions:
            yield message, version


def random_message(kind: type[S], version: int, chance: Random) -> S:
    """Fields that the version does not have keep their defaults; so does every second tagged one."""
    values = {}
    for field in kind.fields:
        is_left_out = field.tag is not None and chance.random() < 0.5
        if version in field.versions and not is_left_out:
            values[field.name] = _random_field(field, version, chance)
    return kind(**values)


def _random_field(field: Field, version: int, chance: Random) -> Any:
    if version in field.nullable and chance.random() < 0.25:
        return None
    return _random_value(field.form, field.name, version, chance)


def _random_value(form: Form, name: str, version: int, chance: Random) -> Any:
    match form:
        case Fixed("?"):
            return chance.random() < 0.5
        case Fixed("d"):
            return chance.choice((0.0, 1.5, -1e300, chance.random()))
        case Fixed("H"):
            return chance.randrange(1 << 16)
        case Fixed(code):
            return _random_number(_BITS[code], name, chance)
        case Identifier():
            return chance.choice((ZERO_UUID, UUID(int=chance.getrandbits(128))))
        case Sized.STRING:
            return "".join(chance.choices(_TEXT, k=chance.choice((0, 1, 9, 40, 126, 127, 128, 300))))
        case Sized():
            return chance.randbytes(chance.choice((0, 1, 40, 126, 127, 128, 20_000)))
        case ArrayOf(element):
            count = chance.randrange(ARRAY_ITEMS_MAX + 1)
            return tuple(_random_value(element, name, version, chance) for _ in range(count))
        case _:
            return random_message(form, version, chance)


def _random_number(bits: int, name: str, chance: Random) -> int:
    if name.endswith("error_code"):
        return chance.choice(_KNOWN_ERROR_CODES)
    if bits == 64 and ("time" in name or name.endswith("_ms")):
        return chance.randrange(_SECONDS_MAX) * 1000
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    return chance.choice((-1, 0, 1, low, high, chance.randint(low, high)))
