"""One record of `__consumer_offsets`."""

from __future__ import annotations

from msgspec import Struct

from kraft.model.errors import KraftError
from kraft.wire.declaration import Message


class GroupRecord(Struct, frozen=True):
    """A key and its value, both declared in `group_records.py`. Without a value, what the key names is deleted."""

    key: Message
    value: Message | None


class UnknownGroupRecord(Struct, frozen=True):
    """A record to skip: it belongs to another kind of group, or a newer Kafka wrote it."""

    type: int
    """Type of the record."""

    value_version: int | None = None
    """Version of the value, if only that is unknown."""


class InvalidGroupRecord(KraftError):
    """Bytes that are not a record of `__consumer_offsets`. The record is skipped."""
