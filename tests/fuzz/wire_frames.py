"""Frames of Kafka's wire protocol: requests that a broker decodes, and responses that a client decodes."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Final

from kraft.wire.api_keys import ApiKey, request_type, response_type
from kraft.wire.codec import decode, encode
from kraft.wire.declaration import Message
from kraft.wire.errors import ProtocolError
from kraft.wire.frame import SIZE_BYTES, decode_request_header, encode_request
from tests.support.random_messages import random_message

_API_KEYS: Final = tuple(ApiKey)


@cache
def request_frames() -> tuple[bytes, ...]:
    """Return a small request of every kind and version."""
    return tuple(
        b"".join(encode_request(_small(request_type(key), version), version, 7, "client"))[SIZE_BYTES:]
        for key in _API_KEYS
        for version in request_type(key).versions
    )


@cache
def responses() -> tuple[bytes, ...]:
    """The place of the key among all, the version, and then a small response of it."""
    return tuple(
        bytes([place, version]) + b"".join(encode(_small(response_type(key), version), version))
        for place, key in enumerate(_API_KEYS)
        for version in response_type(key).versions
    )


def read_request(frame: bytes) -> None:
    """Decode as a listener does: the header, then the request that it announces."""
    try:
        header, position = decode_request_header(frame)
    except ProtocolError:
        return
    # A damaged key would nearly always be unknown, and then nothing more would be read.
    key = _API_KEYS[header.api_key % len(_API_KEYS)] if header.api_key not in _API_KEYS else header.api_key
    _read(request_type(key), header.api_version, frame, position)


def read_response(data: bytes) -> None:
    if len(data) >= 2:
        _read(response_type(_API_KEYS[data[0] % len(_API_KEYS)]), data[1], data, 2)


def _read(kind: type[Message], version: int, data: bytes, position: int) -> None:
    try:
        message = decode(kind, version, data, position)
    except ProtocolError:
        return
    written = b"".join(encode(message, version))
    # Not compared as messages, because no NaN is equal to itself.
    again = b"".join(encode(decode(kind, version, written), version))
    assert again == written, "what was read is not what is read after writing it again"


def _small(kind: type[Message], version: int) -> Message:
    """One with something in its arrays, for there is most to damage."""
    candidates = [random_message(kind, version, Random(seed)) for seed in range(12)]
    sizes = {sum(map(len, encode(candidate, version))): candidate for candidate in candidates}
    return sizes[min((size for size in sizes if size > 60), default=max(sizes))]
