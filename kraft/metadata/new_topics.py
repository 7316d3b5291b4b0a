"""Topics to create, in Kafka's request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kraft.wire.schema.create_topics import CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig

CLUSTER_DEFAULT: Final = -1
"""Used in a request for the cluster's default partition count or replication factor."""

_NO_CONFIGS: Final[Mapping[str, str]] = {}


def new_topic(
    name: str,
    *,
    partitions: int = CLUSTER_DEFAULT,
    replication_factor: int = CLUSTER_DEFAULT,
    configs: Mapping[str, str] = _NO_CONFIGS,
    assignments: Sequence[Sequence[int]] = (),
) -> CreatableTopic:
    """Return a topic to create. `assignments` are the brokers of each partition; the two numbers must be -1 then."""
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=tuple(
            CreatableReplicaAssignment(partition_index=partition, broker_ids=tuple(brokers))
            for partition, brokers in enumerate(assignments)
        ),
        configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in configs.items()),
    )
