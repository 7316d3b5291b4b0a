"""What ACLs speak of: operations, kinds of resources, patterns and permissions, with Kafka's names and numbers.

Source: KIP-11 (authorization), KIP-290 (prefixed patterns), KIP-679 (what idempotent producers need).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from kraft.model.principal import USER

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""

WILDCARD: Final = "*"
"""As a literal name: every resource of a type. As a host: every host."""

EVERY_USER: Final = f"{USER}:{WILDCARD}"
"""The principal of an ACL that is for all principals."""


class ResourceType(IntEnum):
    """Kind of what is protected."""

    UNKNOWN = 0
    ANY = 1
    """In filters only."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7

    # A number's own, in C: these are in the keys of every decision.
    __hash__ = int.__hash__


class PatternType(IntEnum):
    """Way in which the name of an ACL's resource is read."""

    UNKNOWN = 0
    ANY = 1
    """In filters only: ACLs whose pattern has exactly this name."""

    MATCH = 2
    """In filters only: ACLs that concern a resource of this name."""

    LITERAL = 3
    PREFIXED = 4

    __hash__ = int.__hash__


class Operation(IntEnum):
    """What may be done."""

    UNKNOWN = 0
    ANY = 1
    """In filters only."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15

    __hash__ = int.__hash__


class PermissionType(IntEnum):
    """Whether an ACL allows or denies."""

    UNKNOWN = 0
    ANY = 1
    """In filters only."""

    DENY = 2
    ALLOW = 3

    __hash__ = int.__hash__


ALLOWED_BY: Final[Mapping[Operation, frozenset[Operation]]] = {
    Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
"""The operations whose ALLOW also allows another one. A DENY denies only what it names."""


OPERATIONS_ON: Final[Mapping[ResourceType, tuple[Operation, ...]]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}
"""The operations that exist on each type of resource (KIP-430)."""


def words(value: ResourceType | PatternType | Operation | PermissionType) -> str:
    """Return a name for people: `transactional id`."""
    return value.name.replace("_", " ").lower()
