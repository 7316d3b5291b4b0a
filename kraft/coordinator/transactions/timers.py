"""Timers of the transaction shard."""

from __future__ import annotations

from msgspec import Struct


class TransactionTimer(Struct, frozen=True):
    """Ends when the open transaction of an id has taken too long."""

    transactional_id: str


class TransactionalIdExpiryTimer(Struct, frozen=True):
    """Begins a pass that looks for expired transactional ids, or continues it."""
