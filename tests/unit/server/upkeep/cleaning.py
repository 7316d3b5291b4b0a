"""Configuration of the upkeep of logs, and what a log holds before and after it."""

from __future__ import annotations

from kraft.log.change import run_now
from kraft.log.format.record_batch import iter_records
from kraft.model.ids import Offset
from kraft.server.config.components import LogMaintenance
from kraft.server.config.values import UNLIMITED_BYTES_PER_SECOND
from kraft.server.replica.partition import Partition

CONFIG = LogMaintenance(
    retention_check_interval_ms=1_000,
    flush_check_interval_ms=1_000,
    cleaner_enabled=True,
    cleaner_threads=1,
    cleaner_backoff_ms=1_000,
    cleaner_dedupe_buffer_bytes=1 << 20,
    cleaner_io_bytes_per_second_max=UNLIMITED_BYTES_PER_SECOND,
    producer_id_expiration_ms=1_000,
    producer_id_expiration_check_interval_ms=1_000,
    scrub_interval_ms=0,
    scrub_io_bytes_per_second_max=UNLIMITED_BYTES_PER_SECOND,
    free_space_bytes_min=0,
)


def roll(partition: Partition) -> None:
    run_now(partition.log.rolling())
    partition.log_became_durable()


def contents(partition: Partition) -> list[tuple[int, str, str]]:
    """Offset, key and value of every record."""
    found, offset = [], partition.log.log_start_offset
    while offset < partition.log.log_end_offset:
        for record in iter_records(partition.log.read(offset, 1 << 20, partition.log.log_end_offset)):
            found.append((record.offset, (record.key or b"").decode(), (record.value or b"").decode()))
            offset = Offset(record.offset + 1)
    return found
