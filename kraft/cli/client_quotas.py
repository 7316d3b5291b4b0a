"""`kraft quotas`: describe and alter client quotas, and tell which of them hold for one client."""

from __future__ import annotations

from typing import Annotated

import typer

from kraft.cli.configs import AddConfigOption, DeleteConfigOption, added, check_alterations, deleted, report
from kraft.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    DEFAULT_TIMEOUT_MS,
    BootstrapServer,
    Output,
    OutputFormat,
    Timeout,
    open_admin,
)
from kraft.cli.printing import print_columns, print_json, say
from kraft.cli.quotas import (
    PER_BROKER,
    ClientDefaultsOption,
    ClientOption,
    IpDefaultsOption,
    IpOption,
    UserDefaultsOption,
    UserOption,
    alter_quotas,
    entity_of,
    in_words,
    print_quotas,
    say_where_it_holds,
    warn_of_kind,
)
from kraft.metadata.quota_decisions import CONNECTION_CREATION_RATE
from kraft.metadata.records import QuotaEntity
from kraft.quotas.precedence import Client, QuotasInEffect

app = typer.Typer(help="Describe and alter client quotas.", no_args_is_help=True)


@app.callback()
def quotas() -> None:
    """Describe and alter client quotas."""


@app.command("describe")
def describe(
    user: UserOption = None,
    client: ClientOption = None,
    ip: IpOption = None,
    user_defaults: UserDefaultsOption = False,
    client_defaults: ClientDefaultsOption = False,
    ip_defaults: IpDefaultsOption = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Show the quotas of one entity, or all of them."""
    entity = entity_of(user, user_defaults, client, client_defaults, ip, ip_defaults)
    with open_admin(bootstrap_server, timeout_ms) as admin:
        print_quotas(admin, entity, output)


@app.command("alter")
def alter(
    user: UserOption = None,
    client: ClientOption = None,
    add_config: AddConfigOption = None,
    delete_config: DeleteConfigOption = None,
    user_defaults: UserDefaultsOption = False,
    client_defaults: ClientDefaultsOption = False,
    ip: IpOption = None,
    ip_defaults: IpDefaultsOption = False,
    validate_only: Annotated[bool, typer.Option("--validate-only", help="Check the change without making it.")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Set or delete quotas of one entity.

    The entity is a user, a client id, both, or an IP address. Keys are producer_byte_rate and consumer_byte_rate (bytes
    per second), request_percentage (processor time), controller_mutation_rate (partitions that are created or deleted
    per second), and connection_creation_rate (of IP addresses).
    """
    entity = entity_of(user, user_defaults, client, client_defaults, ip, ip_defaults)
    if not entity:
        raise typer.BadParameter("no entity is given: name a user, client id or IP address", param_hint="--user")
    to_set, to_delete = added(add_config or [], "--add-config"), deleted(delete_config or [])
    check_alterations(to_set, to_delete)
    with open_admin(bootstrap_server, timeout_ms) as admin:
        alter_quotas(admin, entity, to_set, to_delete, validate_only=validate_only)
    report(output, "quotas", in_words(entity), validate_only=validate_only)
    say_where_it_holds(to_set)
    warn_of_kind(user)


@app.command("effective")
def effective(
    user: Annotated[
        str, typer.Option("--user", help="Name of the client's principal; clients that do not log in are ANONYMOUS.")
    ] = "ANONYMOUS",
    client: Annotated[str, typer.Option("--client", help="Client id; empty for a client without one.")] = "",
    ip: Annotated[str | None, typer.Option("--ip", help="Address from which the client connects.")] = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Show which quotas hold for one client.

    With the entry that sets each of them.
    """
    with open_admin(bootstrap_server, timeout_ms) as admin:
        entries = {
            tuple(QuotaEntity(entity_type=part.entity_type, name=part.entity_name) for part in each.entity): {
                quota.key: quota.value for quota in each.values
            }
            for each in admin.describe_client_quotas()
        }
    in_effect = QuotasInEffect(entries)
    found = [(key, in_effect.of(key, Client(user, client))) for key in sorted(in_effect.keys)]
    rows = [
        (key, quota.limit, {part.entity_type: part.name for part in quota.subject})
        for key, quota in found
        if quota is not None
    ]
    if ip is not None and (of_address := in_effect.of_address(ip)) is not None:
        limit, subject = of_address
        rows.append((CONNECTION_CREATION_RATE, limit, {part.entity_type: part.name for part in subject}))
    if output is Output.JSON:
        print_json([{"key": key, "value": limit, "entity": entity} for key, limit, entity in rows])
        return
    warn_of_kind(user)
    if not rows:
        say("no quota holds for this client")
        return
    print_columns(("Quota", "Value", "Set for"), [(key, limit, in_words(entity)) for key, limit, entity in rows])
    say(PER_BROKER)
