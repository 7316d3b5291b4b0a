"""ACLs of tests, and any ACLs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hypothesis import strategies as st

from kraft.metadata.acl_filters import AclFilter
from kraft.metadata.acls import NO_ACLS, AclEntry, Acls, AclsDraft, acl_record
from kraft.metadata.records import AclAdded
from kraft.model.access import Operation, PatternType, PermissionType, ResourceType

ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED

OPERATIONS: Final = tuple(each for each in Operation if each > Operation.ANY)
RESOURCE_TYPES: Final = tuple(each for each in ResourceType if each > ResourceType.ANY)


def entry(
    name: str = "orders",
    operation: Operation = Operation.READ,
    permission: PermissionType = ALLOW,
    *,
    principal: str = "User:alice",
    host: str = "*",
    pattern_type: PatternType = LITERAL,
    resource_type: ResourceType = ResourceType.TOPIC,
) -> AclEntry:
    return AclEntry(
        resource_type=resource_type,
        resource_name=name,
        pattern_type=pattern_type,
        principal=principal,
        host=host,
        operation=operation,
        permission=permission,
    )


def acls_of(entries: Iterable[AclEntry], before: Acls = NO_ACLS) -> Acls:
    draft = AclsDraft(before)
    for each in entries:
        draft.apply(acl_record(AclAdded, each))
    return draft.acls()


# Few letters, so that names are often prefixes of each other.
NAMES: Final = st.text("ab*", min_size=1, max_size=3)
PRINCIPALS: Final = st.sampled_from(["User:a", "User:b", "User:*", "Group:a"])
HOSTS: Final = st.sampled_from(["*", "10.0.0.1", "10.0.0.2"])

ENTRIES: Final[st.SearchStrategy[AclEntry]] = st.builds(
    AclEntry,
    resource_type=st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP]),
    resource_name=NAMES,
    pattern_type=st.sampled_from([LITERAL, PREFIXED]),
    principal=PRINCIPALS,
    host=HOSTS,
    operation=st.sampled_from(OPERATIONS[:6] + OPERATIONS[8:10]),
    permission=st.sampled_from([ALLOW, DENY]),
)

FILTERS: Final[st.SearchStrategy[AclFilter]] = st.builds(
    AclFilter,
    resource_type=st.sampled_from([ResourceType.ANY, ResourceType.TOPIC, ResourceType.GROUP]),
    resource_name=st.none() | NAMES,
    pattern_type=st.sampled_from([each for each in PatternType if each]),
    principal=st.none() | PRINCIPALS,
    host=st.none() | HOSTS,
    operation=st.sampled_from([Operation.ANY, *OPERATIONS[:4]]),
    permission=st.sampled_from([each for each in PermissionType if each]),
)
