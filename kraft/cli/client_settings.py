"""Settings of a command's producer or consumer: those of a file, those of the command line, and a producer's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from kraft.cli.command_security import connection_settings, properties_of, security_in, use_security
from kraft.cli.options import (
    BOOTSTRAP_VARIABLE,
    DEFAULT_BOOTSTRAP_SERVER,
    DEFAULT_TIMEOUT_MS,
    REFUSED_TIMEOUT_MS,
    GivenServers,
    key_values,
)

PRODUCER_CONFIG: Final = "--producer-config"
PRODUCER_PROPERTY: Final = "--producer-property"

_OLD_BROKERS: Final = "metadata_broker_list"
"""bootstrap.servers of the producer of Kafka 0.8 and 0.9."""

_OF_JAVA: Final = ("key.serializer", "value.serializer", "key.deserializer", "value.deserializer")
_WHAT_LINES_ARE: Final = tuple(
    f".{kind}{each}" for kind in ("String", "ByteArray") for each in ("Serializer", "Deserializer")
)
"""Classes of Java for text and bytes, which the lines of commands are."""

ProducerConfigOption = Annotated[
    Path | None,
    typer.Option(
        PRODUCER_CONFIG,
        "--producer.config",
        metavar="FILE",
        help="Producer settings file with one key=value on each line, such as linger.ms=20.",
        show_default=False,
    ),
]
ProducerPropertyOption = Annotated[
    list[str] | None,
    typer.Option(
        PRODUCER_PROPERTY,
        metavar="KEY=VALUE",
        help="Producer setting key=value, which overrides the settings file. May be repeated.",
        show_default=False,
    ),
]


def producer_settings(
    file: Path | None, bootstrap_server: str, properties: list[str] | None = None, **options: Any
) -> dict[str, Any]:
    """Return the settings of a producer, as keyword arguments. Raises BadParameter.

    Options go before properties, and these before the file; an option that is None was not given.
    """
    found = {} if file is None else settings_in_file(file, PRODUCER_CONFIG)
    if _OLD_BROKERS in found:
        found.setdefault("bootstrap_servers", found.pop(_OLD_BROKERS))
    given = given_settings(properties, PRODUCER_PROPERTY)
    chosen = {name: value for name, value in options.items() if value is not None}
    return over_defaults({**found, **given, **chosen}, bootstrap_server, "max_block_ms")


def over_defaults(found: Mapping[str, Any], bootstrap_server: str, timeout: str) -> dict[str, Any]:
    """Return what was found, over the settings that clients of commands have by default.

    `timeout` names the setting that bounds a call. A server that was given goes before those that were found.
    """
    settings = {
        timeout: DEFAULT_TIMEOUT_MS,
        "bootstrap_refused_timeout_ms": REFUSED_TIMEOUT_MS,
        "bootstrap_servers": bootstrap_server,
        **connection_settings(),
        **found,
    }
    is_default = bootstrap_server in (DEFAULT_BOOTSTRAP_SERVER, os.environ.get(BOOTSTRAP_VARIABLE))
    if isinstance(bootstrap_server, GivenServers) or not is_default:
        settings["bootstrap_servers"] = bootstrap_server
    return settings


def given_settings(properties: list[str] | None, option: str) -> dict[str, str]:
    """Return settings of the command line, with underscores in their names. Raises BadParameter, for secrets too."""
    from kraft.client.model.security import is_security_key

    given = {key.replace(".", "_"): each for key, each in key_values(properties or [], option).items()}
    for name in given:
        dotted = name.replace("_", ".")
        if is_security_key(dotted):
            raise typer.BadParameter(
                f"{dotted} has to be in a file, because others can read arguments: give --command-config FILE",
                param_hint=option,
            )
    return given


def settings_in_file(file: Path, option: str) -> dict[str, str]:
    """Return the settings of a file, with underscores in their names; those of security become the command's.

    Raises BadParameter.
    """
    from kraft.client.model.security import is_security_key

    found = properties_of(file, option)
    security = security_in(found, file, option)
    if security is not None:
        use_security(security, option)
    return {
        name.replace(".", "_"): value
        for name, value in found.items()
        if not is_security_key(name) and not (name in _OF_JAVA and value.strip().endswith(_WHAT_LINES_ARE))
    }
