"""Users that log in with a password: list, set a password, delete with what hangs on it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from kraft.access.administrators import visible_settings
from kraft.access.rights import exactly
from kraft.access.users import (
    ITERATIONS_LEAST,
    ITERATIONS_MOST,
    MECHANISMS,
    mechanisms_of,
    principal_of,
    problem_of_deletion,
)
from kraft.client import ErrorCode, Refusal
from kraft.console.asking import CHANGE_CLIENT_MS, CLIENT_MS, Asked, LoginOver, Paged, Panel, Wanted, wanted
from kraft.console.forms import Changed, Done, WrongInput
from kraft.console.pages.access.acl_rows import AclRow, row_of
from kraft.console.pages.access.quota_rows import QuotaRow, quotas_of
from kraft.console.rendering import address
from kraft.metadata.acl_filters import AclFilter
from kraft.model.access import ResourceType
from kraft.model.printable import counted

if TYPE_CHECKING:
    from kraft.client import Admin

SORTS: Final = ("name", "mechanisms")
NAME_CHARS_MAX: Final = 1_000
HANGING_ROWS_MAX: Final = 200


class UserRow(Struct, frozen=True, kw_only=True):
    user: str
    mechanisms: dict[str, int]
    """Iterations by mechanism."""


class Users(Struct, frozen=True, kw_only=True):
    users: Panel[Paged[UserRow]]

    @property
    def status(self) -> int:
        return self.users.status


class PasswordForm(Struct, frozen=True, kw_only=True):
    """What the form is about: a user that is there, or a new one. No password is ever in it."""

    user: str
    is_new: bool
    is_self: bool
    mechanisms: dict[str, int]
    iterations: int = ITERATIONS_LEAST
    iterations_most: int = ITERATIONS_MOST


class Password(Struct, frozen=True, kw_only=True):
    password: Panel[PasswordForm]

    @property
    def status(self) -> int:
        return self.password.status


class Hanging(Struct, frozen=True, kw_only=True):
    """A user with what stays behind when it is deleted."""

    user: str
    mechanisms: dict[str, int]
    acls: list[AclRow]
    acls_count: int
    quotas: list[QuotaRow]
    is_self: bool
    warning: str
    """Why it should not be deleted; empty if nothing is in the way."""


class Deletion(Struct, frozen=True, kw_only=True):
    deletion: Panel[Hanging]

    @property
    def status(self) -> int:
        return self.deletion.status


async def users(asked: Asked) -> Users:
    return Users(users=await asked.panel(lambda: _listed(asked.admin, wanted(asked.query, SORTS))))


def _listed(admin: Admin, asked_for: Wanted) -> Paged[UserRow]:
    rows = [
        UserRow(user=each.user, mechanisms=mechanisms_of(each)) for each in admin.describe_users(timeout_ms=CLIENT_MS)
    ]
    found = [each for each in rows if asked_for.matches(each.user)]
    by_mechanisms = asked_for.sort == "mechanisms"
    return asked_for.shown(found, len(rows), lambda each: (sorted(each.mechanisms) if by_mechanisms else [], each.user))


# --- set a password ------------------------------------------------------------------------------------------------


async def user_password(asked: Asked) -> Password:
    user = asked.form.raw("user")
    is_new = not user or asked.form.flag("new")

    def look() -> PasswordForm:
        has = {} if is_new else _mechanisms(asked.admin, user)
        return PasswordForm(user=user, is_new=is_new, is_self=bool(user) and user == asked.user, mechanisms=has)

    return Password(password=await asked.panel(look))


async def set_password(asked: Asked) -> Done:
    form = asked.form
    user, new_password = _user_in(asked), form.raw("password")
    if not new_password:
        raise WrongInput("the password is empty: type one")
    if not form.values.get("again") or form.raw("again") != new_password:
        raise WrongInput("the two passwords differ: type the same one twice (password and again)")
    mechanism = form.text("mechanism")
    if mechanism and mechanism not in MECHANISMS:
        raise WrongInput(f"mechanism={mechanism[:40]!r} is not one of {', '.join(MECHANISMS)}")
    chosen = [mechanism] if mechanism else _own_last(asked, user, MECHANISMS)
    iterations = form.number("iterations", ITERATIONS_LEAST, ITERATIONS_MOST, ITERATIONS_LEAST)

    def make() -> None:
        if form.flag("new") and _mechanisms(asked.admin, user, must_exist=False):
            raise Changed(f"user {user!r} exists already: to change the password, choose the user in the list")
        for each in chosen:
            asked.admin.set_password(
                user, new_password, each, iterations=iterations, timeout_ms=CHANGE_CLIENT_MS // len(chosen)
            )

    await asked.change(make)
    said = f"The password of user {user} is set for {' and '.join(chosen)}."
    _check_own(asked, user, said)
    where = address(f"/clusters/{asked.cluster.name}/users", q=user)
    return Done(where=where, said=said, value={"user": user, "mechanisms": chosen})


def _own_last(asked: Asked, user: str, mechanisms: Iterable[str]) -> list[str]:
    """Return the mechanisms in an order in which the last one is that by which whoever asks is logged in.

    The brokers end this very login as soon as its password is another one.
    """
    own = asked.cluster.security.get("sasl.mechanism", "").upper() if user == asked.user else ""
    return sorted(mechanisms, key=lambda each: (each == own, each))


def _user_in(asked: Asked) -> str:
    user = asked.form.raw("user")
    if not user or user != user.strip() or len(user) > NAME_CHARS_MAX:
        raise WrongInput(f"give the name of the user: 1 to {NAME_CHARS_MAX} letters, without spaces around them")
    return user


def _mechanisms(admin: Admin, user: str, *, must_exist: bool = True) -> dict[str, int]:
    try:
        (described,) = admin.describe_users([user], timeout_ms=CLIENT_MS)
    except Refusal as refusal:
        if must_exist or refusal.error_code is not ErrorCode.RESOURCE_NOT_FOUND:
            raise
        return {}
    return mechanisms_of(described)


# --- delete --------------------------------------------------------------------------------------------------------


async def user_deletion(asked: Asked) -> Deletion:
    user = asked.form.raw("user")
    return Deletion(deletion=await asked.panel(lambda: _hanging(asked.admin, user, asked.user)))


def _hanging(admin: Admin, user: str, self_: str) -> Hanging:
    has = _mechanisms(admin, user)
    acls = admin.describe_acls(AclFilter(principal=principal_of(user)), timeout_ms=CLIENT_MS)
    return Hanging(
        user=user,
        mechanisms=has,
        acls=sorted(map(row_of, acls), key=lambda each: each.order)[:HANGING_ROWS_MAX],
        acls_count=len(acls),
        quotas=quotas_of(admin, {"user": user}),
        is_self=user == self_,
        warning=_warning(admin, user),
    )


def _warning(admin: Admin, user: str) -> str:
    of_cluster = admin.describe_acls(AclFilter(resource_type=ResourceType.CLUSTER), timeout_ms=CLIENT_MS)
    return problem_of_deletion(user, of_cluster, visible_settings(admin))


async def delete_user(asked: Asked) -> Done:
    user = _user_in(asked)
    if asked.form.raw("confirm") != user:
        raise WrongInput(f"nothing is deleted: type the name of the user, {user!r}, to confirm")

    def make() -> dict[str, Any]:
        admin = asked.admin
        has = _mechanisms(admin, user)
        if not asked.form.flag("force") and (warning := _warning(admin, user)):
            raise WrongInput(f"nothing is deleted: {warning}. Tick the box to delete it anyway (force)")
        told: dict[str, Any] = {"user": user, "acls": 0, "quotas": 0}
        if asked.form.flag("acls"):
            acls = admin.describe_acls(AclFilter(principal=principal_of(user)), timeout_ms=CLIENT_MS)
            told["acls"] = len(admin.delete_acls(map(exactly, acls), timeout_ms=CHANGE_CLIENT_MS // 2)) if acls else 0
        if asked.form.flag("quotas"):
            for row in quotas_of(admin, {"user": user}):
                gone = dict.fromkeys(quota.key for quota in row.quotas)
                admin.alter_client_quotas(row.entity, gone, timeout_ms=CHANGE_CLIENT_MS // 2)
                told["quotas"] += len(gone)
        for each in _own_last(asked, user, has):
            admin.delete_password(user, each, timeout_ms=CHANGE_CLIENT_MS // 2)
        return told

    told = await asked.change(make)
    kept = [counted(told[each], text) for each, text in (("acls", "ACL"), ("quotas", "quota")) if told[each]]
    said = f"User {user} is deleted{', with ' + ' and '.join(kept) if kept else ''}."
    _check_own(asked, user, said)
    return Done(where=f"/clusters/{asked.cluster.name}/users", said=said, value=told)


def _check_own(asked: Asked, user: str, said: str) -> None:
    """Raise LoginOver if users have changed themselves: open connections go on, and new ones would be refused."""
    if user == asked.user and asked.cluster.needs_login:
        raise LoginOver(asked.client, said)
