"""Quotas of clients: list, set, remove."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from kraft.access.quota_values import ENTITY_TYPES, KEYS, WrongValue, entity_in_words, in_words, keys_for, value_of
from kraft.console.asking import CHANGE_CLIENT_MS, Asked, Paged, Panel, Wanted, wanted
from kraft.console.forms import Changed, Done, Form, WrongInput
from kraft.console.pages.access.quota_rows import QuotaRow, fields_of, quotas_of
from kraft.console.rendering import address

if TYPE_CHECKING:
    from kraft.client import Admin

SORTS: Final = ("name",)

Entity = dict[str, str | None]


class Quotas(Struct, frozen=True, kw_only=True):
    quotas: Panel[Paged[QuotaRow]]

    @property
    def status(self) -> int:
        return self.quotas.status


class Field(Struct, frozen=True, kw_only=True):
    key: str
    help: str
    value: str
    """As it is set now; empty if it is not."""

    words: str


class QuotasForm(Struct, frozen=True, kw_only=True):
    entity: Entity
    words: str
    """Empty if none is chosen yet."""

    query: dict[str, str]
    fields: list[Field]
    shown: str
    """What is set now, so that a change by somebody else meanwhile is noticed."""


class QuotasOfEntity(Struct, frozen=True, kw_only=True):
    entity: Panel[QuotasForm]

    @property
    def status(self) -> int:
        return self.entity.status


async def quotas(asked: Asked) -> Quotas:
    return Quotas(quotas=await asked.panel(lambda: _listed(asked.admin, wanted(asked.query, SORTS))))


def _listed(admin: Admin, asked_for: Wanted) -> Paged[QuotaRow]:
    rows = quotas_of(admin)
    return asked_for.shown([each for each in rows if asked_for.matches(each.words)], len(rows), lambda each: each.words)


async def quotas_of_entity(asked: Asked) -> QuotasOfEntity:
    def look() -> QuotasForm:
        entity = entity_in(asked.form, must_be_named=False)
        return form_of(entity, _current(asked.admin, entity))

    return QuotasOfEntity(entity=await asked.panel(look))


async def quotas_to_remove(asked: Asked) -> QuotasOfEntity:
    return await quotas_of_entity(asked)


def form_of(entity: Entity, current: Mapping[str, float]) -> QuotasForm:
    # An address has other quotas than users and client ids.
    keys = keys_for(list(entity)) if entity else tuple(KEYS)
    return QuotasForm(
        entity=entity,
        words=entity_in_words(list(entity.items())),
        query=fields_of(entity),
        fields=[
            Field(
                key=each,
                help=KEYS[each],
                value=f"{current[each]:.15g}" if each in current else "",
                words=in_words(each, current[each]) if each in current else "",
            )
            for each in sorted({*keys, *current}, key=list(KEYS).index)
        ],
        shown=_written(current),
    )


def entity_in(form: Form, *, must_be_named: bool = True) -> Entity:
    """Return the entity that the fields name: `user`, `client-id` or `ip`, or `user-default` and so on.

    Raises WrongInput.
    """
    entity: Entity = {}
    for each in ENTITY_TYPES:
        name, is_default = form.raw(each), form.flag(f"{each}-default")
        if name and is_default:
            raise WrongInput(f"{each} has a name and is the default: choose one of the two")
        if name or is_default:
            entity[each] = name or None
    if not entity and must_be_named:
        raise WrongInput("nobody is named: give a user, a client id, both, or an IP address, or the default of one")
    if "ip" in entity and len(entity) > 1:
        raise WrongInput("a quota for an IP address cannot also be for a user or client id: set two quotas")
    if (user := entity.get("user") or "").startswith("User:"):
        raise WrongInput(f"give the name of the user without its kind: {user.removeprefix('User:')[:80]!r}")
    return entity


def _current(admin: Admin, entity: Entity) -> dict[str, float]:
    if not entity:
        return {}
    rows = quotas_of(admin, entity, strict=True)
    return {each.key: each.value for row in rows for each in row.quotas}


def _written(current: Mapping[str, float]) -> str:
    return ";".join(f"{key}={value:.15g}" for key, value in sorted(current.items()))


async def alter_quotas(asked: Asked) -> Done:
    form, entity = asked.form, entity_in(asked.form)
    typed = {each: form.text(each) for each in KEYS if each in form}
    foreign = [each for each, text in typed.items() if text and each not in keys_for(list(entity))]
    if foreign:
        raise WrongInput(f"{foreign[0]} is no quota of {entity_in_words(list(entity.items()))}: leave it empty")
    wanted_values = {key: _value(key, text) if text else None for key, text in typed.items()}

    def make() -> dict[str, float | None]:
        current = _current(asked.admin, entity)
        if "shown" in form and form.raw("shown") != _written(current):
            now = ", ".join(in_words(*each) for each in current.items()) or "none"
            raise Changed(f"somebody has changed these quotas meanwhile, which are now: {now}; look again, and repeat")
        changes = {key: value for key, value in wanted_values.items() if value != current.get(key)}
        if changes:
            asked.admin.alter_client_quotas(entity, changes, timeout_ms=CHANGE_CLIENT_MS // 2)
        return changes

    changes = await asked.change(make)
    return _done(asked, entity, changes)


def _value(key: str, text: str) -> float:
    try:
        return value_of(key, text)
    except WrongValue as error:
        raise WrongInput(str(error)) from None


async def remove_quotas(asked: Asked) -> Done:
    entity = entity_in(asked.form)

    def make() -> dict[str, float | None]:
        gone: dict[str, float | None] = dict.fromkeys(_current(asked.admin, entity))
        if gone:
            asked.admin.alter_client_quotas(entity, gone, timeout_ms=CHANGE_CLIENT_MS // 2)
        return gone

    return _done(asked, entity, await asked.change(make))


def _done(asked: Asked, entity: Entity, changes: Mapping[str, float | None]) -> Done:
    who = entity_in_words(list(entity.items()))
    parts = [f"{key} {'removed' if value is None else in_words(key, value)}" for key, value in changes.items()]
    said = f"Quotas of {who}: {', '.join(parts)}." if parts else f"Quotas of {who}: nothing was to be changed."
    value: dict[str, Any] = {"entity": entity, "changes": dict(changes)}
    return Done(where=address(f"/clusters/{asked.cluster.name}/quotas"), said=said, value=value)
