"""Implements `Cluster` with `kraft.client`."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

from kraft.client import Admin, ArrowChunk, Consumer, TopicPartition, WantedColumns
from kraft.client.model.security import is_security_key
from kraft.client.model.settings import AdminSettings
from spark_connector import kraft_reads
from spark_connector.client_errors import connector_errors
from spark_connector.cluster import ClusterError, Missing, OffsetOutOfRange, ReadStalled, Topic, TruncatedWhileRead

FIRST_CONTACT_TIMEOUT_MS: Final = 10_000
"""Short, so that a wrong address fails soon. Calls after the first answer have the client's default timeout."""

COMMIT_TIMEOUT_MS: Final = 10_000

_log = logging.getLogger("spark_connector")


class KraftCluster:
    """A cluster reached by an Admin and a Consumer. They connect at their first call, and only in this process."""

    def __init__(self, bootstrap_servers: Sequence[str], settings: Mapping[str, str]) -> None:
        """Create one with the settings of a consumer, by Kafka's names. Raises InvalidSetting."""
        known = {field.name.replace("_", ".") for field in fields(AdminSettings)}
        of_admin: dict[str, Any] = {
            name: value for name, value in settings.items() if name in known or is_security_key(name)
        }
        self._admin = Admin(bootstrap_servers, **of_admin)
        of_consumer: dict[str, Any] = dict(settings)
        self._consumer = Consumer(bootstrap_servers, **of_consumer)
        self._timeout_ms: int | None = FIRST_CONTACT_TIMEOUT_MS

    # --- on the driver ----------------------------------------------------------------------------------------

    def topics(self, names: Sequence[str] | None) -> dict[str, Topic]:
        # The consumer caches a topic's partitions for minutes; a stream must see new ones soon.
        with connector_errors():
            found = self._admin.find_topics(names, timeout_ms=self._timeout_ms)
        self._timeout_ms = None
        return {
            name: Topic(
                topic_id=str(topic.topic_id),
                partitions=tuple(sorted(each.partition_index for each in topic.partitions)),
            )
            for name, topic in found.items()
        }

    def earliest_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        with connector_errors():
            return self._consumer.beginning_offsets(partitions)

    def latest_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        with connector_errors():
            return self._consumer.end_offsets(partitions)

    def offsets_at(self, timestamps_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        with connector_errors():
            found = self._consumer.offsets_for_times(timestamps_ms)
        return {partition: None if each is None else each.offset for partition, each in found.items()}

    def record_bytes(self, partition: TopicPartition, offset: int, end: int) -> float | None:
        try:
            return kraft_reads.record_bytes(self._consumer, partition, offset, end)
        except (OffsetOutOfRange, ReadStalled, TruncatedWhileRead, Missing, ClusterError) as problem:
            # The task that reads the records says so.
            _log.debug("records not sampled: partition=%s reason=%s", partition, problem)
            return None

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        with connector_errors():
            outcomes = self._admin.alter_consumer_group_offsets(group_id, offsets, timeout_ms=COMMIT_TIMEOUT_MS)
        for refusal in outcomes.values():
            if refusal is not None:
                raise ClusterError(str(refusal))

    # --- in the tasks -----------------------------------------------------------------------------------------

    def read(self, partition: TopicPartition, start: int, end: int, wanted: WantedColumns) -> Iterator[ArrowChunk]:
        return kraft_reads.read(self._consumer, partition, start, end, wanted)

    def close(self) -> None:
        self._consumer.close()
        self._admin.close()
