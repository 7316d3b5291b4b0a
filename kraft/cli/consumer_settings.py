"""Settings of `kraft consume`: the options, and the file of `--consumer-config`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from kraft.cli.client_settings import given_settings, over_defaults, settings_in_file

ConsumerConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--consumer-config",
        "--consumer.config",
        metavar="FILE",
        help="Consumer settings file with one key=value on each line, such as auto.offset.reset=earliest.",
        show_default=False,
    ),
]
GroupOption = Annotated[
    str | None,
    typer.Option(
        "--group",
        help="Group to read in: its members share the partitions, and it continues at its committed offsets.",
        show_default=False,
    ),
]
ConsumerPropertyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--consumer-property",
        metavar="KEY=VALUE",
        help="Consumer setting key=value, which overrides the settings file. May be repeated.",
        show_default=False,
    ),
]
IsolationLevelOption = Annotated[
    str | None,
    typer.Option(
        "--isolation-level",
        help="read_committed to leave out records of aborted and open transactions. [default: read_uncommitted]",
        show_default=False,
    ),
]

EARLIEST: Final = ("earliest", "smallest")
"""Names of auto.offset.reset that mean the log start offset; the second is of older clients."""

_OPTION: Final = "--consumer-config"
_PROPERTY_OPTION: Final = "--consumer-property"


def consumer_settings(
    file: Path | None,
    bootstrap_server: str,
    group: str | None,
    *,
    from_beginning: bool,
    properties: list[str] | None = None,
    isolation_level: str | None = None,
) -> dict[str, Any]:
    """Return the settings of a consumer, as keyword arguments. Raises BadParameter.

    Options go before properties, and these before the file.
    """
    found = {} if file is None else settings_in_file(file, _OPTION)
    given = given_settings(properties, _PROPERTY_OPTION)
    found.update(given)
    if isolation_level is not None:
        found["isolation_level"] = isolation_level
    settings = over_defaults(found, bootstrap_server, "default_api_timeout_ms")
    if group is not None:
        if found.get("group_id", group) != group:
            raise typer.BadParameter(
                f"{group!r} is not group.id={found['group_id']} of {_source('group_id', given, file)}: name one group",
                param_hint="--group",
            )
        settings["group_id"] = group
    if from_beginning:
        if found.get("auto_offset_reset", "earliest") not in EARLIEST:
            raise typer.BadParameter(
                f"cannot be used with auto.offset.reset={found['auto_offset_reset']} of "
                f"{_source('auto_offset_reset', given, file)}: remove one of them",
                param_hint="--from-beginning",
            )
        settings["auto_offset_reset"] = "earliest"
    return settings


def _source(name: str, properties: Mapping[str, str], file: Path | None) -> object:
    return _PROPERTY_OPTION if name in properties else file
