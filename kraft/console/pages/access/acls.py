"""ACLs: search among them, and what one principal may do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, structs

from kraft.access.administrators import BY_ACLS_ALONE, visible_settings
from kraft.access.rights import Rights, decide, rights_of
from kraft.access.words import OPERATIONS, PERMISSIONS, RESOURCE_TYPES
from kraft.console.asking import CLIENT_MS, Asked, Paged, Panel, Wanted, wanted
from kraft.console.forms import Form, WrongInput
from kraft.console.pages.access.acl_fields import chosen, fields_of, filter_in, principal_in
from kraft.console.pages.access.acl_rows import AclRow, row_of
from kraft.metadata.acl_filters import AclFilter
from kraft.model.access import CLUSTER_NAME, EVERY_USER, WILDCARD, Operation, PatternType, ResourceType, words
from kraft.model.principal import Principal

if TYPE_CHECKING:
    from kraft.client import Admin
    from kraft.metadata.acls import AclEntry

SORTS: Final = ("name", "principal")

RESOURCES: Final = tuple(map(words, RESOURCE_TYPES))
OPERATION_NAMES: Final = tuple(map(words, OPERATIONS))
PERMISSION_NAMES: Final = tuple(map(words, PERMISSIONS))


class ListedAcl(Struct, frozen=True, kw_only=True):
    acl: AclRow
    fields: dict[str, str]
    """What chooses it alone, to delete it."""


class Acls(Struct, frozen=True, kw_only=True):
    acls: Panel[Paged[ListedAcl]]
    filters: dict[str, str]
    """What the address asks for."""

    resources: tuple[str, ...] = RESOURCES
    operations: tuple[str, ...] = OPERATION_NAMES
    permissions: tuple[str, ...] = PERMISSION_NAMES

    @property
    def status(self) -> int:
        return self.acls.status


class RightsRow(Struct, frozen=True, kw_only=True):
    """What ACLs say about resources of one pattern at one host."""

    resource_type: str
    resource_name: str
    pattern_type: str
    host: str
    everybody: bool
    """Whether it is said to everybody."""

    allowed: list[str]
    implied: list[str]
    denied: list[str]


class RightsOf(Struct, frozen=True, kw_only=True):
    principal: str
    is_super_user: bool | None
    """None: it may not be seen."""

    is_authorized: bool
    """Whether the brokers ask ACLs at all."""

    rows: list[RightsRow]


class Answer(Struct, frozen=True, kw_only=True):
    """Whether a principal may do something, and why."""

    allowed: bool
    question: str
    reason: str
    acl: AclRow | None


class AclsOf(Struct, frozen=True, kw_only=True):
    rights: Panel[RightsOf]
    answer: Panel[Answer | None]
    resources: tuple[str, ...] = RESOURCES
    operations: tuple[str, ...] = OPERATION_NAMES

    @property
    def status(self) -> int:
        return self.rights.status


async def acls(asked: Asked) -> Acls:
    filters = {each: asked.form.text(each) for each in ("principal", "type", "resource", "operation", "host")}
    filters["permission"] = asked.form.text("permission")
    listed = await asked.panel(lambda: _listed(asked.admin, filter_in(asked.form), wanted(asked.query, SORTS)))
    return Acls(acls=listed, filters={name: value for name, value in filters.items() if value})


def _listed(admin: Admin, chosen_by: AclFilter, asked_for: Wanted) -> Paged[ListedAcl]:
    all_of_them = admin.describe_acls(chosen_by, timeout_ms=CLIENT_MS)
    found = [each for each in all_of_them if asked_for.matches(each.principal) or asked_for.matches(each.resource_name)]
    # Only the rows of this page are made: there may be 100,000 ACLs.
    page: Any = asked_for.shown(found, len(all_of_them), _by_principal if asked_for.sort == "principal" else _order)
    shown: Paged[ListedAcl] = structs.replace(
        page, rows=[ListedAcl(acl=row_of(each), fields=fields_of(each)) for each in page.rows]
    )
    return shown


def _order(entry: AclEntry) -> tuple[Any, ...]:
    """Return what ACLs are sorted by: without words, which take the time of the rest together."""
    pattern_type, operation = entry.pattern_type, entry.operation
    return entry.resource_type, entry.resource_name, pattern_type, entry.principal, entry.host, operation


def _by_principal(entry: AclEntry) -> tuple[Any, ...]:
    return entry.principal, entry.resource_type, entry.resource_name, entry.pattern_type, entry.host, entry.operation


# --- what a principal may do ---------------------------------------------------------------------------------------


async def acls_of(asked: Asked) -> AclsOf:
    principal = principal_in(asked.form) or own_principal(asked)
    rights, answer = await asyncio.gather(
        asked.panel(lambda: _rights(asked.admin, principal)),
        asked.panel(lambda: _answer(asked.admin, principal, asked.form)),
    )
    return AclsOf(rights=rights, answer=answer)


def own_principal(asked: Asked) -> str:
    """Return the principal of whoever asks."""
    return str(Principal(asked.user or "ANONYMOUS"))


def _held(admin: Admin, principal: str) -> list[AclEntry]:
    return [
        entry
        for each in dict.fromkeys([principal, EVERY_USER])
        for entry in admin.describe_acls(AclFilter(principal=each), timeout_ms=CLIENT_MS)
    ]


def _rights(admin: Admin, principal: str) -> RightsOf:
    rows = [_rights_row(each) for each in rights_of(_held(admin, principal), principal)]
    settings = visible_settings(admin)
    return RightsOf(
        principal=principal,
        is_super_user=None if settings is None else principal in settings.super_users,
        is_authorized=(settings or BY_ACLS_ALONE).is_authorized,
        rows=rows,
    )


def _rights_row(rights: Rights) -> RightsRow:
    return RightsRow(
        resource_type=words(rights.resource_type),
        resource_name=rights.resource_name,
        pattern_type=words(rights.pattern_type),
        host=rights.host,
        everybody=rights.principal == EVERY_USER,
        allowed=list(map(words, rights.allowed)),
        implied=list(map(words, rights.implied)),
        denied=list(map(words, rights.denied)),
    )


def _answer(admin: Admin, principal: str, form: Form) -> Answer | None:
    """Raises WrongInput."""
    if not form.text("operation"):
        return None
    operation = chosen(form, "operation", OPERATIONS, Operation.ANY)
    resource_type = chosen(form, "type", RESOURCE_TYPES, ResourceType.TOPIC)
    is_cluster = resource_type is ResourceType.CLUSTER
    name = CLUSTER_NAME if is_cluster else form.raw("resource")
    if not name:
        raise WrongInput(f"name the {words(resource_type)} that the question is about")
    # Whoever asks from no special host is asked about by the ACLs of every host.
    host = form.text("host") or WILDCARD
    about = AclFilter(resource_type=resource_type, resource_name=name, pattern_type=PatternType.MATCH)
    concerning = admin.describe_acls(about, timeout_ms=CLIENT_MS)
    decision = decide(concerning, visible_settings(admin), (principal, host), operation, (resource_type, name))
    on = "the cluster" if is_cluster else f"{words(resource_type)} {name}"
    return Answer(
        allowed=decision.is_allowed,
        question=f"{words(operation)} on {on}",
        reason=decision.reason.value,
        acl=None if decision.entry is None else row_of(decision.entry),
    )
