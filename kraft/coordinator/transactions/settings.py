"""Settings of a transaction coordinator, each declared with its key."""

from __future__ import annotations

from dataclasses import dataclass

from kraft.coordinator.shard import BytesMax
from kraft.model.config_keys import key, whole_number


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """Settings of transactions and transactional ids."""

    timeout_max_ms: int = key(
        "transaction.max.timeout.ms",
        whole_number(1),
        "Longest transaction.timeout.ms that a producer may ask for.",
        default=900_000,
    )
    id_expiration_ms: int = key(
        "transactional.id.expiration.ms",
        whole_number(1),
        "Time after the last change of a transactional id after which the coordinator forgets it.",
        default=604_800_000,
    )
    expiry_interval_ms: int = key(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        whole_number(1),
        "Interval of checks for expired transactional ids.",
        default=3_600_000,
    )
    memory_bytes_max: int = key(
        "transaction.state.partition.memory.max.bytes",
        whole_number(1),
        "Memory of the transactional ids of one partition of __transaction_state, about 700 bytes each, above which new"
        " ids are refused; and of the partitions of their open transactions, about 150 bytes each.",
        default=16 << 20,
    )
    unused_ages_ms: tuple[int, ...] = (86_400_000, 3_600_000, 300_000)
    """When new ids find no room, ids whose producer has begun no transaction are evicted: those of the first age, then
    those of the next ones. None is evicted before the last: its producer may just be about to begin."""

    eviction_interval_ms: int = 60_000
    """Time after a pass that evicts, until the next one."""

    batch_bytes_max: BytesMax = lambda: 1_048_588
    """Size of the largest batch that a partition of `__transaction_state` accepts, by its `max.message.bytes`."""
