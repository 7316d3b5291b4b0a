"""A member of a group by kafka-python."""

from __future__ import annotations

import threading
from typing import Any, Final

import kafka
import kafka.errors
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor

from tests.support.kafka.group_members.journal import Journal
from tests.support.kafka.group_members.options import POLL_S, READ_MAX, Options
from tests.support.kafka.python_clients import ASKS_AGAIN

_JOINING_POLL_S: Final = 10.0
"""Time of a poll without partitions.

kafka-python 3.0 forgets that it rejoined for new metadata if the poll ends before the group is stable, and then gets no
partitions for ever. The first metadata often arrives after the first join.
"""

_IMPATIENT: Final = {**ASKS_AGAIN, "reconnect_backoff_max_ms": 500}

_ASSIGNORS = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}


class _Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]  # The package has no types.
    def __init__(self, consumer: Any, topic: str, journal: Journal) -> None:
        self._consumer = consumer
        self._topic = topic
        self._journal = journal

    def commit(self) -> None:
        offsets = self._journal.to_commit()
        if not offsets:
            return
        wanted = {
            kafka.TopicPartition(self._topic, each): kafka.OffsetAndMetadata(end, "", -1)
            for each, end in offsets.items()
        }
        try:
            self._consumer.commit(wanted)
        except kafka.errors.KafkaError as error:
            self._journal.failed("commit", repr(error))
        else:
            self._journal.committed(offsets)

    def on_partitions_revoked(self, revoked: Any) -> None:
        # What is not committed is left to the next owner: kafka-python 3.0 cannot wait for a commit in a callback.
        self._journal.revoked(each.partition for each in revoked)

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._journal.assigned(each.partition for each in assigned)

    def on_partitions_lost(self, lost: Any) -> None:
        self._journal.revoked((each.partition for each in lost), "lost")


def run(options: Options, journal: Journal, stopping: threading.Event) -> None:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=options.servers.split(","),
        client_id=options.name,
        group_id=options.group,
        group_instance_id=options.instance or None,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=[_ASSIGNORS[options.protocol]],
        fetch_max_wait_ms=100,
        **({} if options.as_shipped else _IMPATIENT | options.session()),
    )
    listener = _Listener(consumer, options.topic, journal)
    consumer.subscribe([options.topic], listener=listener)
    while not stopping.is_set():
        poll_s = POLL_S if consumer.assignment() else _JOINING_POLL_S
        found = consumer.poll(timeout_ms=int(poll_s * 1_000), max_records=READ_MAX)
        for records in found.values():
            for record in records:
                journal.read(record.partition, record.offset)
        listener.commit()
    consumer.close()
