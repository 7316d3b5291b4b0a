"""Configs of topics and of brokers: every value with where it comes from, and the change of a single one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from kraft.client import ConfigSource, ErrorCode, Refusal
from kraft.console.asking import CHANGE_CLIENT_MS, CLIENT_MS, Asked, Panel
from kraft.console.forms import Changed, Done, WrongInput
from kraft.console.rendering import segment
from kraft.model.configs import ConfigType

if TYPE_CHECKING:
    from kraft.client import Admin
    from kraft.wire.schema.describe_configs import DescribeConfigsResourceResult, DescribeConfigsSynonym

ALL_BROKERS: Final = "all"
"""In an address, in the place of a broker's id: the configs of all brokers that have no value of their own."""

VALUE_CHARS_MAX: Final = 10_000

_TOPIC_SOURCES: Final = {int(ConfigSource.DYNAMIC_TOPIC_CONFIG): "this topic"}
_SOURCES: Final = {
    int(ConfigSource.DYNAMIC_BROKER_CONFIG): "the broker",
    int(ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG): "all brokers",
    int(ConfigSource.STATIC_BROKER_CONFIG): "the broker's file",
    int(ConfigSource.DEFAULT_CONFIG): "default",
}
_CHOICES: Final = {int(ConfigType.BOOLEAN): ["true", "false"]}


class ConfigRow(Struct, frozen=True, kw_only=True):
    name: str
    value: str | None
    """None: hidden, or not set."""

    source: str
    own: bool
    """Whether it is set on the topic, or broker, itself."""

    after_reset: str | None
    """What holds once it is reset, for people: a key of the broker has its name before it, if its unit is another."""

    after_reset_source: str
    read_only: bool
    """Whether it is in the broker's file only."""

    hidden: bool
    type: str
    choices: list[str]
    help: str


class ConfigsFound(Struct, frozen=True, kw_only=True):
    what: str
    """The topic or broker, in words."""

    where: str
    """Its address."""

    topic: str
    """Empty for brokers."""

    brokers: list[int]
    """Those whose configs there are besides; empty for a topic."""

    rows: list[ConfigRow]
    total: int
    search: str


class Configs(Struct, frozen=True, kw_only=True):
    configs: Panel[ConfigsFound]

    @property
    def status(self) -> int:
        return self.configs.status


class ConfigFound(Struct, frozen=True, kw_only=True):
    what: str
    where: str
    row: ConfigRow


class Config(Struct, frozen=True, kw_only=True):
    config: Panel[ConfigFound]

    @property
    def status(self) -> int:
        return self.config.status


class _Resource(Struct, frozen=True, kw_only=True):
    """What has configs: how they are found out, and how they are changed."""

    what: str
    where: str
    own: ConfigSource
    describe: Callable[[Admin, int], list[ConfigRow]]
    alter: Callable[..., None]
    """Takes the configs to set, those to reset as `delete`, and `validate_only`."""


def _topic(asked: Asked) -> _Resource:
    name, admin = asked.path["topic"], asked.admin

    def alter(configs: dict[str, str], **more: Any) -> None:
        admin.alter_topic_configs(name, configs, **more)

    return _Resource(
        what=f"topic {name}",
        where=f"/clusters/{asked.cluster.name}/topics/{segment(name)}",
        own=ConfigSource.DYNAMIC_TOPIC_CONFIG,
        describe=lambda admin, timeout_ms: rows_of(
            admin.describe_topic_configs(name, timeout_ms=timeout_ms), ConfigSource.DYNAMIC_TOPIC_CONFIG
        ),
        alter=alter,
    )


def _broker(asked: Asked) -> _Resource:
    """Raises Refusal for an address without a broker's id."""
    text, admin = asked.path["broker"], asked.admin
    if text != ALL_BROKERS and not (text.isascii() and text.isdigit() and len(text) < 10):
        problem = f"{text[:40]!r} is no broker: give its id, or {ALL_BROKERS} for the configs of all brokers"
        raise Refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, problem)
    broker_id = None if text == ALL_BROKERS else int(text)

    def alter(configs: dict[str, str], **more: Any) -> None:
        admin.alter_broker_configs(broker_id, configs, **more)

    def describe(admin: Admin, timeout_ms: int) -> list[ConfigRow]:
        if broker_id is not None:
            entries = admin.describe_broker_configs(broker_id, timeout_ms=timeout_ms)
            return rows_of(entries, ConfigSource.DYNAMIC_BROKER_CONFIG)
        return _of_all_brokers(admin, timeout_ms // 2)

    return _Resource(
        what="all brokers" if broker_id is None else f"broker {broker_id}",
        where=f"/clusters/{asked.cluster.name}/brokers/{text}",
        own=ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG if broker_id is None else ConfigSource.DYNAMIC_BROKER_CONFIG,
        describe=describe,
        alter=alter,
    )


def _of_all_brokers(admin: Admin, timeout_ms: int) -> list[ConfigRow]:
    """Return what can be set for all brokers, with the values of a broker that has none of its own.

    Brokers tell only what is set for all of them, so what else there is, with its help, is what one of them has.
    """
    own = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    set_for_all = {each.name for each in admin.describe_broker_configs(None, timeout_ms=timeout_ms)}
    entries = admin.describe_broker_configs(_brokers(admin, timeout_ms)[0], timeout_ms=timeout_ms)
    rows = [_row(each, own) for each in entries if not each.read_only or each.name in set_for_all]
    return sorted(rows, key=lambda each: (not each.own, each.name))


def _brokers(admin: Admin, timeout_ms: int) -> list[int]:
    """Return the ids of the brokers in service: at least of the one that answers."""
    return sorted(each.node_id for each in admin.describe_cluster(topics=(), timeout_ms=timeout_ms).brokers)


def rows_of(entries: Sequence[DescribeConfigsResourceResult], own: ConfigSource) -> list[ConfigRow]:
    """Return the configs, those first that are set on the resource itself, whose source is `own`."""
    return sorted((_row(each, own) for each in entries), key=lambda each: (not each.own, each.name))


_RANKS: Final = {
    int(ConfigSource.DYNAMIC_TOPIC_CONFIG): 0,
    int(ConfigSource.DYNAMIC_BROKER_CONFIG): 1,
    int(ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG): 2,
    int(ConfigSource.STATIC_BROKER_CONFIG): 3,
    int(ConfigSource.DEFAULT_CONFIG): 4,
}
"""Sources in the order in which they win."""


def _row(entry: DescribeConfigsResourceResult, own: ConfigSource) -> ConfigRow:
    """Return the config as a resource has it that takes no source that wins over its own."""
    synonyms = [each for each in entry.synonyms if _RANKS.get(each.source, 0) >= _RANKS[int(own)]]
    is_own = bool(synonyms) and synonyms[0].source == own
    below = synonyms[1:] if is_own else synonyms
    value, source = entry.value, int(entry.config_source)
    if own is not ConfigSource.DYNAMIC_TOPIC_CONFIG and synonyms:
        value, source = synonyms[0].value, synonyms[0].source
    return ConfigRow(
        name=entry.name,
        value=None if entry.is_sensitive else value,
        source=_source(source),
        own=is_own or source == own,
        after_reset=None if entry.is_sensitive or not below else _below(entry.name, below[0]),
        after_reset_source=_source(below[0].source) if below else "",
        read_only=entry.read_only,
        hidden=entry.is_sensitive,
        type=ConfigType(entry.config_type).name.lower().replace("unknown", ""),
        choices=_CHOICES.get(entry.config_type, []),
        help=entry.documentation or "",
    )


def _below(name: str, synonym: DescribeConfigsSynonym) -> str:
    """Return a value with its key, if that has another unit, such as log.retention.hours for retention.ms."""
    value = synonym.value or ""
    has_unit = synonym.name.rpartition(".")[2] == name.rpartition(".")[2]
    return value if has_unit else f"{synonym.name}={value}"


def _source(source: int) -> str:
    return _TOPIC_SOURCES.get(source) or _SOURCES.get(source, "unknown")


# --- pages -----------------------------------------------------------------------------------------------------------


async def topic_configs(asked: Asked) -> Configs:
    return await _listed(asked, _topic)


async def broker_configs(asked: Asked) -> Configs:
    return await _listed(asked, _broker)


async def topic_config(asked: Asked) -> Config:
    return await _one(asked, _topic)


async def broker_config(asked: Asked) -> Config:
    return await _one(asked, _broker)


async def _listed(asked: Asked, resource_of: Callable[[Asked], _Resource]) -> Configs:
    search = asked.query.get("q", "").strip()[:250]

    def ask() -> ConfigsFound:
        resource = resource_of(asked)
        rows = resource.describe(asked.admin, CLIENT_MS // 2)
        found = [each for each in rows if search.lower() in each.name]
        topic = asked.path.get("topic", "")
        return ConfigsFound(
            what=resource.what,
            where=resource.where,
            topic=topic,
            brokers=[] if topic else _brokers(asked.admin, CLIENT_MS // 2),
            rows=found,
            total=len(rows),
            search=search,
        )

    return Configs(configs=await asked.panel(ask))


async def _one(asked: Asked, resource_of: Callable[[Asked], _Resource]) -> Config:
    def ask() -> ConfigFound:
        resource = resource_of(asked)
        row = _named(resource.describe(asked.admin, CLIENT_MS), asked.path["config"], resource.what)
        return ConfigFound(what=resource.what, where=resource.where, row=row)

    return Config(config=await asked.panel(ask))


def _named(rows: Sequence[ConfigRow], name: str, what: str) -> ConfigRow:
    for each in rows:
        if each.name == name:
            return each
    raise Refusal(ErrorCode.INVALID_CONFIG, f"{what} has no config {name[:100]!r}: choose one from the list")


# --- changes ---------------------------------------------------------------------------------------------------------


async def change_topic_config(asked: Asked) -> Done:
    return await asked.change(lambda: _changed(asked, _topic(asked)))


async def change_broker_config(asked: Asked) -> Done:
    return await asked.change(lambda: _changed(asked, _broker(asked)))


def _changed(asked: Asked, resource: _Resource) -> Done:
    """Set or reset the config of the address, unless it is another now than the one that the form showed."""
    name, form = asked.path["config"], asked.form
    is_reset, value = form.flag("reset"), form.text("value")
    if not is_reset and "value" not in form:
        raise WrongInput("nothing to do: send value=..., or reset=true")
    if len(value) > VALUE_CHARS_MAX:
        raise WrongInput(f"the value has {len(value):,} characters: at most {VALUE_CHARS_MAX:,} are taken")
    timeout_ms = CHANGE_CLIENT_MS // 3
    before = _named(resource.describe(asked.admin, timeout_ms), name, resource.what)
    check_read_only(before)
    if "seen" in form:
        check_seen(before, form.raw("seen"), form.flag("seen_own"))
    configs, delete = ({}, [name]) if is_reset else ({name: value}, [])
    resource.alter(configs, delete=delete, validate_only=True, timeout_ms=timeout_ms)
    resource.alter(configs, delete=delete, timeout_ms=timeout_ms)
    said = f"{name} of {resource.what} was {'reset' if is_reset else 'set'}"
    shown = "" if before.hidden or is_reset else f" to {value or 'nothing'}"
    return Done(
        where=f"{resource.where}/configs",
        said=f"{said}{shown}.",
        value={"config": name, "value": None if is_reset or before.hidden else value},
    )


def check_read_only(row: ConfigRow) -> None:
    if row.read_only:
        raise WrongInput(f"{row.name} cannot be changed while the broker runs: set it in its file, and restart it")


def check_seen(now: ConfigRow, seen: str, seen_own: bool) -> None:
    """Raise Changed if the config is not as the form showed it. Of a hidden value only whether it is set is known."""
    if (now.value or "", now.own) == (seen, seen_own):
        return
    was, is_now = _as_said(seen, seen_own), _as_said(now.value or "", now.own)
    raise Changed(
        f"{now.name} has changed since you saw it: it was {was}, and is {is_now} now. Nothing was done; look at the new"
        " value, and decide again"
    )


def _as_said(value: str, is_own: bool) -> str:
    return f"{value[:100] or 'empty'!r} ({'set here' if is_own else 'not set here'})"
