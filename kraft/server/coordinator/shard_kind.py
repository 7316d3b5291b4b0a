"""A kind of shards: its state machine, and the format of its records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from msgspec import Struct

from kraft.coordinator.shard import Shard

Replicated = TypeVar("Replicated")
Volatile = TypeVar("Volatile")
Command = TypeVar("Command")
Record = TypeVar("Record")


class ShardKind(Struct, Generic[Replicated, Volatile, Command, Record], frozen=True, kw_only=True):
    """A state machine with the format of its records: key and value."""

    shard: Shard[Replicated, Volatile, Command, Record]
    encode: Callable[[Record], tuple[bytes, bytes | None]]
    decode: Callable[[bytes | None, bytes | None], Record | None]
    """Returns None for a record of a kind or version that is not known. Raises KraftError for a damaged one."""

    limits_sizes: bool = False
    """True if the shard itself refuses what would make its records too large; then it may write what it has allowed."""
