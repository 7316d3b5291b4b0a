"""Writes `throttle_time_ms` into a response whose client has to wait. One without such a field stays as it is."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from kraft.server.kafka_listener.requests import EncodedMessage
from kraft.server.kafka_listener.response_writer import ResponseBytes
from kraft.wire.declaration import Fixed, Message, replace
from kraft.wire.frame import RequestHeader, encode_response, frame_response
from kraft.wire.schema.produce import ProduceResponse

_FIELD: Final = "throttle_time_ms"
_BYTES: Final = 4


def throttle_ms_of(response: Message | EncodedMessage | None, version: int) -> int:
    """Return what the handler has written into it."""
    if isinstance(response, Message):
        return getattr(response, _FIELD, 0)
    if response is None or response.kind is ProduceResponse:
        return 0
    at = _position(response.kind, version)
    return 0 if at is None else int.from_bytes(response.body[at : at + _BYTES], "big")


def encode_throttled(response: Message | EncodedMessage, header: RequestHeader, wait_ms: int) -> ResponseBytes:
    """Encode the response with the wait, if its version says it."""
    version = header.api_version
    if isinstance(response, Message):
        told = replace(response, throttle_time_ms=wait_ms) if _is_told(type(response), version) else response
        return encode_response(told, version, header.correlation_id)
    encoded = frame_response(response.kind, version, header.correlation_id, response.body, response.rest)
    if (at := _position(response.kind, version)) is None:
        return encoded
    body_bytes = len(response.body) + sum(map(len, response.rest))
    # The body may be that of other clients, too, and large.
    begin = sum(map(len, encoded)) - body_bytes + (at if at >= 0 else body_bytes + at)
    return _patched(encoded, begin, wait_ms.to_bytes(_BYTES, "big"))


def _patched(pieces: ResponseBytes, begin: int, field: bytes) -> ResponseBytes:
    out: ResponseBytes = []
    for piece in pieces:
        if 0 <= begin < len(piece):
            whole = memoryview(piece)
            out += [bytes(whole[:begin]) + field, whole[begin + len(field) :]]
        else:
            out.append(piece)
        begin -= len(piece)
    return out


def _is_told(kind: type[Message], version: int) -> bool:
    return any(field.name == _FIELD and version in field.versions for field in kind.fields)


@lru_cache
def _position(kind: type[Message], version: int) -> int | None:
    """Return where the field begins in an encoded body, below 0 counted from its end.

    None: the version does not have it, or it has no fixed place.
    """
    if not _is_told(kind, version):
        return None
    if kind is ProduceResponse:
        # It is the last field: addresses of leaders are only in responses that are not encoded before.
        return -_BYTES - (1 if version in kind.flexible else 0)
    position = 0
    for field in kind.fields:
        if field.name == _FIELD:
            return position
        if version not in field.versions:
            continue
        if not isinstance(field.form, Fixed):
            return None
        position += field.form.size
    return None
