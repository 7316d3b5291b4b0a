"""Offsets that a consumer commits for its group, and those that the group has committed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from kraft.client.aio.commits import Done
from kraft.client.aio.consumer_calls import ConsumerClient
from kraft.client.model.arguments import checked_partitions
from kraft.client.model.group_offsets import checked_offsets
from kraft.client.model.values import GroupMetadata, OffsetAndMetadata
from kraft.model.ids import TopicPartition


async def commit(
    consumer: ConsumerClient,
    offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
    timeout_ms: int | None = None,
) -> None:
    """Commit these offsets, each the next one to read; without any, those after the records returned so far.

    Waits for earlier commits. Raises CommitFailed if a partition may belong to another member of the group by now,
    SubscriptionConflict without group.id, ValueError for a number that is not an offset, and the reason if the
    commit does not succeed within the timeout.
    """
    group = consumer.calls.group("commit")
    await group.commit(consumer.calls.engine(), _to_commit(consumer, offsets), consumer.calls.deadline_ms(timeout_ms))


def commit_async(
    consumer: ConsumerClient,
    offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
    on_done: Done | None = None,
) -> asyncio.Task[None]:
    """Commit in the background, after earlier commits. `on_done` gets the offsets, and an error or None."""
    group = consumer.calls.group("commit_async")
    return group.commit_later(consumer.calls.engine(), _to_commit(consumer, offsets), on_done)


async def committed(
    consumer: ConsumerClient, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
) -> dict[TopicPartition, OffsetAndMetadata | None]:
    """Return the offset that the group has committed last for each partition; None without one."""
    group = consumer.calls.group("committed")
    asked = checked_partitions(partitions)
    found = await group.committed(consumer.calls.engine(), asked, consumer.calls.deadline_ms(timeout_ms))
    return {partition: found.get(partition) for partition in asked}


def group_metadata(consumer: ConsumerClient) -> GroupMetadata:
    """Return the membership, for `send_offsets_to_transaction`. Raises CommitFailed if subscribed and no member."""
    return consumer.calls.group("group_metadata").metadata()


def consumed(consumer: ConsumerClient) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return what `commit` commits by default: for each partition, the offset after the records returned so far."""
    return consumer.calls.group("consumed").consumed()


def _to_commit(
    consumer: ConsumerClient, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None
) -> dict[TopicPartition, OffsetAndMetadata]:
    return consumer.calls.group("commit").consumed() if offsets is None else checked_offsets(offsets)
