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

    unused_ages_ms: tuple[int, ...] = (86_400_000, 3_600_000, 300_000)
    """When new ids find no room, ids whose producer has begun no transaction are evicted: those of the first age, then
    those of the next ones. None is evicted before the last: its producer may just be about to begin."""

    eviction_interval_ms: int = 60_000
    """Time after a pass that evicts, until the next one."""

    batch_bytes_max: Callable[[], int] = lambda: 1_048_588
    """Size of the largest batch that a partition of `__transaction_state` accepts, by its `max.message.bytes`."""
