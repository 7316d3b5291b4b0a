"""Whether a change of ACLs leaves nobody, or not the one who makes it, to change them again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from kraft.access.administrators import (
    BY_ACLS_ALONE,
    AccessSettings,
    administers,
    loses_last_administrator,
    may_lose_last_administrator,
    visible_settings,
)
from kraft.access.rights import Effect, effects
from kraft.metadata.acl_filters import AclFilter
from kraft.model.access import EVERY_USER, ResourceType

if TYPE_CHECKING:
    from kraft.client import Admin
    from kraft.metadata.acls import AclEntry

PRINCIPALS_ASKED_MAX: Final = 20
"""Of more principals, all ACLs of the cluster are asked for."""


class Consequences(Struct, frozen=True, kw_only=True):
    effects: list[Effect]
    existing: frozenset[AclEntry]
    """ACLs that are there before the change."""

    warning: str
    """Why it should not be done; empty if nothing is in the way."""


def consequences(
    admin: Admin,
    who: str,
    timeout_ms: int,
    *,
    created: Sequence[AclEntry] = (),
    deleted: Collection[AclEntry] = (),
) -> Consequences:
    """Return what a change does if `who`, a principal, makes it. Raises the cluster's Refusal."""
    before = _concerned(admin, {each.principal for each in (*created, *deleted)}, timeout_ms)
    gone = set(deleted)
    after = [each for each in dict.fromkeys([*before, *created]) if each not in gone]
    warning = ""
    if any(each.resource_type is ResourceType.CLUSTER for each in (*created, *deleted)):
        of_cluster = admin.describe_acls(AclFilter(resource_type=ResourceType.CLUSTER), timeout_ms=timeout_ms)
        added = [each for each in created if each.resource_type is ResourceType.CLUSTER]
        then = [each for each in dict.fromkeys([*of_cluster, *added]) if each not in gone]
        warning = problem_of_change(of_cluster, then, visible_settings(admin), who)
    return Consequences(
        effects=effects(before, after, [*created, *deleted]), existing=frozenset(before), warning=warning
    )


def problem_of_change(
    before: Sequence[AclEntry], after: Sequence[AclEntry], settings: AccessSettings | None, who: str
) -> str:
    """Return what is wrong with a change of the cluster's ACLs; empty if nothing is.

    `settings` is None if whoever makes it may not see them.
    """
    if settings is None and may_lose_last_administrator(before, after):
        return (
            "afterwards no principal would have ALTER on the cluster, and you may not see whether the brokers have"
            " super.users; without them nobody could change ACLs any more"
        )
    if settings is not None and loses_last_administrator(before, after, settings):
        return (
            "afterwards no principal would have ALTER on the cluster, and the brokers have no super.users, so nobody"
            " could change ACLs any more"
        )
    known = settings or BY_ACLS_ALONE
    if administers(who, before, known) and not administers(who, after, known):
        return "afterwards you yourself could change no ACLs any more"
    return ""


def _concerned(admin: Admin, principals: set[str], timeout_ms: int) -> list[AclEntry]:
    if len(principals) > PRINCIPALS_ASKED_MAX:
        return admin.describe_acls(timeout_ms=timeout_ms)
    return [
        entry
        for each in sorted(principals | {EVERY_USER})
        for entry in admin.describe_acls(AclFilter(principal=each), timeout_ms=timeout_ms)
    ]
