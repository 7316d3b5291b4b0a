"""Records that clients of Kafka write and read in the tests, with everything that a record can hold."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from typing import Final

from kraft.testing import Cluster

Headers = tuple[tuple[str, bytes | None], ...]

LARGE_BYTES: Final = 1_048_576 - 256
"""A batch with one record of this size is as large as `max.message.bytes` lets one be, but for a few bytes."""

_LARGE: Final = base64.b64encode(random.Random(7).randbytes(LARGE_BYTES // 2)).ljust(LARGE_BYTES, b".")
"""Text, for those who write lines, that no codec makes much smaller, and none larger."""

_NO_TEXT: Final = bytes(range(0x80, 0x100)) + b"\x00\n\r\t"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record, in nobody's own type. The timestamp is that of its maker."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A record with its place, as a reader was given it."""

    partition: int
    offset: int
    record: Record
    has_append_time: bool | None
    """True if the broker set the timestamp; None if the client does not show who set it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A partition of a cluster, and the addresses of its brokers: for clients of Kafka, and for our own."""

    kafka_servers: str
    grpc_servers: str
    topic: str
    partition: int

    @classmethod
    def of(cls, cluster: Cluster, topic: str) -> Place:
        """The first partition of the topic."""
        return cls(
            kafka_servers=cluster.kafka_bootstrap_servers,
            grpc_servers=cluster.bootstrap_servers,
            topic=topic,
            partition=0,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The offsets of a partition that one client wrote in one codec, and when."""

    client: str
    codec: str
    start: int
    end: int
    records: tuple[Record, ...]
    began_ms: int
    ended_ms: int


class Trait(Enum):
    """A property of a record that some client cannot write or show, with any broker."""

    NO_TEXT = "bytes that are no line of text"
    BOTH_NULL = "neither key nor value"
    EMPTY_BESIDE_NULL = "of key and value one is null and the other empty"
    NULL_HEADER = "a header without a value"
    SCATTERED_HEADERS = "headers of one name that do not follow each other"


def traits_of(record: Record) -> frozenset[Trait]:
    return frozenset(_traits_of(record))


def records_of(client: str, codec: str) -> tuple[Record, ...]:
    """The same for everybody, but for a first record that names who wrote it and how.

    Timestamps go up and down and are years old, so the topic must keep records for ever.
    """
    shapes: tuple[tuple[bytes | None, bytes | None, Headers], ...] = (
        (client.encode(), codec.encode(), ()),
        (b"several headers", b"v", (("a", b"1"), ("a", b"2"), ("näme", "wört".encode()), ("empty", b""), ("b", b"3"))),
        (b"scattered headers", b"v", (("a", b"1"), ("b", b"2"), ("a", b"3"))),
        (b"null header", b"v", (("null", None), ("after", b"it"))),
        (None, b"no key", ()),
        (b"no value", None, (("kept", b"yes"),)),
        (None, None, (("alone", b"here"),)),
        (b"", b"empty key", ()),
        (b"empty value", b"", ()),
        (b"", b"", ()),
        (None, b"", ()),
        (b"", None, ()),
        (b"\xff\xfe", _NO_TEXT, (("bytes", b"\x80\xff"),)),
        (b"large", _LARGE, (("size", b"1 MB"),)),
        ("schlüssel".encode(), "the last \u20ac \U0001f600".encode(), ()),
    )
    return tuple(
        Record(key=key, value=value, headers=headers, timestamp_ms=1_600_000_000_123 + (number * 7 % 5) * 86_400_000)
        for number, (key, value, headers) in enumerate(shapes)
    )


def shown_without(record: Record, hidden: Sequence[Trait]) -> Record:
    """The record as a reader shows it that cannot show some traits."""
    headers = record.headers
    if Trait.NULL_HEADER in hidden:
        headers = tuple((name, b"NULL" if value is None else value) for name, value in headers)
    if Trait.SCATTERED_HEADERS in hidden:
        names = list(dict.fromkeys(name for name, _ in headers))
        headers = tuple(sorted(headers, key=lambda header: names.index(header[0])))
    return Record(key=record.key, value=record.value, headers=headers, timestamp_ms=record.timestamp_ms)


def _traits_of(record: Record) -> Iterator[Trait]:
    texts = [record.key, record.value, *(value for _, value in record.headers)]
    if any(text is not None and _is_no_line(text) for text in texts):
        yield Trait.NO_TEXT
    pair = (record.key, record.value)
    if pair == (None, None):
        yield Trait.BOTH_NULL
    if pair in ((None, b""), (b"", None)):
        yield Trait.EMPTY_BESIDE_NULL
    if any(value is None for _, value in record.headers):
        yield Trait.NULL_HEADER
    runs = [name for name, _ in groupby(name for name, _ in record.headers)]
    if len(runs) != len(set(runs)):
        yield Trait.SCATTERED_HEADERS


def _is_no_line(text: bytes) -> bool:
    try:
        return not text.decode().isprintable()
    except UnicodeDecodeError:
        return True
