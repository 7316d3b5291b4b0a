"""Requests of administrators, answers to them, and what the audit says of both."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

from kraft.model.access import CLUSTER_NAME
from kraft.model.errors import ErrorCode
from kraft.model.transactions import AbortTransactionRequest
from kraft.wire.schema import (
    alter_client_quotas,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    elect_leaders,
    incremental_alter_configs,
    offset_delete,
    unregister_broker,
    update_features,
    write_txn_markers,
)
from tests.support.cluster_images import ORDERS

NONE, FAILED = ErrorCode.NONE, ErrorCode.INVALID_REQUEST

Told = tuple[str, str, int, str]
"""The type and name of a resource, the code and the detail of an event."""


def on_cluster(code: int, detail: str) -> Told:
    return "CLUSTER", CLUSTER_NAME, code, detail


def config(name: str, value: str) -> Any:
    return incremental_alter_configs.AlterableConfig(name=name, config_operation=0, value=value)


ACL: Final[dict[str, Any]] = {"principal": "User:bob", "host": "*", "operation": 3, "permission_type": 3}
CASES: Final[dict[str, tuple[Any, Any, list[Told]]]] = {
    "CreateTopics": (
        create_topics.CreateTopicsRequest(topics=()),
        create_topics.CreateTopicsResponse(
            topics=(
                create_topics.CreatableTopicResult(name="a", error_code=NONE, error_message=None),
                create_topics.CreatableTopicResult(name="b", error_code=FAILED, error_message=None),
            )
        ),
        [("TOPIC", "a", NONE, ""), ("TOPIC", "b", FAILED, "")],
    ),
    "DeleteTopics": (
        delete_topics.DeleteTopicsRequest(timeout_ms=1),
        delete_topics.DeleteTopicsResponse(
            responses=(
                delete_topics.DeletableTopicResult(name="a", error_code=NONE),
                delete_topics.DeletableTopicResult(name=None, topic_id=ORDERS, error_code=FAILED),
            )
        ),
        [("TOPIC", "a", NONE, ""), ("TOPIC", "", FAILED, f"topic id {ORDERS}")],
    ),
    "CreatePartitions": (
        create_partitions.CreatePartitionsRequest(topics=(), timeout_ms=1, validate_only=True),
        create_partitions.CreatePartitionsResponse(
            results=(create_partitions.CreatePartitionsTopicResult(name="a", error_code=NONE),)
        ),
        [("TOPIC", "a", NONE, "only validated: ")],
    ),
    "DeleteRecords": (
        delete_records.DeleteRecordsRequest(topics=(), timeout_ms=1),
        delete_records.DeleteRecordsResponse(
            topics=(
                delete_records.DeleteRecordsTopicResult(
                    name="a",
                    partitions=(
                        delete_records.DeleteRecordsPartitionResult(
                            partition_index=3, low_watermark=0, error_code=NONE
                        ),
                    ),
                ),
            )
        ),
        [("TOPIC", "a", NONE, "partition 3")],
    ),
    "DeleteGroups": (
        delete_groups.DeleteGroupsRequest(groups_names=("g",)),
        delete_groups.DeleteGroupsResponse(
            results=(delete_groups.DeletableGroupResult(group_id="g", error_code=FAILED),)
        ),
        [("GROUP", "g", FAILED, "")],
    ),
    "OffsetDelete": (
        offset_delete.OffsetDeleteRequest(group_id="g", topics=()),
        offset_delete.OffsetDeleteResponse(
            error_code=NONE,
            topics=(
                offset_delete.OffsetDeleteResponseTopic(
                    name="a",
                    partitions=(offset_delete.OffsetDeleteResponsePartition(partition_index=3, error_code=NONE),),
                ),
            ),
        ),
        [("GROUP", "g", NONE, "offset of topic a, partition 3")],
    ),
    "IncrementalAlterConfigs": (
        incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=(
                incremental_alter_configs.AlterConfigsResource(
                    resource_type=4, resource_name="1", configs=(config("ssl.keystore.password", "hunter2"),)
                ),
                incremental_alter_configs.AlterConfigsResource(resource_type=2, resource_name="a", configs=()),
            ),
            validate_only=False,
        ),
        incremental_alter_configs.IncrementalAlterConfigsResponse(
            responses=tuple(
                incremental_alter_configs.AlterConfigsResourceResponse(
                    error_code=NONE, error_message=None, resource_type=kind, resource_name=name
                )
                for kind, name in ((4, "1"), (2, "a"), (99, "?"))
            )
        ),
        [
            on_cluster(NONE, "resource 4 '1': ssl.keystore.password"),
            ("TOPIC", "a", NONE, ""),
            on_cluster(NONE, "resource 99 '?': "),
        ],
    ),
    "CreateAcls": (
        create_acls.CreateAclsRequest(
            creations=(
                create_acls.AclCreation(resource_type=2, resource_name="a", **ACL),
                create_acls.AclCreation(resource_type=77, resource_name="b", **ACL),
            )
        ),
        create_acls.CreateAclsResponse(
            results=tuple(create_acls.AclCreationResult(error_code=each, error_message=None) for each in (NONE, FAILED))
        ),
        [
            on_cluster(NONE, "ALLOW User:bob from *: READ on LITERAL TOPIC a"),
            on_cluster(FAILED, "ALLOW User:bob from *: READ on LITERAL 77 b"),
        ],
    ),
    "DeleteAcls": (
        delete_acls.DeleteAclsRequest(
            filters=tuple(
                delete_acls.DeleteAclsFilter(
                    resource_type_filter=2,
                    resource_name_filter=None,
                    principal_filter=None,
                    host_filter=None,
                    operation=1,
                    permission_type=1,
                )
                for _ in range(2)
            )
        ),
        delete_acls.DeleteAclsResponse(
            filter_results=(
                delete_acls.DeleteAclsFilterResult(
                    error_code=NONE,
                    error_message=None,
                    matching_acls=(
                        delete_acls.DeleteAclsMatchingAcl(
                            error_code=NONE, error_message=None, resource_type=2, resource_name="a", **ACL
                        ),
                    ),
                ),
                delete_acls.DeleteAclsFilterResult(error_code=FAILED, error_message=None, matching_acls=()),
            )
        ),
        [
            on_cluster(NONE, "ALLOW User:bob from *: READ on LITERAL TOPIC a"),
            on_cluster(FAILED, "nothing matches ANY ANY from ANY: ANY on LITERAL TOPIC ANY"),
        ],
    ),
    "AlterUserScramCredentials": (
        alter_user_scram_credentials.AlterUserScramCredentialsRequest(
            deletions=(),
            upsertions=(
                alter_user_scram_credentials.ScramCredentialUpsertion(
                    name="bob", mechanism=1, iterations=4_096, salt=b"hunter2", salted_password=b"hunter2"
                ),
            ),
        ),
        alter_user_scram_credentials.AlterUserScramCredentialsResponse(
            results=(
                alter_user_scram_credentials.AlterUserScramCredentialsResult(
                    user="bob", error_code=NONE, error_message=None
                ),
            )
        ),
        [on_cluster(NONE, "user bob")],
    ),
    "AlterClientQuotas": (
        alter_client_quotas.AlterClientQuotasRequest(entries=(), validate_only=False),
        alter_client_quotas.AlterClientQuotasResponse(
            entries=(
                alter_client_quotas.EntryResult(
                    error_code=NONE,
                    error_message=None,
                    entity=(
                        alter_client_quotas.EntityData(entity_type="user", entity_name="bob"),
                        alter_client_quotas.EntityData(entity_type="client-id", entity_name=None),
                    ),
                ),
            )
        ),
        [on_cluster(NONE, "user bob, client-id <default>")],
    ),
    "UpdateFeatures": (
        update_features.UpdateFeaturesRequest(
            feature_updates=(update_features.FeatureUpdateKey(feature="metadata.version", max_version_level=9),)
        ),
        update_features.UpdateFeaturesResponse(error_code=FAILED, error_message=None),
        [on_cluster(FAILED, "metadata.version level 9")],
    ),
    "UnregisterBroker": (
        unregister_broker.UnregisterBrokerRequest(broker_id=7),
        unregister_broker.UnregisterBrokerResponse(error_code=NONE, error_message=None),
        [on_cluster(NONE, "broker 7")],
    ),
    "FenceBroker": (SimpleNamespace(broker_id=7), SimpleNamespace(changed=True), [on_cluster(NONE, "broker 7")]),
    "AlterPartitionReassignments": (
        alter_partition_reassignments.AlterPartitionReassignmentsRequest(topics=()),
        alter_partition_reassignments.AlterPartitionReassignmentsResponse(
            error_code=NONE,
            error_message=None,
            responses=(
                alter_partition_reassignments.ReassignableTopicResponse(
                    name="a",
                    partitions=(
                        alter_partition_reassignments.ReassignablePartitionResponse(
                            partition_index=3, error_code=FAILED, error_message=None
                        ),
                    ),
                ),
            ),
        ),
        [on_cluster(FAILED, "topic a, partition 3")],
    ),
    "ElectLeaders": (
        elect_leaders.ElectLeadersRequest(topic_partitions=None),
        elect_leaders.ElectLeadersResponse(
            replica_election_results=(
                elect_leaders.ReplicaElectionResult(
                    topic="a",
                    partition_result=(
                        elect_leaders.PartitionResult(partition_id=3, error_code=NONE, error_message=None),
                    ),
                ),
            )
        ),
        [on_cluster(NONE, "topic a, partition 3")],
    ),
    "AlterReplicaLogDirs": (
        alter_replica_log_dirs.AlterReplicaLogDirsRequest(dirs=()),
        alter_replica_log_dirs.AlterReplicaLogDirsResponse(
            results=(
                alter_replica_log_dirs.AlterReplicaLogDirTopicResult(
                    topic_name="a",
                    partitions=(
                        alter_replica_log_dirs.AlterReplicaLogDirPartitionResult(partition_index=3, error_code=NONE),
                    ),
                ),
            )
        ),
        [on_cluster(NONE, "topic a, partition 3")],
    ),
    "AbortTransaction": (
        AbortTransactionRequest(topic="a", partition=3, producer_id=8, producer_epoch=0, coordinator_epoch=0),
        SimpleNamespace(),
        [on_cluster(NONE, "producer 8, topic a, partition 3")],
    ),
    "WriteTxnMarkers": (
        write_txn_markers.WriteTxnMarkersRequest(markers=()),
        write_txn_markers.WriteTxnMarkersResponse(
            markers=(
                write_txn_markers.WritableTxnMarkerResult(
                    producer_id=8,
                    topics=(
                        write_txn_markers.WritableTxnMarkerTopicResult(
                            name="a",
                            partitions=(
                                write_txn_markers.WritableTxnMarkerPartitionResult(partition_index=3, error_code=NONE),
                            ),
                        ),
                    ),
                ),
            )
        ),
        [on_cluster(NONE, "producer 8, topic a, partition 3")],
    ),
}
CASES["AlterConfigs"] = CASES["IncrementalAlterConfigs"]
CASES["UnfenceBroker"] = CASES["FenceBroker"]
