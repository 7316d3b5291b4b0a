"""Keys of authorization: who may do what with the resources of the cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kraft.metadata.authorizer import CurrentAuthorizer, super_users_of
from kraft.model.config_keys import boolean, key, reads
from kraft.model.configs import ConfigType

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

    def authorizer(self) -> CurrentAuthorizer | None:
        """Return what decides; None if nobody is asked."""
        if not self.authorizer_class:
            return None
        return CurrentAuthorizer(frozenset(self.super_users), allow_if_no_acl=self.allow_if_no_acl)
