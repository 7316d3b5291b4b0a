"""Keys of authorization, who may do what with the resources of the cluster, and of the audit that tells who did."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from kraft.metadata.authorizer import CurrentAuthorizer, super_users_of
from kraft.model.config_keys import boolean, items_of, key, reads, whole_number
from kraft.model.config_types import INT64_MAX
from kraft.model.configs import ConfigType
from kraft.server.config import readers
from kraft.server.config.readers import MIB
from kraft.server.config.values import ConfigWarning

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_OF_ZOOKEEPER: Final = ("kafka.security.authorizer.AclAuthorizer", "kafka.security.auth.SimpleAclAuthorizer")


@reads(ConfigType.STRING)
def _authorizer(text: str) -> str:
    if text in _OF_ZOOKEEPER:
        raise ValueError(f"it keeps ACLs in ZooKeeper, which Kraft has not: set {STANDARD_AUTHORIZER}")
    if text not in ("", STANDARD_AUTHORIZER):
        raise ValueError(f"expected {STANDARD_AUTHORIZER}, or nothing")
    return text


@reads(ConfigType.STRING)
def _super_users(text: str) -> tuple[str, ...]:
    found = super_users_of(text)
    for each in found:
        if ":" not in each:
            raise ValueError(f"{each!r} has no kind: expected principals separated by semicolons, such as User:{each}")
    return tuple(sorted(found))


NODE_ID: Final = "{node.id}"
"""Part of a path that becomes the id of the node."""

AUDIT_REPLICATION_FACTOR: Final = "audit.log.topic.replication.factor"


class DataAccess(StrEnum):
    """What clients do with records, as far as an audit may have it."""

    READS = "reads"
    WRITES = "writes"
    GROUPS = "groups"


@reads(ConfigType.LIST)
def _data(text: str) -> frozenset[DataAccess]:
    names = items_of(text)
    if any(name not in list(DataAccess) for name in names):
        raise ValueError(f"expected some of {', '.join(DataAccess)}, separated by commas")
    return frozenset(DataAccess(name) for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    """The audit log of a broker."""

    path: Path | None = key(
        "audit.log.path",
        readers.file,
        "File for audit lines: what administrators change, and what clients are refused; one per node, {node.id} in it"
        " is the node's id. By default nothing is written. Kraft only.",
        default=None,
    )
    has_topic: bool = key(
        "audit.log.topic.enable",
        boolean,
        "Audit lines are also records of the topic __audit, which brokers create, and only they write. Kraft only.",
        default=False,
    )
    replication_factor: int = key(
        AUDIT_REPLICATION_FACTOR,
        whole_number(1, 32_767),
        "Replication factor of __audit, used when the topic is created; not created with fewer brokers. A node that is"
        " the whole cluster uses 1 if the key is not set. Kraft only.",
        default=3,
    )
    data: frozenset[DataAccess] = key(
        "audit.log.data",
        _data,
        "Uses of data that have audit lines, too: reads (of topics), writes (to topics), groups (membership and"
        " offsets). Kraft only.",
        default=frozenset(),
    )
    data_interval_ms: int = key(
        "audit.log.data.interval.ms",
        whole_number(1_000, INT64_MAX),
        "Time in which a connection's uses of one topic or group have one audit line. Kraft only.",
        default=60_000,
    )
    bytes_max: int = key(
        "audit.log.max.bytes",
        whole_number(MIB, INT64_MAX),
        "Size at which audit.log.path is renamed (suffix .1) and a new one begins. Kraft only.",
        default=64 * MIB,
    )
    backups_max: int = key(
        "audit.log.max.backups",
        whole_number(1, 1_000),
        "Number of renamed audit logs to keep. Kraft only.",
        default=10,
    )

    def of_node(self, node_id: int) -> AuditSettings:
        """Return the settings with the path of the node's own file."""
        return replace(self, path=None if self.path is None else Path(str(self.path).replace(NODE_ID, str(node_id))))


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSettings:
    authorizer_class: str = key(
        "authorizer.class.name",
        _authorizer,
        f"{STANDARD_AUTHORIZER}: clients may do what ACLs allow. By default, every client may do everything.",
        default="",
    )
    super_users: tuple[str, ...] = key(
        "super.users",
        _super_users,
        "Principals that may do everything, whatever ACLs say, separated by semicolons: User:admin;User:ops.",
        default=(),
    )
    allow_if_no_acl: bool = key(
        "allow.everyone.if.no.acl.found",
        boolean,
        "Every client may do everything with a resource that no ACL concerns.",
        default=False,
    )

    def warnings(self) -> list[ConfigWarning]:
        if not self.authorizer_class or self.super_users:
            return []
        return [
            ConfigWarning(
                "super.users",
                "is not set: only ACLs make administrators, and without an administrator nobody can create ACLs:"
                " name one that nobody can lock out, such as super.users=User:admin",
            )
        ]

    def authorizer(self) -> CurrentAuthorizer | None:
        """Return what decides; None if nobody is asked."""
        if not self.authorizer_class:
            return None
        return CurrentAuthorizer(frozenset(self.super_users), allow_if_no_acl=self.allow_if_no_acl)
