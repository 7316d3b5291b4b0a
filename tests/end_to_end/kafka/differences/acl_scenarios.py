"""CreateAcls, DescribeAcls and DeleteAcls, to a broker with an authorizer, and to one without."""

from __future__ import annotations

from typing import Any, Final

from kraft.model.access import Operation, PatternType, PermissionType, ResourceType
from kraft.wire.declaration import replace
from kraft.wire.schema.create_acls import AclCreation, CreateAclsRequest
from kraft.wire.schema.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kraft.wire.schema.describe_acls import DescribeAclsRequest
from tests.end_to_end.kafka.differences.peer import Peer

VERSIONS: Final = (1, 2, 3)

READ_ORDERS: Final = AclCreation(
    resource_type=ResourceType.TOPIC,
    resource_name="orders",
    resource_pattern_type=PatternType.LITERAL,
    principal="User:alice",
    host="*",
    operation=Operation.READ,
    permission_type=PermissionType.ALLOW,
)

FILTER: Final = DeleteAclsFilter(
    resource_type_filter=ResourceType.ANY,
    resource_name_filter=None,
    pattern_type_filter=PatternType.ANY,
    principal_filter=None,
    host_filter=None,
    operation=Operation.ANY,
    permission_type=PermissionType.ANY,
)


def described(wanted: DeleteAclsFilter) -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=wanted.resource_type_filter,
        resource_name_filter=wanted.resource_name_filter,
        pattern_type_filter=wanted.pattern_type_filter,
        principal_filter=wanted.principal_filter,
        host_filter=wanted.host_filter,
        operation=wanted.operation,
        permission_type=wanted.permission_type,
    )


def acls_without_authorizer(peer: Peer) -> None:
    for version in VERSIONS:
        peer.ask(f"v{version} create", CreateAclsRequest(creations=(READ_ORDERS,) * 2), version)
        peer.ask(f"v{version} describe", described(FILTER), version)
        peer.ask(f"v{version} delete", DeleteAclsRequest(filters=(FILTER,)), version)


def create_acls(peer: Peer) -> None:
    def ask(what: str, **changes: Any) -> None:
        creation = replace(READ_ORDERS, **changes)
        for version in VERSIONS:
            peer.ask(f"v{version} {what}", CreateAclsRequest(creations=(creation,)), version)

    ask("one, and again")
    ask("prefixed", resource_pattern_type=PatternType.PREFIXED)
    ask("every topic", resource_name="*")
    ask("a prefix that is a star", resource_name="*", resource_pattern_type=PatternType.PREFIXED)
    ask("odd name", resource_name="a b/ü")
    ask("no name", resource_name="")
    ask("everybody", principal="User:*", host="10.0.0.1")
    ask("a group as principal", principal="Group:a:b")
    ask("no kind", principal="alice")
    ask("no principal", principal="")
    ask("nothing but a colon", principal=":")
    ask("odd host", host="not an address")
    ask("no host", host="")
    for resource_type in (2, 3, 5, 6, 7, 99):
        ask(f"resource type {resource_type}", resource_type=resource_type)
    ask("the cluster", resource_type=ResourceType.CLUSTER, resource_name="kafka-cluster")
    ask("another cluster", resource_type=ResourceType.CLUSTER)
    for operation in (*range(2, 16), 99):
        ask(f"operation {operation}", operation=operation)
    ask("denied", permission_type=PermissionType.DENY)
    ask("permission 99", permission_type=99)
    ask("pattern type 99", resource_pattern_type=99)
    ask("resource type ANY", resource_type=ResourceType.ANY)
    ask("operation ANY", operation=Operation.ANY)
    ask("permission ANY", permission_type=PermissionType.ANY)
    ask("pattern type ANY", resource_pattern_type=PatternType.ANY)
    ask("pattern type MATCH", resource_pattern_type=PatternType.MATCH)
    mixed = (READ_ORDERS, replace(READ_ORDERS, principal="alice"), replace(READ_ORDERS, resource_name="mixed"))
    peer.ask("some of them", CreateAclsRequest(creations=mixed), 3)
    peer.ask("none", CreateAclsRequest(creations=()), 3)
    many = tuple(replace(READ_ORDERS, resource_name=f"many-{number}") for number in range(10_001))
    peer.ask("too many", CreateAclsRequest(creations=many), 3, keep=_distinct_results)
    ask("resource type UNKNOWN", resource_type=ResourceType.UNKNOWN)
    ask("operation UNKNOWN", operation=Operation.UNKNOWN)
    ask("permission UNKNOWN", permission_type=PermissionType.UNKNOWN)
    ask("pattern type UNKNOWN", resource_pattern_type=PatternType.UNKNOWN)
    _delete_all(peer)


CREATED: Final = (
    READ_ORDERS,
    replace(READ_ORDERS, permission_type=PermissionType.DENY, host="10.0.0.1"),
    replace(READ_ORDERS, resource_pattern_type=PatternType.PREFIXED),
    replace(READ_ORDERS, resource_name="ord", resource_pattern_type=PatternType.PREFIXED, operation=Operation.ALL),
    replace(READ_ORDERS, resource_name="*", principal="User:*"),
    replace(READ_ORDERS, resource_name="other", operation=Operation.WRITE),
    replace(READ_ORDERS, resource_type=ResourceType.GROUP),
    replace(READ_ORDERS, resource_type=ResourceType.CLUSTER, resource_name="kafka-cluster", operation=Operation.ALTER),
)

FILTERS: Final[dict[str, dict[str, Any]]] = {
    "every": {},
    "topics": {"resource_type_filter": ResourceType.TOPIC},
    "any of that name": {"resource_name_filter": "orders"},
    "literal": {"resource_name_filter": "orders", "pattern_type_filter": PatternType.LITERAL},
    "prefixed": {"resource_name_filter": "orders", "pattern_type_filter": PatternType.PREFIXED},
    "all that concern it": {"resource_name_filter": "orders", "pattern_type_filter": PatternType.MATCH},
    "all that concern another": {"resource_name_filter": "order", "pattern_type_filter": PatternType.MATCH},
    "all that concern a star": {"resource_name_filter": "*", "pattern_type_filter": PatternType.MATCH},
    "literal, no name": {"pattern_type_filter": PatternType.LITERAL},
    "match, no name": {"pattern_type_filter": PatternType.MATCH},
    "alice": {"principal_filter": "User:alice"},
    "everybody": {"principal_filter": "User:*"},
    "odd principal": {"principal_filter": "alice"},
    "from a host": {"host_filter": "10.0.0.1"},
    "from all hosts": {"host_filter": "*"},
    "reads": {"operation": Operation.READ},
    "all operations": {"operation": Operation.ALL},
    "denied": {"permission_type": PermissionType.DENY},
    "the cluster": {"resource_type_filter": ResourceType.CLUSTER},
    "nothing": {"resource_name_filter": "nowhere"},
    "an empty name": {"resource_name_filter": ""},
    "one exactly": {
        "resource_type_filter": ResourceType.TOPIC,
        "resource_name_filter": "orders",
        "pattern_type_filter": PatternType.LITERAL,
        "principal_filter": "User:alice",
        "host_filter": "*",
        "operation": Operation.READ,
        "permission_type": PermissionType.ALLOW,
    },
}

UNKNOWN: Final[dict[str, dict[str, Any]]] = {
    "resource type UNKNOWN": {"resource_type_filter": ResourceType.UNKNOWN},
    "pattern type UNKNOWN": {"pattern_type_filter": PatternType.UNKNOWN},
    "operation UNKNOWN": {"operation": Operation.UNKNOWN},
    "permission UNKNOWN": {"permission_type": PermissionType.UNKNOWN},
}


def describe_acls(peer: Peer) -> None:
    peer.call(CreateAclsRequest(creations=CREATED), 3)
    peer.until(described(FILTER), 3, lambda answer: sum(len(each.acls) for each in answer.resources) == len(CREATED))
    for what, changes in {**FILTERS, **UNKNOWN}.items():
        for version in VERSIONS:
            peer.ask(f"v{version} {what}", described(replace(FILTER, **changes)), version, keep=_sorted_resources)
    _delete_all(peer)


def delete_acls(peer: Peer) -> None:
    for what, changes in {**FILTERS, **UNKNOWN}.items():
        peer.call(CreateAclsRequest(creations=CREATED), 3)
        request = DeleteAclsRequest(filters=(replace(FILTER, **changes),))
        peer.ask(what, request, 3, keep=_sorted_matching)
    peer.call(CreateAclsRequest(creations=CREATED), 3)
    twice = (replace(FILTER, operation=Operation.READ), replace(FILTER, resource_name_filter="orders"))
    peer.ask("one by two filters", DeleteAclsRequest(filters=twice), 3, keep=_sorted_matching)
    peer.ask("no filter", DeleteAclsRequest(filters=()), 3)
    _delete_all(peer)


def _delete_all(peer: Peer) -> None:
    peer.call(DeleteAclsRequest(filters=(FILTER,)), 3)
    peer.until(described(FILTER), 3, lambda answer: not answer.resources)


def _distinct_results(answer: Any) -> Any:
    answer["results"] = [len(answer["results"]), *{str(each): each for each in answer["results"]}.values()]
    return answer


def _sorted_resources(answer: Any) -> Any:
    for resource in answer["resources"]:
        resource["acls"].sort(key=str)
    answer["resources"].sort(key=str)
    return answer


def _sorted_matching(answer: Any) -> Any:
    for result in answer["filter_results"]:
        result["matching_acls"].sort(key=str)
    return answer


SCENARIOS: Final = (create_acls, describe_acls, delete_acls)
"""Scenarios for a broker with an authorizer, which has everybody as its super user."""
