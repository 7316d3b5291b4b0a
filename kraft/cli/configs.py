"""`kraft configs`: configs of topics, brokers, groups and client metrics, and the quotas of clients."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kraft.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    DEFAULT_TIMEOUT_MS,
    BootstrapServer,
    Output,
    OutputFormat,
    Timeout,
    TopicArgument,
    TopicOption,
    open_admin,
    optional_topic_name,
)
from kraft.cli.printing import print_json, say
from kraft.cli.quotas import (
    ANY,
    QUOTA_TYPES,
    ClientDefaultsOption,
    ClientOption,
    Entity,
    IpDefaultsOption,
    IpOption,
    UserDefaultsOption,
    UserOption,
    alter_quotas,
    entity_of,
    in_words,
    print_quotas,
    say_where_it_holds,
)

if TYPE_CHECKING:
    from kraft.client import Admin
    from kraft.wire.schema.describe_configs import DescribeConfigsResourceResult

app = typer.Typer(help="Describe and alter configs and client quotas.", no_args_is_help=True)

DEFAULT_ENTITY: Final = ""
"""Entity name that means the default: of all brokers, or of clients without quotas of their own."""

_COMMA_OUTSIDE_BRACKETS: Final = re.compile(r",(?![^\[\]]*\])")


class EntityType(StrEnum):
    """Kinds of entities that have configs, as in Kafka's command."""

    TOPICS = "topics"
    BROKERS = "brokers"
    BROKER_LOGGERS = "broker-loggers"
    USERS = "users"
    CLIENTS = "clients"
    IPS = "ips"
    CLIENT_METRICS = "client-metrics"
    GROUPS = "groups"

    @property
    def singular(self) -> str:
        return self.value.removesuffix("s") if self is not EntityType.CLIENT_METRICS else self.value


SUPPORTED: Final = (EntityType.TOPICS, EntityType.BROKERS, EntityType.GROUPS, EntityType.CLIENT_METRICS)
"""Types with configs; those of users, clients and IPs are quotas."""

EntityTypeOption = Annotated[
    EntityType | None, typer.Option("--entity-type", help="Entity type. [default: topics]", show_default=False)
]
EntityNameOption = Annotated[
    str | None,
    typer.Option("--entity-name", help="Name of the entity; id of a broker or group.", show_default=False),
]
EntityDefaultOption = Annotated[
    bool, typer.Option("--entity-default", help="Default of all brokers, or of all users, clients or IPs.")
]
BrokerOption = Annotated[
    int | None,
    typer.Option("--broker", min=0, help="Id of the broker; short for --entity-type brokers --entity-name ID."),
]


AddConfigOption = Annotated[
    list[str] | None,
    typer.Option(
        "--add-config", metavar="K=V,K=[A,B],...", help="Configs to set. May be repeated.", show_default=False
    ),
]
DeleteConfigOption = Annotated[
    list[str] | None,
    typer.Option(
        "--delete-config",
        metavar="K,...",
        help="Configs to reset to their defaults. May be repeated.",
        show_default=False,
    ),
]


@app.callback()
def configs() -> None:
    """Describe and alter configs and client quotas."""


@app.command("describe")
def describe(
    positional: TopicArgument = None,
    topic: TopicOption = None,
    broker: BrokerOption = None,
    entity_type: EntityTypeOption = None,
    entity_name: EntityNameOption = None,
    entity_default: EntityDefaultOption = False,
    user: UserOption = None,
    user_defaults: UserDefaultsOption = False,
    client: ClientOption = None,
    client_defaults: ClientDefaultsOption = False,
    ip: IpOption = None,
    ip_defaults: IpDefaultsOption = False,
    all_configs: Annotated[bool, typer.Option("--all", help="Include defaults and static broker configs.")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Show configs, or quotas of clients.

    Topics, brokers, groups and client metrics have configs. By default only those that were set on the entity are
    shown.
    """
    quotas = entity_of(user, user_defaults, client, client_defaults, ip, ip_defaults)
    kind, name = _entity(
        optional_topic_name(positional, topic), broker, entity_type, entity_name, entity_default, quotas
    )
    if quotas or kind in QUOTA_TYPES:
        with open_admin(bootstrap_server, timeout_ms) as admin:
            print_quotas(admin, quotas or {QUOTA_TYPES[kind]: _quota_name(name)}, output)
        return
    if kind not in SUPPORTED:
        raise _not_supported(kind)
    if name is None and entity_type is None:
        raise typer.BadParameter("no topic is given: name one, or use --entity-type topics for all", param_hint="TOPIC")
    with open_admin(bootstrap_server, timeout_ms) as admin:
        names = [name] if name is not None else _names(admin, kind)
        described = {each: _described(admin, kind, each, all_configs=all_configs) for each in names}
    if output is Output.JSON:
        print_json([_as_json(kind, each, entries) for each, entries in described.items()])
        return
    for each, entries in described.items():
        _print_described(kind, each, entries, all_configs=all_configs)


@app.command("alter")
def alter(
    positional: TopicArgument = None,
    topic: TopicOption = None,
    broker: BrokerOption = None,
    entity_type: EntityTypeOption = None,
    entity_name: EntityNameOption = None,
    entity_default: EntityDefaultOption = False,
    user: UserOption = None,
    user_defaults: UserDefaultsOption = False,
    client: ClientOption = None,
    client_defaults: ClientDefaultsOption = False,
    ip: IpOption = None,
    ip_defaults: IpDefaultsOption = False,
    add_config: AddConfigOption = None,
    delete_config: DeleteConfigOption = None,
    validate_only: Annotated[bool, typer.Option("--validate-only", help="Check the change without making it.")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Set or reset configs of a topic, broker or group, or quotas.

    Changes of configs take effect without a restart, and so do those of client metrics, which say which clients are
    asked for which of their metrics. Quotas are those of users, client ids or IP addresses, and each broker enforces
    them by itself.
    """
    quotas = entity_of(user, user_defaults, client, client_defaults, ip, ip_defaults)
    kind, name = _entity(
        optional_topic_name(positional, topic), broker, entity_type, entity_name, entity_default, quotas
    )
    to_set, to_delete = added(add_config or [], "--add-config"), deleted(delete_config or [])
    if quotas or kind in QUOTA_TYPES:
        check_alterations(to_set, to_delete)
        entity = quotas or {QUOTA_TYPES[kind]: _quota_name(name)}
        with open_admin(bootstrap_server, timeout_ms) as admin:
            alter_quotas(admin, entity, to_set, to_delete, validate_only=validate_only)
        report(output, "quotas", in_words(entity), validate_only=validate_only)
        say_where_it_holds(to_set)
        return
    if kind not in SUPPORTED:
        raise _not_supported(kind)
    if name is None:
        remedy = "name one, or use --entity-default for all" if kind is EntityType.BROKERS else "name one"
        place = "TOPIC" if kind is EntityType.TOPICS else "--entity-name"
        raise typer.BadParameter(f"no {kind.singular} is given: {remedy}", param_hint=place)
    if kind is EntityType.TOPICS:
        alter_topic(name, to_set, to_delete, bootstrap_server, output, timeout_ms, validate_only=validate_only)
        return
    check_alterations(to_set, to_delete)
    with open_admin(bootstrap_server, timeout_ms) as admin:
        if kind is EntityType.GROUPS:
            admin.alter_group_configs(name, to_set, delete=to_delete, validate_only=validate_only)
        elif kind is EntityType.CLIENT_METRICS:
            admin.alter_client_metrics(name, to_set, delete=to_delete, validate_only=validate_only)
        else:
            broker_id = None if name == DEFAULT_ENTITY else _broker_id(name)
            admin.alter_broker_configs(broker_id, to_set, delete=to_delete, validate_only=validate_only)
    words = f"{kind.singular} {name}" if name else "all brokers"
    report(output, kind, words, validate_only=validate_only, name=name)
    say_what_throttles_need(to_set)


def alter_topic(
    topic: str,
    set_configs: dict[str, str],
    delete_configs: list[str],
    bootstrap_server: str,
    output: Output,
    timeout_ms: int,
    *,
    validate_only: bool = False,
) -> None:
    """Alter the topic and report it as kafka-configs.sh does. Raises BadParameter for contradictory changes."""
    check_alterations(set_configs, delete_configs)
    with open_admin(bootstrap_server, timeout_ms) as admin:
        admin.alter_topic_configs(topic, set_configs, delete=delete_configs, validate_only=validate_only)
    report(output, EntityType.TOPICS, f"topic {topic}", validate_only=validate_only, name=topic)
    say_what_throttles_need(set_configs)


def check_alterations(set_configs: dict[str, str], delete_configs: list[str]) -> None:
    if not set_configs and not delete_configs:
        raise typer.BadParameter(
            "no change is given: set or delete a config", param_hint="--add-config, --delete-config"
        )
    if both := sorted(set_configs.keys() & set(delete_configs)):
        raise typer.BadParameter(
            f"{', '.join(both)} cannot be both set and deleted: choose one", param_hint="--delete-config"
        )


def report(output: Output, kind: str, words: str, *, validate_only: bool, name: str | None = None) -> None:
    if output is Output.JSON:
        reported = {"entity_type": kind, "entity_name": words if name is None else name, "altered": not validate_only}
        print_json({**reported, "enforced": True} if kind == "quotas" else reported)
    elif validate_only:
        print(f"Config for {words} can be updated; nothing changed.")
    else:
        print(f"Completed updating config for {words}.")


def say_what_throttles_need(set_configs: Iterable[str]) -> None:
    """Print what else a throttle of replication needs: a rate and names have no effect without each other."""
    for side in ("leader", "follower"):
        rate, names = (f"{side}.replication.throttled.{each}" for each in ("rate", "replicas"))
        if rate in set_configs:
            say(f"{rate} limits only replicas that topics name in {names}.")
        elif names in set_configs:
            say(f"{names} has an effect only on brokers with {rate}.")


def added(texts: list[str], option: str) -> dict[str, str]:
    """Parse `k1=v1,k2=[v2,v3]` as kafka-configs does; a value with commas needs brackets."""
    found: dict[str, str] = {}
    for item in (part for text in texts for part in _COMMA_OUTSIDE_BRACKETS.split(text) if part.strip()):
        key, equals, value = item.partition("=")
        key, value = key.strip(), value.strip()
        if not equals or not key:
            raise typer.BadParameter(f"{item.strip()!r} is not KEY=VALUE", param_hint=option)
        if key in found:
            raise typer.BadParameter(f"{key} is given twice: give it once", param_hint=option)
        found[key] = value[1:-1] if value.startswith("[") and value.endswith("]") else value
    return found


def deleted(texts: list[str]) -> list[str]:
    return list(dict.fromkeys(key.strip() for text in texts for key in text.split(",") if key.strip()))


# --- which entity ----------------------------------------------------------------------------------------------


def _entity(
    topic: str | None,
    broker: int | None,
    entity_type: EntityType | None,
    entity_name: str | None,
    entity_default: bool,
    quotas: Entity,
) -> tuple[EntityType, str | None]:
    """Return the entity that the options name; an empty name is the default of the type.

    Raises BadParameter for more than one entity.
    """
    if entity_default:
        without_default = (None, EntityType.TOPICS, EntityType.GROUPS, EntityType.CLIENT_METRICS)
        if entity_type in without_default or entity_name is not None:
            raise typer.BadParameter(
                "requires --entity-type brokers, users, clients or ips", param_hint="--entity-default"
            )
        entity_name = DEFAULT_ENTITY
    if quotas and (topic is not None or broker is not None or entity_name is not None):
        raise typer.BadParameter(
            "several entities are given: name one topic, broker or client", param_hint="--entity-name"
        )
    if topic is not None and entity_type not in (None, EntityType.TOPICS):
        message = f"cannot be used with --entity-type {entity_type}: use --entity-name"
        raise typer.BadParameter(message, param_hint="TOPIC")
    named = [
        *([(EntityType.TOPICS, topic)] if topic is not None else []),
        *([(EntityType.BROKERS, str(broker))] if broker is not None else []),
        *([(entity_type or EntityType.TOPICS, entity_name)] if entity_name is not None else []),
    ]
    if len(set(named)) > 1 or (named and entity_type is not None and named[0][0] is not entity_type):
        raise typer.BadParameter("several entities are given: name one topic or broker", param_hint="--entity-name")
    return named[0] if named else (entity_type or EntityType.TOPICS, None)


def _quota_name(name: str | None) -> str | None:
    """Return None for the default of the type, ANY if no name was given."""
    if name is None:
        return ANY
    return None if name == DEFAULT_ENTITY else name


def _broker_id(name: str) -> int:
    if not name.isascii() or not name.isdigit():
        raise typer.BadParameter(f"{name!r} is not a broker id: give a number", param_hint="--entity-name")
    return int(name)


def _not_supported(kind: EntityType) -> Exception:
    from kraft.client import NotSupportedYet

    return NotSupportedYet(f"--entity-type {kind}: use 'kraft brokers loggers ID'")


def _names(admin: Admin, kind: EntityType) -> list[str]:
    if kind is EntityType.GROUPS:
        return [group.group_id for group in admin.list_groups()]
    if kind is EntityType.CLIENT_METRICS:
        from kraft.model.configs import ConfigResourceType

        return [each.resource_name for each in admin.list_config_resources([ConfigResourceType.CLIENT_METRICS])]
    cluster = admin.describe_cluster()
    if kind is EntityType.BROKERS:
        return [str(broker.node_id) for broker in sorted(cluster.brokers, key=lambda each: each.node_id)]
    return sorted(topic.name or "" for topic in cluster.topics)


# --- describing ------------------------------------------------------------------------------------------------


def _described(admin: Admin, kind: EntityType, name: str, *, all_configs: bool) -> list[DescribeConfigsResourceResult]:
    from kraft.model.configs import ConfigSource

    if kind is EntityType.BROKERS:
        entries = admin.describe_broker_configs(None if name == DEFAULT_ENTITY else _broker_id(name))
    elif kind is EntityType.GROUPS:
        entries = admin.describe_group_configs(name)
    elif kind is EntityType.CLIENT_METRICS:
        entries = admin.describe_client_metrics(name)
    else:
        entries = admin.describe_topic_configs(name)
    dynamic = (
        ConfigSource.DYNAMIC_TOPIC_CONFIG,
        ConfigSource.DYNAMIC_BROKER_CONFIG,
        ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
        ConfigSource.DYNAMIC_GROUP_CONFIG,
        ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG,
    )
    return [entry for entry in entries if all_configs or entry.config_source in dynamic]


def _print_described(
    kind: EntityType, name: str, entries: list[DescribeConfigsResourceResult], *, all_configs: bool
) -> None:
    """Print in the format of kafka-configs.sh, which scripts parse."""
    if kind is EntityType.BROKERS and name == DEFAULT_ENTITY:
        print("Default configs for brokers in the cluster are:")
    else:
        print(f"{'All' if all_configs else 'Dynamic'} configs for {kind.singular} {name} are:")
    for entry in entries:
        synonyms = ", ".join(f"{_source(each.source)}:{each.name}={_text(each.value)}" for each in entry.synonyms)
        sensitive = "true" if entry.is_sensitive else "false"
        print(f"  {entry.name}={_text(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}")


def _text(value: str | None) -> str:
    return "null" if value is None else value


def _source(number: int) -> str:
    from kraft.client import ConfigSource

    return ConfigSource(number).name


def _as_json(kind: EntityType, name: str, entries: list[DescribeConfigsResourceResult]) -> dict[str, Any]:
    from kraft.model.configs import ConfigSource, ConfigType

    return {
        "entity_type": kind,
        "entity_name": name,
        "configs": [
            {
                "key": entry.name,
                "value": entry.value,
                "source": _source(entry.config_source),
                "is_default": entry.config_source == ConfigSource.DEFAULT_CONFIG,
                "read_only": entry.read_only,
                "is_sensitive": entry.is_sensitive,
                "type": ConfigType(entry.config_type).name,
                "documentation": entry.documentation or "",
                "synonyms": [
                    {"key": each.name, "value": each.value, "source": _source(each.source)} for each in entry.synonyms
                ],
            }
            for entry in entries
        ],
    }
