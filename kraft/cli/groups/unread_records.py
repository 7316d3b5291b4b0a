"""Timestamps of the first records that groups have not read, which say how far behind they are in time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Final

from kraft.cli.command_security import connection_settings
from kraft.cli.options import REFUSED_TIMEOUT_MS, command_network
from kraft.client import Consumer, KraftError
from kraft.model.ids import TopicPartition

_POLL_MS: Final = 500
_FETCH_BYTES: Final = 64 * 1024
"""Bytes of one partition in a response; a leader returns at least one batch."""

_FAILURES_MAX: Final = 3


def first_timestamps(
    bootstrap_server: str, unread: Iterable[tuple[TopicPartition, range]], timeout_ms: int
) -> dict[tuple[TopicPartition, int], int]:
    """Return the timestamp of the first record in each range of offsets, by partition and start of the range.

    In milliseconds since 1970. Left out are ranges without a record, and those that could not be read before the
    timeout.
    """
    missing: dict[TopicPartition, dict[int, range]] = {}
    for partition, offsets in unread:
        if offsets:
            missing.setdefault(partition, {})[offsets.start] = offsets
    found: dict[tuple[TopicPartition, int], int] = {}
    if not missing:
        return found
    with Consumer(
        bootstrap_server,
        network=command_network(),
        auto_offset_reset="earliest",
        default_api_timeout_ms=timeout_ms,
        bootstrap_refused_timeout_ms=REFUSED_TIMEOUT_MS,
        max_partition_fetch_bytes=_FETCH_BYTES,
        **connection_settings(),
    ) as consumer:
        _read(consumer, missing, found, time.monotonic() + timeout_ms / 1_000)
    return found


def _read(
    consumer: Consumer,
    missing: dict[TopicPartition, dict[int, range]],
    found: dict[tuple[TopicPartition, int], int],
    deadline_s: float,
) -> None:
    """Move ranges from `missing` to `found`, one of each partition at a time, until the deadline."""
    failures = 0
    _seek_all(consumer, missing, missing)
    while missing and (left_ms := int((deadline_s - time.monotonic()) * 1_000)) > 0:
        try:
            parts = consumer.poll_batches(min(_POLL_MS, left_ms))
        except KraftError:
            # The error of one partition must not hide the others: it is raised again once no other has records.
            failures += 1
            if failures >= _FAILURES_MAX:
                return
            continue
        ended = [] if parts else [each for each in missing if not _is_short_of(consumer, each, _next(missing, each))]
        for part in parts:
            if part.partition not in ended:
                found[part.partition, _next(missing, part.partition).start] = part.columns.timestamps_ms[0]
                ended.append(part.partition)
        for partition in ended:
            del missing[partition][_next(missing, partition).start]
            if not missing[partition]:
                del missing[partition]
        _seek_all(consumer, missing, ended)


def _seek_all(
    consumer: Consumer, missing: Mapping[TopicPartition, Mapping[int, range]], partitions: Iterable[TopicPartition]
) -> None:
    """Assign what is missing, and move these partitions to their next ranges."""
    consumer.assign(missing)
    for partition in partitions:
        if partition in missing:
            consumer.seek(partition, _next(missing, partition).start)


def _next(missing: Mapping[TopicPartition, Mapping[int, range]], partition: TopicPartition) -> range:
    return next(iter(missing[partition].values()))


def _is_short_of(consumer: Consumer, partition: TopicPartition, offsets: range) -> bool:
    """Return whether the consumer has not come to the end of the range."""
    try:
        return consumer.position(partition, 1) < offsets.stop
    except KraftError:
        return True
