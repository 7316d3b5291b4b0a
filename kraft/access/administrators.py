"""Who may change ACLs, and what a decision on this machine needs to know of the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from kraft.metadata.acls import NO_ACLS, AclEntry, AclsDraft, acl_record
from kraft.metadata.authorizer import Authorizer, super_users_of
from kraft.metadata.records import AclAdded
from kraft.model.access import CLUSTER_NAME, EVERY_USER, Operation, PermissionType, ResourceType

if TYPE_CHECKING:
    from kraft.client import Admin

AUTHORIZER_KEY = "authorizer.class.name"
SUPER_USERS_KEY = "super.users"
ALLOW_IF_NO_ACL_KEY = "allow.everyone.if.no.acl.found"


class AccessSettings(Struct, frozen=True, kw_only=True):
    """What a broker's file says about authorization."""

    is_authorized: bool
    super_users: frozenset[str]
    allow_if_no_acl: bool


BY_ACLS_ALONE = AccessSettings(is_authorized=True, super_users=frozenset(), allow_if_no_acl=False)
BY_ACLS_WHERE_THERE_ARE_ANY = AccessSettings(is_authorized=True, super_users=frozenset(), allow_if_no_acl=True)


BROKER_MS: Final = 1_000
"""Longest wait for a broker as long as there is another one to ask."""


def access_settings(admin: Admin) -> AccessSettings:
    """Return those of the first broker that answers."""
    configs = _configs_of_a_broker(admin)
    return AccessSettings(
        is_authorized=bool(configs.get(AUTHORIZER_KEY)),
        super_users=super_users_of(configs.get(SUPER_USERS_KEY, "")),
        allow_if_no_acl=configs.get(ALLOW_IF_NO_ACL_KEY, "").lower() == "true",
    )


def _configs_of_a_broker(admin: Admin) -> dict[str, str]:
    from kraft.client import ErrorCode, Refusal
    from kraft.rpc.peers import Unreachable

    brokers = admin.describe_brokers()
    broker_ids = [each.broker_id for each in brokers if not each.fenced] or [each.broker_id for each in brokers]
    while True:
        broker_id, *others = broker_ids
        try:
            configs = admin.describe_broker_configs(broker_id, timeout_ms=BROKER_MS if others else None)
        except (Unreachable, Refusal) as error:
            is_away = isinstance(error, Unreachable) or error.error_code is ErrorCode.BROKER_NOT_AVAILABLE
            if not (is_away and others):
                raise
            broker_ids = others
        else:
            return {each.name: each.value or "" for each in configs}


def visible_settings(admin: Admin) -> AccessSettings | None:
    """Return the same; None if the client may not see them, which takes DESCRIBE_CONFIGS on the cluster."""
    from kraft.client import ErrorCode, Refusal

    try:
        return access_settings(admin)
    except Refusal as refusal:
        if refusal.error_code is not ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise
        return None


def authorizer_of(entries: Iterable[AclEntry], settings: AccessSettings) -> Authorizer:
    draft = AclsDraft(NO_ACLS)
    for each in entries:
        draft.apply(acl_record(AclAdded, each))
    return Authorizer(draft.acls(), settings.super_users, allow_if_no_acl=settings.allow_if_no_acl)


def loses_last_administrator(before: Sequence[AclEntry], after: Sequence[AclEntry], settings: AccessSettings) -> bool:
    """Return whether somebody is allowed to change ACLs now, and after a change of the cluster's ACLs nobody is.

    An administrator is a super user, or a principal with ALTER on the cluster from some host.
    """
    return is_administered(before, settings) and not is_administered(after, settings)


def may_lose_last_administrator(before: Sequence[AclEntry], after: Sequence[AclEntry]) -> bool:
    """Return whether that is so for a broker without super users, whose file nobody has to see for a "no"."""
    return any(
        loses_last_administrator(before, after, settings) for settings in (BY_ACLS_ALONE, BY_ACLS_WHERE_THERE_ARE_ANY)
    )


def is_last_administrator(principal: str, entries: Iterable[AclEntry], settings: AccessSettings) -> bool:
    """Return whether nobody but this principal is allowed to change ACLs, by those of the cluster."""
    allowed = settings.super_users | {each.principal for each in _administrators(list(entries))}
    return allowed == {principal}


def is_administered(of_cluster: Sequence[AclEntry], settings: AccessSettings = BY_ACLS_ALONE) -> bool:
    """Return whether anybody is allowed to change ACLs, by those of the cluster."""
    is_open = settings.allow_if_no_acl and not of_cluster
    return is_open or bool(settings.super_users) or bool(_administrators(of_cluster))


def _administrators(entries: Sequence[AclEntry]) -> list[AclEntry]:
    """Return the ACLs that allow ALTER on the cluster and that no DENY takes back as a whole."""
    concerning = [
        each
        for each in entries
        if each.resource_type is ResourceType.CLUSTER
        and each.resource_name in (CLUSTER_NAME, "*")
        and each.operation in (Operation.ALTER, Operation.ALL)
    ]
    denied = [each for each in concerning if each.permission is PermissionType.DENY]
    return [
        each
        for each in concerning
        if each.permission is PermissionType.ALLOW
        and not any(deny.principal in (each.principal, "User:*") and deny.host in (each.host, "*") for deny in denied)
    ]


def administers(principal: str, entries: Sequence[AclEntry], settings: AccessSettings) -> bool:
    """Return whether a principal may change ACLs from some host."""
    if not settings.is_authorized or principal in settings.super_users:
        return True
    allowed = (each.principal for each in _administrators(entries))
    return any(each in (principal, EVERY_USER) for each in allowed) or (settings.allow_if_no_acl and not entries)
