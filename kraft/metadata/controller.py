"""Every command that the active controller decides.

Each is a function of the image and a request, and gives a `Decision`: records to commit and the answer to give once
they are committed. The caller decides on the image that includes all records it has proposed so far, one command after
the other; so two decisions never contradict each other while the first is still on its way through the quorum.
"""

from __future__ import annotations

from kraft.metadata.broker_decisions import (
    PRODUCER_ID_BLOCK_SIZE,
    allocate_producer_ids,
    begin_controlled_shutdown,
    fence_broker,
    heartbeat,
    initialise_cluster,
    register_broker,
    unfence_broker,
)
from kraft.metadata.config_decisions import ALTERATIONS_PER_REQUEST_MAX, incremental_alter_configs
from kraft.metadata.decision import Decision
from kraft.metadata.partition_decisions import alter_partition, fail_replicas
from kraft.metadata.topic_decisions import (
    CLUSTER_DEFAULT,
    PARTITIONS_PER_REQUEST_MAX,
    Assignment,
    ControllerDefaults,
    create_topics,
    delete_topics,
)

__all__ = [
    "ALTERATIONS_PER_REQUEST_MAX",
    "CLUSTER_DEFAULT",
    "PARTITIONS_PER_REQUEST_MAX",
    "PRODUCER_ID_BLOCK_SIZE",
    "Assignment",
    "ControllerDefaults",
    "Decision",
    "allocate_producer_ids",
    "alter_partition",
    "begin_controlled_shutdown",
    "create_topics",
    "delete_topics",
    "fail_replicas",
    "fence_broker",
    "heartbeat",
    "incremental_alter_configs",
    "initialise_cluster",
    "register_broker",
    "unfence_broker",
]
