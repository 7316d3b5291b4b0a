"""Options of writing with `format("kraft")`, checked and typed. Their names are those of Spark's Kafka sink."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from spark_connector.addresses import bootstrap_servers
from spark_connector.client_settings import PREFIXES, names_of
from spark_connector.given import Given, OptionError

EXACTLY_ONCE: Final = "exactly-once"
AT_LEAST_ONCE: Final = "at-least-once"

ID_PREFIX: Final = "kraft-spark"

_BOOTSTRAP_SERVERS: Final = names_of("bootstrap.servers")

_KNOWN: Final = (
    *_BOOTSTRAP_SERVERS,
    "topic",
    "delivery.guarantee",
    "transactionalIdPrefix",
    "txnAppId",
    "txnVersion",
    "includeHeaders",
)

_OF_SPARK_ITSELF: Final = frozenset({"path", "paths", "checkpointlocation", "mergeschema", "queryname"})

_REFUSED: Final = {
    "transactional.id": "each task has one of its own: transactionalIdPrefix sets how they begin",
    "transactional.id.temporary": "the sink sets it",
    "key.serializer": "keys are binary or text: convert them in the query",
    "value.serializer": "values are binary or text: convert them in the query",
    "partitioner.class": "the column partition chooses partitions; without it, keys do as with Kafka's clients",
    "interceptor.classes": "interceptors could change records",
}

DEFAULTS: Final = {
    # Readers of committed records wait for open transactions, so brokers refuse more than transaction.max.timeout.ms.
    "transaction.timeout.ms": "900000",
    # A task's records come thousands at a time.
    "batch.size": str(512 * 1024),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """Options of a query that writes."""

    bootstrap_servers: tuple[str, ...]
    topic: str | None
    """None if a column names the topic of each record."""

    is_exactly_once: bool = True
    id_prefix: str = ID_PREFIX
    app_id: str | None = None
    app_version: int = 0
    """A batch write of this version by this id to this topic is done once."""

    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Settings of the producers, sorted. A password may be among them."""


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Parse options of `df.write` and `df.writeStream`. Raises OptionError."""
    given = Given(options)
    settings = dict(DEFAULTS)
    for name, value in options.items():
        lowered = name.lower()
        if lowered.startswith(PREFIXES) and lowered not in _BOOTSTRAP_SERVERS:
            setting = _setting(name)
            given.first_of(names_of(setting)[1:])
            settings[setting] = value.strip()
        elif lowered not in _OF_SPARK_ITSELF and lowered not in {each.lower() for each in _KNOWN}:
            raise OptionError(f"option {name} {_misplaced(lowered) or 'is unknown to the kraft sink' + _hint(lowered)}")
    guarantee = given.text("delivery.guarantee")
    is_exactly_once = guarantee is None or _is_exactly_once(guarantee)
    app_id, app_version = _app(given, is_exactly_once=is_exactly_once)
    _check(settings, is_exactly_once=is_exactly_once)
    return SinkOptions(
        bootstrap_servers=bootstrap_servers(given),
        topic=given.not_empty("topic"),
        is_exactly_once=is_exactly_once,
        id_prefix=given.not_empty("transactionalIdPrefix") or ID_PREFIX,
        app_id=app_id,
        app_version=app_version,
        settings=tuple(sorted(settings.items())),
    )


def _is_exactly_once(text: str) -> bool:
    word = text.strip().lower().replace("_", "-")
    if word not in (EXACTLY_ONCE, AT_LEAST_ONCE):
        raise OptionError(f"option delivery.guarantee: {text!r} is neither {EXACTLY_ONCE} nor {AT_LEAST_ONCE}")
    return word == EXACTLY_ONCE


def _app(given: Given, *, is_exactly_once: bool) -> tuple[str | None, int]:
    app_id, version = given.not_empty("txnAppId"), given.text("txnVersion")
    if (app_id is None) != (version is None):
        raise OptionError("options txnAppId and txnVersion belong together: give both, or none")
    if app_id is None or version is None:
        return None, 0
    if not is_exactly_once:
        raise OptionError(f"option txnAppId needs delivery.guarantee={EXACTLY_ONCE}")
    if not version.strip().isascii() or not version.strip().isdigit() or len(version.strip()) > 18:
        raise OptionError(f"option txnVersion: {version!r} is not a whole number from 0 on")
    return app_id, int(version)


def _setting(name: str) -> str:
    setting = name.split(".", 1)[1].lower()
    if setting in _REFUSED:
        raise OptionError(f"option {name} is not supported: {_REFUSED[setting]}")
    return setting


def _check(settings: Mapping[str, str], *, is_exactly_once: bool) -> None:
    if settings == DEFAULTS:
        # Most queries set nothing, and Spark waits for the process that checks the options.
        return
    from kraft.client import InvalidSetting, NotSupportedYet
    from kraft.client.model.settings import ProducerSettings, settings_of

    if is_exactly_once and settings.get("acks", "all") not in ("all", "-1"):
        needed = f"needs delivery.guarantee={AT_LEAST_ONCE}: {EXACTLY_ONCE} writes with acks=all"
        raise OptionError(f"option acks={settings['acks']} {needed}")
    transactional = {"transactional.id": "any"} if is_exactly_once else {}
    try:
        settings_of(ProducerSettings, ("localhost:1",), {**settings, **transactional})
    except (InvalidSetting, NotSupportedYet) as error:
        raise OptionError(f"client setting {error}") from None


def _misplaced(lowered: str) -> str:
    return "is for reading; topic gives the topic to write to" if lowered == "subscribe" else ""


def _hint(lowered: str) -> str:
    near = difflib.get_close_matches(lowered, [option.lower() for option in _KNOWN], n=1)
    return next((f", did you mean {option}?" for option in _KNOWN if [option.lower()] == near), "")
