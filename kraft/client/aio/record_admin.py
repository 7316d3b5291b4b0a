"""Calls of the asyncio admin client for records and their offsets."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing

from kraft.client.aio.admin_calls import AdminClient
from kraft.client.model.values import FoundOffset, OffsetAndTimestamp
from kraft.model.errors import KraftError
from kraft.model.ids import TopicPartition


async def delete_records(
    admin: AdminClient, before_offsets: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
) -> dict[TopicPartition, int]:
    """Delete the records below an offset of each partition; HIGH_WATERMARK (-1) deletes all committed records.

    Returns each partition's low watermark, the first offset that is kept, once every in-sync replica has deleted.
    Raises the first error after all were tried, as `delete_records_of_many` returns them.
    """
    deleted: dict[TopicPartition, int] = {}
    outcomes = await delete_records_of_many(admin, before_offsets, timeout_ms=timeout_ms)
    for partition, outcome in outcomes.items():
        if isinstance(outcome, KraftError):
            raise outcome
        deleted[partition] = outcome
    return deleted


async def delete_records_of_many(
    admin: AdminClient, before_offsets: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
) -> dict[TopicPartition, int | KraftError]:
    """Delete as `delete_records`, and return the low watermark of each partition, or its error.

    Such are UNKNOWN_TOPIC_OR_PARTITION, OFFSET_OUT_OF_RANGE above the high watermark, POLICY_VIOLATION with
    cleanup.policy=compact, and NoBrokerReachable if its leader has not answered in time.
    """
    deletion = admin.calls.record_deletion().delete(before_offsets, admin.calls.timeout(timeout_ms))
    return await admin.calls.watched(deletion, timeout_ms)


async def list_offsets(
    admin: AdminClient, timestamps_ms: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
) -> dict[TopicPartition, OffsetAndTimestamp | KraftError]:
    """Return the first record of each partition at or after a timestamp, or the error of the partition.

    A timestamp may be one of `kraft.model.list_offsets`, such as LATEST_TIMESTAMP for the high watermark. Offset
    and timestamp are -1 if all records are older.
    """
    return await admin.calls.watched(_found_offsets(admin, timestamps_ms, timeout_ms), timeout_ms)


async def _found_offsets(
    admin: AdminClient, timestamps_ms: Mapping[TopicPartition, int], timeout_ms: int | None
) -> dict[TopicPartition, OffsetAndTimestamp | KraftError]:
    found: dict[TopicPartition, OffsetAndTimestamp | KraftError] = {}
    async with aclosing(
        admin.calls.offset_lookup().find_each(timestamps_ms, admin.calls.timeout(timeout_ms))
    ) as outcomes:
        async for partition, outcome in outcomes:
            if isinstance(outcome, FoundOffset):
                found[partition] = OffsetAndTimestamp(outcome.offset, outcome.timestamp_ms)
            else:
                found[partition] = outcome
    return found
