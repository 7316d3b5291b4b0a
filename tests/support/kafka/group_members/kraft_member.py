"""A member of a group by Kraft's own client."""

from __future__ import annotations

import threading
from typing import Any

from kraft.client import Consumer, Refusal, TopicPartition, Unreachable
from tests.support.kafka.group_members.journal import Journal
from tests.support.kafka.group_members.options import POLL_S, READ_MAX, Options


def run(options: Options, journal: Journal, stopping: threading.Event) -> None:
    with Consumer(options.servers, **settings(options)) as consumer:

        def commit() -> None:
            offsets = journal.to_commit()
            if not offsets:
                return
            try:
                consumer.commit({TopicPartition(options.topic, each): end for each, end in offsets.items()})
            except (Refusal, Unreachable) as error:
                journal.failed("commit", error)
            else:
                journal.committed(offsets)

        def on_revoked(partitions: list[TopicPartition]) -> None:
            commit()
            journal.revoked(each.partition for each in partitions)

        consumer.subscribe(
            options.topic,
            on_assigned=lambda partitions: journal.assigned(each.partition for each in partitions),
            on_revoked=on_revoked,
            on_lost=lambda partitions: journal.revoked((each.partition for each in partitions), "lost"),
        )
        while not stopping.is_set():
            for record in consumer.poll(int(POLL_S * 1_000), READ_MAX):
                journal.read(record.partition, record.offset)
            commit()


def settings(options: Options) -> dict[str, Any]:
    """Return those of the consumer."""
    common: dict[str, Any] = {
        "client_id": options.name,
        "group_id": options.group,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "fetch_max_wait_ms": 100,
    }
    if not options.as_shipped:
        common["metadata_max_age_ms"] = 1_000
    if options.instance:
        common["group_instance_id"] = options.instance
    if options.is_consumer_protocol:
        return {**common, "group_protocol": "consumer"}
    common["partition_assignment_strategy"] = options.protocol
    return common if options.as_shipped else {**common, **options.session()}
