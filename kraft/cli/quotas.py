"""Client quotas of `kraft configs` and `kraft quotas`: by user, client id and IP address."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kraft.cli.options import Output
from kraft.cli.printing import print_json, say
from kraft.metadata.quota_decisions import CONNECTION_CREATION_RATE

if TYPE_CHECKING:
    from kraft.client import Admin

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

PER_BROKER: Final = "Each broker enforces these quotas by itself: of several brokers, a client may use as much each."

NOT_ON_GRPC: Final = (
    "connection_creation_rate holds for listeners of Kafka's protocol; connections to GRPC listeners are not counted."
)

_USER_KIND: Final = "User:"

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
    if ANY in entity.values():
        raise typer.BadParameter("no entity is given: name one, or use --entity-default", param_hint="--entity-name")
    quotas: dict[str, float | None] = dict.fromkeys(delete_configs)
    if of_users := next((key for key in quotas.keys() | set_configs.keys() if key.startswith("SCRAM-")), None):
        raise typer.BadParameter(
            f"{of_users} is a user's password: kraft users set-password NAME --mechanism {of_users}, or kraft users"
            " delete NAME",
            param_hint="--add-config, --delete-config",
        )
    for key, text in set_configs.items():
        try:
            quotas[key] = float(text)
        except ValueError:
            raise typer.BadParameter(f"{key}={text}: expected a number", param_hint="--add-config") from None
    admin.alter_client_quotas(entity, quotas, validate_only=validate_only)


def print_quotas(admin: Admin, entity: Entity, output: Output) -> None:
    """Print quotas in the format of kafka-configs.sh."""
    from kraft.client import QuotaMatch

    wanted = {each: QuotaMatch.ANY if name == ANY else name for each, name in entity.items()}
    described: list[tuple[Entity, dict[str, float]]] = [
        (
            {part.entity_type: part.entity_name for part in each.entity},
            {quota.key: quota.value for quota in each.values},
        )
        for each in admin.describe_client_quotas(wanted, strict=True)
    ]
    if output is Output.JSON:
        print_json([{"entity": names, "quotas": quotas} for names, quotas in described])
        return
    for names, quotas in described:
        values = ", ".join(f"{key}={value}" for key, value in quotas.items())
        print(f"Quota configs for {in_words(names)} are {values}")
    if described:
        say(PER_BROKER)


def warn_of_kind(user: str | None) -> None:
    """Warn of a user that is named as in ACLs: quotas and users have names without a kind."""
    if user is not None and user.startswith(_USER_KIND) and (name := user.removeprefix(_USER_KIND)):
        say(f"Warning: a quota names a user without {_USER_KIND} and holds for {user!r} only: is it {name}?")


def say_where_it_holds(set_configs: Iterable[str]) -> None:
    """Print what somebody who has set these quotas may expect, and not get."""
    if CONNECTION_CREATION_RATE in set_configs:
        say(f"Warning: {NOT_ON_GRPC}")


def in_words(entity: Entity) -> str:
    return ", ".join(
        f"the default {words}" if entity[each] is None else f"{words} '{entity[each]}'"
        for each, words in _WORDS.items()
        if each in entity
    )
