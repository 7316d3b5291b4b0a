"""ACLs: create them by purpose and delete them, each with a preview of what it does to whom."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from kraft.access.lockout import Consequences, consequences
from kraft.access.rights import Effect, exactly
from kraft.access.words import OPERATIONS, PERMISSIONS, RESOURCE_TYPES
from kraft.console.asking import CHANGE_CLIENT_MS, CLIENT_MS, Asked, Panel
from kraft.console.forms import Changed, Done, WrongInput
from kraft.console.pages.access.acl_fields import PURPOSES, filter_in, wanted_entries
from kraft.console.pages.access.acl_rows import AclRow, row_of
from kraft.console.pages.access.acls import own_principal
from kraft.console.rendering import address
from kraft.model.access import PermissionType, words
from kraft.model.printable import counted

if TYPE_CHECKING:
    from kraft.metadata.acls import AclEntry

ROWS_MAX: Final = 500
"""ACLs that one change may create or delete: more than these nobody looks through."""


class Change(Struct, frozen=True, kw_only=True):
    acl: AclRow
    effect: str
    """What it does to its principal, in words."""

    is_new: bool


class Preview(Struct, frozen=True, kw_only=True):
    changes: list[Change]
    warning: str
    """Why it should not be done; empty if nothing is in the way."""

    shown: str
    """What a change has to carry so that exactly this is done."""


class AclCreation(Struct, frozen=True, kw_only=True):
    preview: Panel[Preview | None]
    """None: nothing is described yet."""

    purposes: dict[str, str]
    resources: tuple[str, ...] = tuple(map(words, RESOURCE_TYPES))
    operations: tuple[str, ...] = tuple(map(words, OPERATIONS))
    permissions: tuple[str, ...] = tuple(map(words, PERMISSIONS))

    @property
    def status(self) -> int:
        return self.preview.status


class AclDeletion(Struct, frozen=True, kw_only=True):
    preview: Panel[Preview]

    @property
    def status(self) -> int:
        return self.preview.status


# --- create --------------------------------------------------------------------------------------------------------


async def acl_creation(asked: Asked) -> AclCreation:
    def look() -> Preview | None:
        if not asked.form.text("purpose"):
            return None
        wanted = wanted_entries(asked.form)
        found = consequences(asked.admin, own_principal(asked), CLIENT_MS, created=wanted)
        return _preview(wanted, found, is_creation=True)

    return AclCreation(preview=await asked.panel(look), purposes=PURPOSES)


async def create_acls(asked: Asked) -> Done:
    wanted = wanted_entries(asked.form)
    if len(wanted) > ROWS_MAX:
        raise WrongInput(f"these are {len(wanted)} ACLs: create at most {ROWS_MAX} at once")

    def make() -> list[AclEntry]:
        found = consequences(asked.admin, own_principal(asked), CLIENT_MS, created=wanted)
        _check(asked, found, "created")
        new = [each for each in wanted if each not in found.existing]
        if new:
            asked.admin.create_acls(new, timeout_ms=CHANGE_CLIENT_MS // 2)
        return new

    new = await asked.change(make)
    principal = wanted[0].principal
    return Done(
        where=address(f"/clusters/{asked.cluster.name}/acls/of", principal=principal),
        said=created(principal, len(new), len(wanted) - len(new)),
        value=[row_of(each) for each in new],
    )


def created(principal: str, new: int, existing: int) -> str:
    """Return what the creation of ACLs has done, as a sentence."""
    said = f"{counted(new, 'ACL')} of {principal} created" if new else f"Nothing was created for {principal}"
    if not existing:
        return f"{said}."
    return f"{said}: {counted(existing, 'ACL')} {'was' if existing == 1 else 'were'} there already."


# --- delete --------------------------------------------------------------------------------------------------------


async def acl_deletion(asked: Asked) -> AclDeletion:
    def look() -> Preview:
        found = _chosen(asked)
        return _preview(
            found, consequences(asked.admin, own_principal(asked), CLIENT_MS, deleted=found), is_creation=False
        )

    return AclDeletion(preview=await asked.panel(look))


async def delete_acls(asked: Asked) -> Done:
    def make() -> list[AclEntry]:
        chosen = _chosen(asked)
        if not chosen:
            raise Changed("these ACLs are not there any more: nothing is deleted")
        if asked.form.raw("shown") != digest(chosen):
            if "shown" in asked.form:
                raise Changed(f"these are {counted(len(chosen), 'ACL')} now: look at them again, and repeat")
            raise WrongInput("shown is missing: send what the preview of these ACLs has, so that no others are deleted")
        if len(chosen) > 1 and asked.form.text("confirm") != counted(len(chosen), "ACL"):
            raise WrongInput(f"nothing is deleted: type {counted(len(chosen), 'ACL')!r} to confirm (confirm)")
        _check(asked, consequences(asked.admin, own_principal(asked), CLIENT_MS, deleted=chosen), "deleted")
        return asked.admin.delete_acls(map(exactly, chosen), timeout_ms=CHANGE_CLIENT_MS // 2)

    deleted = await asked.change(make)
    return Done(
        where=f"/clusters/{asked.cluster.name}/acls",
        said=f"{counted(len(deleted), 'ACL')} deleted.",
        value=[row_of(each) for each in deleted],
    )


def _chosen(asked: Asked) -> list[AclEntry]:
    """Return the ACLs that the fields choose. Raises WrongInput."""
    wanted = filter_in(asked.form)
    if wanted.principal is None and wanted.resource_name is None:
        raise WrongInput("name a principal or a resource whose ACLs are to be deleted")
    found = asked.admin.describe_acls(wanted, timeout_ms=CLIENT_MS)
    if len(found) > ROWS_MAX:
        raise WrongInput(f"these are {len(found):,} ACLs: choose {ROWS_MAX} at most, by host, operation or resource")
    return sorted(found, key=lambda each: row_of(each).order)


# --- both ----------------------------------------------------------------------------------------------------------


def digest(entries: Iterable[AclEntry]) -> str:
    """Return a short text that other ACLs do not have."""
    texts = sorted(repr(row_of(each)) for each in entries)
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:32]


def _check(asked: Asked, found: Consequences, done: str) -> None:
    if found.warning and not asked.form.flag("force"):
        raise WrongInput(f"nothing is {done}: {found.warning}. Tick the box to do it anyway (force)")


def _preview(entries: Sequence[AclEntry], found: Consequences, *, is_creation: bool) -> Preview:
    say = _of_creation if is_creation else _of_deletion
    changes = [
        Change(
            acl=row_of(each.entry),
            effect="is there already" if is_creation and each.entry in found.existing else say(each),
            is_new=each.entry not in found.existing,
        )
        for each in found.effects
    ]
    return Preview(changes=changes, warning=found.warning, shown=digest(entries))


def _of_creation(effect: Effect) -> str:
    if not (effect.was_allowed or effect.is_allowed) and effect.entry.permission is PermissionType.ALLOW:
        return "is still denied, by another ACL"
    return _OF_CREATION[effect.was_allowed, effect.is_allowed]


def _of_deletion(effect: Effect) -> str:
    return _OF_DELETION[effect.was_allowed, effect.is_allowed]


_OF_CREATION: Final = {
    (False, True): "may do this from now on",
    (True, False): "may not do this any more",
    (True, True): "was allowed already, by another ACL",
    (False, False): "was not allowed before either",
}
_OF_DELETION: Final = {
    (True, False): "loses this",
    (False, True): "may do this from now on",
    (True, True): "keeps this, by another ACL",
    (False, False): "was not allowed, and is not afterwards",
}
"""What becomes of a principal that was, and is, allowed what the ACL is about."""
