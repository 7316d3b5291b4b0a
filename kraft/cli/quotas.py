"""Client quotas of `kraft configs`: by user, client id and IP address."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from kraft.cli.options import Output
from kraft.cli.printing import print_json

if TYPE_CHECKING:
    from kraft.client import Admin
    from kraft.model.client_quotas import QuotaEntity, QuotaFilter

UserOption = Annotated[str | None, typer.Option("--user", help="Name of the user, for quotas.")]
UserDefaultsOption = Annotated[bool, typer.Option("--user-defaults", help="Default quotas of users.")]
ClientOption = Annotated[
    str | None, typer.Option("--client", help="Client id, for quotas; may be combined with --user.")
]
ClientDefaultsOption = Annotated[bool, typer.Option("--client-defaults", help="Default quotas of client ids.")]
IpOption = Annotated[str | None, typer.Option("--ip", help="IP address, for quotas.")]
IpDefaultsOption = Annotated[bool, typer.Option("--ip-defaults", help="Default quotas of IP addresses.")]

# In Kafka's order.
_WORDS: Final = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}

QUOTA_TYPES: Final = {"users": "user", "clients": "client-id", "ips": "ip"}
"""The entity type of a quota, by Kafka's --entity-type."""

NOT_ENFORCED: Final = "quotas are kept and shown, but not enforced yet: no client is slowed down."

ANY: Final = ""
"""Name that matches every entity of a type; no entity has an empty name."""

Entity = dict[str, str | None]
"""Names by entity type; None is the default of the type."""


def entity_of(
    user: str | None, user_defaults: bool, client: str | None, client_defaults: bool, ip: str | None, ip_defaults: bool
) -> Entity:
    """Return the entity that the options name, in Kafka's order. Raises BadParameter."""
    found: Entity = {}
    for entity_type, name, defaults, option in (
        ("user", user, user_defaults, "--user"),
        ("client-id", client, client_defaults, "--client"),
        ("ip", ip, ip_defaults, "--ip"),
    ):
        if name is not None and defaults:
            raise typer.BadParameter(f"{option} and {option}-defaults are both given: choose one", param_hint=option)
        if name == "":
            raise typer.BadParameter("the name is empty: give one, or use the defaults option", param_hint=option)
        if name is not None or defaults:
            found[entity_type] = name
    return found


def alter_quotas(
    admin: Admin, entity: Entity, set_configs: dict[str, str], delete_configs: list[str], *, validate_only: bool
) -> None:
    """Set and delete quotas. Raises BadParameter for a value that is not a number, and if no entity is named."""
    from kraft.model.client_quotas import QuotaEntity

    if ANY in entity.values():
        raise typer.BadParameter("no entity is given: name one, or use --entity-default", param_hint="--entity-name")
    quotas: dict[str, float | None] = dict.fromkeys(delete_configs)
    for key, text in set_configs.items():
        try:
            quotas[key] = float(text)
        except ValueError:
            raise typer.BadParameter(f"{key}={text}: expected a number", param_hint="--add-config") from None
    parts: list[QuotaEntity] = [QuotaEntity(entity_type=each, name=name) for each, name in entity.items()]
    admin.alter_client_quotas(parts, quotas, validate_only=validate_only)


def print_quotas(admin: Admin, entity: Entity, output: Output) -> None:
    """Print quotas in the format of kafka-configs.sh."""
    described = admin.describe_client_quotas([_filter(each, name) for each, name in entity.items()], strict=True)
    if output is Output.JSON:
        print_json(
            [
                {
                    "entity": {part.entity_type: part.name for part in each.entity},
                    "quotas": {quota.key: quota.value for quota in each.quotas},
                }
                for each in described
            ]
        )
        return
    for each in described:
        values = ", ".join(f"{quota.key}={quota.value}" for quota in each.quotas)
        print(f"Quota configs for {in_words({part.entity_type: part.name for part in each.entity})} are {values}")


def in_words(entity: Entity) -> str:
    return ", ".join(
        f"the default {words}" if entity[each] is None else f"{words} '{entity[each]}'"
        for each, words in _WORDS.items()
        if each in entity
    )


def _filter(entity_type: str, name: str | None) -> QuotaFilter:
    from kraft.model.client_quotas import QuotaFilter, QuotaMatch

    if name == ANY:
        return QuotaFilter(entity_type=entity_type, match=QuotaMatch.ANY)
    match = QuotaMatch.DEFAULT if name is None else QuotaMatch.EXACT
    return QuotaFilter(entity_type=entity_type, match=match, name=name)
