"""What one principal may do by the ACLs of a cluster, and what becomes of it when these change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from kraft.access.administrators import BY_ACLS_ALONE, AccessSettings, authorizer_of
from kraft.metadata.acl_filters import AclFilter
from kraft.metadata.acls import AclEntry
from kraft.metadata.authorizer import Decision, Requester
from kraft.model.access import (
    ALLOWED_BY,
    EVERY_USER,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)


class Rights(Struct, frozen=True, kw_only=True):
    """What ACLs say to a principal about resources of one pattern at one host."""

    resource_type: ResourceType
    pattern_type: PatternType
    resource_name: str
    principal: str
    """The principal, or `User:*`."""

    host: str
    allowed: tuple[Operation, ...]
    implied: tuple[Operation, ...]
    """Allowed because another operation is."""

    denied: tuple[Operation, ...]
    """These win over whatever allows them."""


class Effect(Struct, frozen=True, kw_only=True):
    """What becomes of one ACL's holder by a change."""

    entry: AclEntry
    was_allowed: bool
    is_allowed: bool


def concerns(entry: AclEntry, principal: str) -> bool:
    return entry.principal in (principal, EVERY_USER)


def rights_of(entries: Iterable[AclEntry], principal: str) -> list[Rights]:
    """Return all that ACLs say to a principal, in order of the resources."""
    found: dict[tuple[ResourceType, str, PatternType, str, str], list[AclEntry]] = {}
    for each in entries:
        if concerns(each, principal):
            key = each.resource_type, each.resource_name, each.pattern_type, each.principal, each.host
            found.setdefault(key, []).append(each)
    return [_rights(found[key]) for key in sorted(found)]


def _rights(entries: Sequence[AclEntry]) -> Rights:
    first = entries[0]
    allowed = {each.operation for each in entries if each.permission is PermissionType.ALLOW}
    denied = {each.operation for each in entries if each.permission is PermissionType.DENY}
    implied = {wanted for wanted, by in ALLOWED_BY.items() if allowed & by} - allowed - denied
    return Rights(
        resource_type=first.resource_type,
        pattern_type=first.pattern_type,
        resource_name=first.resource_name,
        principal=first.principal,
        host=first.host,
        allowed=tuple(sorted(allowed)),
        implied=() if Operation.ALL in allowed else tuple(sorted(implied)),
        denied=tuple(sorted(denied)),
    )


def decide(
    entries: Iterable[AclEntry],
    settings: AccessSettings | None,
    requester: tuple[str, str],
    operation: Operation,
    resource: tuple[ResourceType, str],
) -> Decision:
    """Return whether a principal at a host may do this; by ACLs alone where the settings cannot be seen."""
    return authorizer_of(entries, settings or BY_ACLS_ALONE).decide(Requester(*requester), operation, *resource)


def effects(before: Sequence[AclEntry], after: Sequence[AclEntry], changed: Iterable[AclEntry]) -> list[Effect]:
    """Return for each ACL that is created or deleted whether its holder may do what it says, before and after."""
    then, now = authorizer_of(before, BY_ACLS_ALONE), authorizer_of(after, BY_ACLS_ALONE)
    found = []
    for each in changed:
        asked = Requester(each.principal, each.host), each.operation, each.resource_type, each.resource_name
        found.append(
            Effect(entry=each, was_allowed=then.decide(*asked).is_allowed, is_allowed=now.decide(*asked).is_allowed)
        )
    return found


def exactly(entry: AclEntry) -> AclFilter:
    """Return the filter that selects this ACL alone."""
    return AclFilter(
        resource_type=entry.resource_type,
        resource_name=entry.resource_name,
        pattern_type=entry.pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission=entry.permission,
    )
