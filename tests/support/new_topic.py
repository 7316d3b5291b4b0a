"""Topics of CreateTopics requests."""

from __future__ import annotations

from collections.abc import Mapping

from kraft.metadata import new_topics
from kraft.wire.declaration import replace
from kraft.wire.schema.create_topics import CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig


def new_topic(
    name: str,
    partitions: int = 1,
    replication_factor: int = 1,
    assignments: Mapping[int, tuple[int, ...]] | None = None,
    configs: Mapping[str, str | None] | None = None,
) -> CreatableTopic:
    topic = new_topics.new_topic(name, partitions=partitions, replication_factor=replication_factor)
    placed = (
        CreatableReplicaAssignment(partition_index=index, broker_ids=broker_ids)
        for index, broker_ids in (assignments or {}).items()
    )
    named = (CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items())
    return replace(topic, assignments=tuple(placed), configs=tuple(named))
