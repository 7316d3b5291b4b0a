"""Settings of a transaction coordinator."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct


class TransactionSettings(Struct, frozen=True, kw_only=True):
    timeout_max_ms: int = 900_000
    """`transaction.max.timeout.ms`"""

    id_expiration_ms: int = 604_800_000
    """`transactional.id.expiration.ms`"""

    expiry_interval_ms: int = 3_600_000
    """`transaction.remove.expired.transaction.cleanup.interval.ms`"""

    memory_bytes_max: int = 16 << 20
    """`transaction.state.partition.memory.max.bytes`"""

    batch_bytes_max: Callable[[], int] = lambda: 1_048_588
    """Size of the largest batch that a partition of `__transaction_state` accepts, by its `max.message.bytes`."""
