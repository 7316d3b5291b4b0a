"""TLS records in received bytes: where the next one ends, before OpenSSL sees it. Source: RFC 8446, section 5.1."""

from __future__ import annotations

from typing import Final

HEADER_BYTES: Final = 5
"""Content type, version, and length of what follows."""

RECORD_BYTES_MAX: Final = HEADER_BYTES + (1 << 14) + 2_048
"""The most that TLS 1.2 allows; TLS 1.3 allows less."""

_CONTENT_TYPES: Final = range(20, 25)
_MAJOR_VERSION: Final = 3


class NotTls(Exception):
    """The bytes are no TLS record. The text is one line."""


def record_end(received: memoryview, begin: int) -> int | None:
    """Return where the record that begins at `begin` ends; None if it is not complete. Raises NotTls."""
    left = len(received) - begin
    if left <= 0:
        return None
    if received[begin] not in _CONTENT_TYPES or (left > 1 and received[begin + 1] != _MAJOR_VERSION):
        raise NotTls(_other_protocol(bytes(received[begin : begin + HEADER_BYTES])))
    if left < HEADER_BYTES:
        return None
    end = begin + HEADER_BYTES + (received[begin + 3] << 8 | received[begin + 4])
    if end - begin > RECORD_BYTES_MAX:
        raise NotTls(f"a TLS record of {end - begin} bytes is longer than TLS allows")
    return end if end <= len(received) else None


def _other_protocol(start: bytes) -> str:
    if start[:2] == b"\0\0":
        # The size of a first request of Kafka's protocol.
        return "the client does not use TLS: set security.protocol=SSL, or SASL_SSL, in its configuration"
    if start[:4] in (b"GET ", b"POST", b"PRI "):
        return "the client speaks HTTP or gRPC without TLS, which this listener does not serve"
    return "it sent bytes that are no TLS record"
