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
from kraft.metadata.election_decisions import (
    balance_leaders,
    elect_leaders,
    elect_unclean_leaders,
    settle_eligible_replicas,
)
from kraft.metadata.feature_decisions import update_features
from kraft.metadata.operator_decisions import fence_by_operator, unfence_by_operator, unregister_broker
from kraft.metadata.partition_creation import create_partitions
from kraft.metadata.partition_decisions import alter_partition, fail_replicas
from kraft.metadata.quota_decisions import alter_client_quotas
from kraft.metadata.reassignment import alter_partition_reassignments
from kraft.metadata.topic_decisions import (
    CLUSTER_DEFAULT,
    PARTITIONS_PER_REQUEST_MAX,
    ControllerDefaults,
    create_topics,
    delete_topics,
)

__all__ = [
    "ALTERATIONS_PER_REQUEST_MAX",
    "CLUSTER_DEFAULT",
    "PARTITIONS_PER_REQUEST_MAX",
    "PRODUCER_ID_BLOCK_SIZE",
    "ControllerDefaults",
    "Decision",
    "allocate_producer_ids",
    "alter_client_quotas",
    "alter_partition",
    "alter_partition_reassignments",
    "balance_leaders",
    "begin_controlled_shutdown",
    "create_partitions",
    "create_topics",
    "delete_topics",
    "elect_leaders",
    "elect_unclean_leaders",
    "fail_replicas",
    "fence_broker",
    "fence_by_operator",
    "heartbeat",
    "incremental_alter_configs",
    "initialise_cluster",
    "register_broker",
    "settle_eligible_replicas",
    "unfence_broker",
    "unfence_by_operator",
    "unregister_broker",
    "update_features",
]
