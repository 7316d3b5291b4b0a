"""ACLs by purpose: what consumers, producers and administrators need, and the entries that say so.

Source: the options --consumer, --producer and --idempotent of Kafka's kafka-acls.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Final

from kraft.metadata.acls import AclEntry
from kraft.model.access import (
    CLUSTER_NAME,
    OPERATIONS_ON,
    WILDCARD,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)

Resource = tuple[ResourceType, str]

Right = tuple[Resource, Operation]
"""What is done, and with what."""

Held = tuple[PermissionType, str, str]
"""Permission, principal and host."""

CLUSTER: Final[Resource] = (ResourceType.CLUSTER, CLUSTER_NAME)


def consumer(topics: Sequence[str], groups: Sequence[str]) -> list[Right]:
    return [
        *_each(ResourceType.TOPIC, topics, Operation.READ, Operation.DESCRIBE),
        *_each(ResourceType.GROUP, groups, Operation.READ),
    ]


def producer(topics: Sequence[str], transactional_ids: Sequence[str], *, is_idempotent: bool = False) -> list[Right]:
    """`is_idempotent`: brokers older than 2.8 ask for it, newer ones only of producers without WRITE on any topic."""
    return [
        *_each(ResourceType.TOPIC, topics, Operation.WRITE, Operation.DESCRIBE, Operation.CREATE),
        *_each(ResourceType.TRANSACTIONAL_ID, transactional_ids, Operation.WRITE, Operation.DESCRIBE),
        *([(CLUSTER, Operation.IDEMPOTENT_WRITE)] if is_idempotent else []),
    ]


def viewer() -> list[Right]:
    """Return what lets somebody look at all of a cluster, but not at its records."""
    looks = (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
    return [
        *product([CLUSTER, (ResourceType.TOPIC, WILDCARD), (ResourceType.GROUP, WILDCARD)], looks),
        ((ResourceType.TRANSACTIONAL_ID, WILDCARD), Operation.DESCRIBE),
    ]


def administrator() -> list[Right]:
    return [
        (CLUSTER, Operation.ALL),
        *(
            ((each, WILDCARD), Operation.ALL)
            for each in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
        ),
    ]


def never_asked(rights: Iterable[Right]) -> Right | None:
    """Return the first right that nobody ever asks for, so that an ACL for it would do nothing; None if all exist."""
    for right in rights:
        (resource_type, _), operation = right
        known = OPERATIONS_ON.get(resource_type)
        if known is not None and operation not in (Operation.ALL, *known):
            return right
    return None


def entries(rights: Sequence[Right], held: Sequence[Held], pattern_type: PatternType) -> list[AclEntry]:
    """Return the ACLs that say all of it."""
    return [
        AclEntry(
            resource_type=resource_type,
            resource_name=name,
            # The cluster has one name, which nothing else begins with.
            pattern_type=PatternType.LITERAL if resource_type is ResourceType.CLUSTER else pattern_type,
            principal=principal,
            host=host,
            operation=operation,
            permission=permission,
        )
        for ((resource_type, name), operation), (permission, principal, host) in product(rights, held)
    ]


def _each(resource_type: ResourceType, names: Sequence[str], *allowed: Operation) -> list[Right]:
    return list(product([(resource_type, name) for name in names], allowed))
