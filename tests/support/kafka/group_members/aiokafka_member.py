"""A member of a group by aiokafka."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import aiokafka
import aiokafka.errors
from aiokafka.coordinator.assignors.range import RangePartitionAssignor

from tests.support.kafka.group_members.journal import Journal
from tests.support.kafka.group_members.options import POLL_S, READ_MAX, Options


class _Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]  # The package has no types.
    def __init__(self, consumer: Any, topic: str, journal: Journal) -> None:
        self._consumer = consumer
        self._topic = topic
        self._journal = journal
        self._is_committing = asyncio.Lock()

    async def commit(self) -> None:
        # A rebalance revokes partitions while the loop waits for a commit.
        async with self._is_committing:
            offsets = self._journal.to_commit()
            if not offsets:
                return
            wanted = {aiokafka.TopicPartition(self._topic, each): end for each, end in offsets.items()}
            try:
                await self._consumer.commit(wanted)
            except (aiokafka.errors.KafkaError, ValueError) as error:
                self._journal.failed("commit", repr(error))
            else:
                self._journal.committed(offsets)

    async def on_partitions_revoked(self, revoked: Any) -> None:
        await self.commit()
        self._journal.revoked(each.partition for each in revoked)

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self._journal.assigned(each.partition for each in assigned)


def run(options: Options, journal: Journal, stopping: threading.Event) -> None:
    asyncio.run(_run(options, journal, stopping))


async def _run(options: Options, journal: Journal, stopping: threading.Event) -> None:
    assert options.protocol == "range"
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=options.servers,
        client_id=options.name,
        group_id=options.group,
        group_instance_id=options.instance or None,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=[RangePartitionAssignor],
        fetch_max_wait_ms=100,
        **({} if options.as_shipped else {"metadata_max_age_ms": 1_000, **options.session()}),
    )
    listener = _Listener(consumer, options.topic, journal)
    consumer.subscribe([options.topic], listener=listener)
    await consumer.start()
    try:
        while not stopping.is_set():
            found = await consumer.getmany(timeout_ms=int(POLL_S * 1_000), max_records=READ_MAX)
            for records in found.values():
                for record in records:
                    journal.read(record.partition, record.offset)
            await listener.commit()
    finally:
        await consumer.stop()
