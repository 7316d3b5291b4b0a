"""Requests of the matrix of access about the cluster, its quotas, users and ACLs, by the names of the table of APIs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kraft.model.access import ResourceType
from kraft.wire.declaration import replace
from kraft.wire.schema import (
    alter_client_quotas,
    alter_user_scram_credentials,
    api_versions,
    create_acls,
    delete_acls,
    describe_client_quotas,
    describe_cluster,
    describe_quorum,
    describe_user_scram_credentials,
    unregister_broker,
    update_features,
)
from tests.end_to_end.kafka.differences.access_rows import Ids, Row
from tests.end_to_end.kafka.differences.acl_scenarios import FILTER, READ_ORDERS, described

NOBODY: Final = "nobody"
_OF_NOBODY: Final = replace(FILTER, principal_filter=f"User:{NOBODY}")


def _code(answer: Any) -> Any:
    return {"error_code": answer["error_code"]}


def _describe_cluster(_: Ids) -> Iterator[Row]:
    request = describe_cluster.DescribeClusterRequest
    keep = _operations
    yield Row("DescribeCluster", request(include_cluster_authorized_operations=False), 2, keep)
    yield Row("DescribeCluster operations", request(include_cluster_authorized_operations=True), 2, keep)


def _operations(answer: Any) -> Any:
    field = "cluster_authorized_operations"
    return {"brokers": len(answer["brokers"]), field: answer.get(field), **_code(answer)}


def _describe_quorum(_: Ids) -> Iterator[Row]:
    partitions = (describe_quorum.RequestedPartition(partition_index=0),)
    topics = (describe_quorum.RequestedTopic(topic_name="__cluster_metadata", partitions=partitions),)
    yield Row("DescribeQuorum", describe_quorum.DescribeQuorumRequest(topics=topics), 2, _quorum)


def _quorum(answer: Any) -> Any:
    return {"topics": len(answer["topics"]), **_code(answer)}


def _unregister_broker(_: Ids) -> Iterator[Row]:
    yield Row("UnregisterBroker", unregister_broker.UnregisterBrokerRequest(broker_id=99), 0)


def _update_features(_: Ids) -> Iterator[Row]:
    feature = update_features.FeatureUpdateKey(feature="kraft.nothing", max_version_level=1)
    request = update_features.UpdateFeaturesRequest(feature_updates=(feature,), validate_only=True)
    yield Row("UpdateFeatures", request, 2)


def _describe_client_quotas(_: Ids) -> Iterator[Row]:
    component = describe_client_quotas.ComponentData(entity_type="user", match_type=0, match=NOBODY)
    request = describe_client_quotas.DescribeClientQuotasRequest(components=(component,), strict=True)
    yield Row("DescribeClientQuotas", request, 1, _entries)


def _entries(answer: Any) -> Any:
    """No entries are null over gRPC."""
    return {**answer, "entries": answer["entries"] or []}


def _alter_client_quotas(_: Ids) -> Iterator[Row]:
    entity = alter_client_quotas.EntityData(entity_type="user", entity_name=NOBODY)
    change = alter_client_quotas.OpData(key="consumer_byte_rate", value=1e6, remove=False)
    entry = alter_client_quotas.EntryData(entity=(entity,), ops=(change,))
    request = alter_client_quotas.AlterClientQuotasRequest(entries=(entry,), validate_only=True)
    yield Row("AlterClientQuotas", request, 1)


def _describe_users(_: Ids) -> Iterator[Row]:
    users = (describe_user_scram_credentials.UserName(name=NOBODY),)
    request = describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=users)
    yield Row("DescribeUserScramCredentials", request, 0)


def _alter_users(_: Ids) -> Iterator[Row]:
    deletion = alter_user_scram_credentials.ScramCredentialDeletion(name=NOBODY, mechanism=1)
    request = alter_user_scram_credentials.AlterUserScramCredentialsRequest(deletions=(deletion,), upsertions=())
    yield Row("AlterUserScramCredentials", request, 0)


def _describe_acls(_: Ids) -> Iterator[Row]:
    yield Row("DescribeAcls", described(_OF_NOBODY), 3)


def _create_acls(_: Ids) -> Iterator[Row]:
    # There is no other cluster, so it is not created even by those that may.
    other_cluster = replace(READ_ORDERS, resource_type=ResourceType.CLUSTER)
    yield Row("CreateAcls", create_acls.CreateAclsRequest(creations=(other_cluster,)), 3)


def _delete_acls(_: Ids) -> Iterator[Row]:
    yield Row("DeleteAcls", delete_acls.DeleteAclsRequest(filters=(_OF_NOBODY,)), 3)


def _api_versions(_: Ids) -> Iterator[Row]:
    yield Row("ApiVersions", api_versions.ApiVersionsRequest(), 3, _code)


CLUSTER_REQUESTS: Final = {
    "<ApiKey.DESCRIBE_CLUSTER: 60>": _describe_cluster,
    "<ApiKey.DESCRIBE_QUORUM: 55>": _describe_quorum,
    "UnregisterBroker": _unregister_broker,
    "UpdateFeatures": _update_features,
    "DescribeClientQuotas": _describe_client_quotas,
    "AlterClientQuotas": _alter_client_quotas,
    "DescribeUserScramCredentials": _describe_users,
    "AlterUserScramCredentials": _alter_users,
    "DescribeAcls": _describe_acls,
    "CreateAcls": _create_acls,
    "DeleteAcls": _delete_acls,
    "<ApiKey.API_VERSIONS: 18>": _api_versions,
}
