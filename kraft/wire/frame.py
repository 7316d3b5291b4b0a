"""Frames of requests and responses: four bytes of size, a header, the message.

A frame here is what the size counts: header and message. The listener, which has the buffers, splits received bytes
into frames. Source: protocol guide, "Common Request and Response Structure"; KIP-482 for headers with tagged fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct, error, pack_into
from typing import Final, NamedTuple, TypeVar

from kraft.model.errors import not_unicode
from kraft.wire.api_keys import ApiKey, request_type
from kraft.wire.codec import ELEMENTS_MAX, decode, encode
from kraft.wire.declaration import Buffer, Message
from kraft.wire.decoder import skip_tagged_fields
from kraft.wire.errors import ends_early, wrong_length

M = TypeVar("M", bound=Message)

SIZE_BYTES: Final = 4
"""Bytes of the size before each frame."""

_REQUEST_HEAD: Final = Struct(">hhih")
"""API key, version, correlation id, length of the client id."""

_RESPONSE_HEAD: Final = Struct(">ii")
"""Size of the frame, correlation id."""

_TAGGED_RESPONSE_HEAD: Final = Struct(">iib")
"""The same, and no tagged fields."""

_JOINED_BYTES_MAX: Final = 1_024
"""A body up to this size is copied behind its head: two buffers would cost more."""

_KINDS_MAX: Final = 1_024
"""Pairs of a message and a version that are remembered; a client may name any."""

_REQUEST: Final = "request header"

_new_tuple: Final = tuple.__new__
"""Makes a named tuple of as many values as it has fields at half the cost."""

_NO_TAGGED_FIELDS: Final = b"\0"


class RequestHeader(NamedTuple):
    """Request header, version 1 or 2. Key and version may be unknown ones; the listener checks them."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def decode_request_header(frame: Buffer, elements_max: int = ELEMENTS_MAX) -> tuple[RequestHeader, int]:
    """Return the header, and the position in `frame` where the message begins. Raises ProtocolError.

    `elements_max` limits the tagged fields of the header.
    """
    data = memoryview(frame)
    try:
        api_key, api_version, correlation_id, length = _REQUEST_HEAD.unpack_from(data)
    except error:
        raise ends_early(_REQUEST, 0) from None
    position = _REQUEST_HEAD.size
    client_id = None
    if length >= 0:
        # The length has two bytes in header 2 as well, so the header can be read before its version is known.
        if length > len(data) - position:
            raise wrong_length(_REQUEST, length, position, len(data))
        # The client id is only for logs and quotas, so one that is not UTF-8 is no reason to refuse the client.
        client_id = str(data[position : position + length], "utf-8", "replace")
        position += length
    if _has_tagged_fields(api_key, api_version):
        try:
            if data[position]:
                position, _ = skip_tagged_fields(_REQUEST, data, position, elements_max)
            else:
                position += 1
        except IndexError:
            raise ends_early(_REQUEST, position) from None
    return _new_tuple(RequestHeader, (api_key, api_version, correlation_id, client_id)), position


def encode_response(response: Message, version: int, correlation_id: int) -> list[Buffer]:
    """Return size, header and message as buffers to write one after the other. Records are not copied."""
    head = _response_head(type(response), version, correlation_id)
    return _sized(encode(response, version, head), head)


def frame_response(
    kind: type[Message], version: int, correlation_id: int, body: Buffer, rest: Sequence[Buffer] = ()
) -> list[Buffer]:
    """Return the same for a message of that type that is already encoded, as one buffer or with a `rest` of others."""
    size = len(body) + sum(map(len, rest))
    if _response_has_tagged_fields(kind, version):
        head = _TAGGED_RESPONSE_HEAD.pack(_TAGGED_RESPONSE_HEAD.size - SIZE_BYTES + size, correlation_id, 0)
    else:
        head = _RESPONSE_HEAD.pack(_RESPONSE_HEAD.size - SIZE_BYTES + size, correlation_id)
    return [head + body] if size <= _JOINED_BYTES_MAX and not rest else [head, body, *rest]


def _response_head(kind: type[Message], version: int, correlation_id: int) -> bytearray:
    head = bytearray(_RESPONSE_HEAD.pack(0, correlation_id))
    if _response_has_tagged_fields(kind, version):
        head += _NO_TAGGED_FIELDS
    return head


# --- the client's side -------------------------------------------------------------------------------------------


def encode_request(request: Message, version: int, correlation_id: int, client_id: str | None) -> list[Buffer]:
    """Return size, header and message as buffers to write one after the other. Records are not copied.

    Raises a Refusal if a text has no UTF-8.
    """
    try:
        return _encoded_request(request, version, correlation_id, client_id)
    except UnicodeEncodeError as error:
        raise not_unicode(error) from None


def _encoded_request(request: Message, version: int, correlation_id: int, client_id: str | None) -> list[Buffer]:
    name = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(name)
    head = bytearray(SIZE_BYTES)
    head += _REQUEST_HEAD.pack(type(request).message_key, version, correlation_id, length)
    head += name
    if version in type(request).flexible:
        head += _NO_TAGGED_FIELDS
    return _sized(encode(request, version, head), head)


def decode_response(response: type[M], version: int, frame: Buffer) -> tuple[int, M]:
    """Return the correlation id and the message. Raises ProtocolError."""
    data = memoryview(frame)
    if len(data) < 4:
        raise ends_early("response header", 0)
    position = 4
    if _response_has_tagged_fields(response, version):
        try:
            position, _ = skip_tagged_fields("response header", data, position, ELEMENTS_MAX)
        except IndexError:
            raise ends_early("response header", position) from None
    return int.from_bytes(data[:4], "big", signed=True), decode(response, version, data, position)


# --- pieces ------------------------------------------------------------------------------------------------------


@lru_cache(_KINDS_MAX)
def _has_tagged_fields(api_key: int, api_version: int) -> bool:
    """Return whether a request has header 2. Unknown for an unknown version, whose message is not read anyway."""
    try:
        request = request_type(api_key)
    except KeyError:
        return False
    return api_version in request.versions and api_version in request.flexible


@lru_cache(_KINDS_MAX)
def _response_has_tagged_fields(response: type[Message], version: int) -> bool:
    # A client reads the ApiVersions response before it knows the broker's versions, so it always has header 0.
    return version in response.flexible and response.message_key != ApiKey.API_VERSIONS


def _sized(buffers: list[Buffer], head: bytearray) -> list[Buffer]:
    """Return the buffers, after writing their total size into the first bytes of `head`."""
    pack_into(">i", head, 0, sum(map(len, buffers)) - SIZE_BYTES)
    return buffers
