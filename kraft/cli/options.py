"""Options that several commands share."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kraft.cli.command_security import connection_settings

if TYPE_CHECKING:
    from kraft.client import Admin
    from kraft.client.cluster.network import Network


class Output(StrEnum):
    """Output format of a command."""

    TABLE = "table"
    JSON = "json"


BOOTSTRAP_VARIABLE: Final = "KRAFT_BOOTSTRAP_SERVER"
"""Environment variable with the default of --bootstrap-server."""


class GivenServers(str):
    """Servers that the command line names: they go before those of a file, also where they are the default."""

    __slots__ = ()


def _as_given(context: typer.Context, servers: str) -> str:
    source = context.get_parameter_source("bootstrap_server")
    return GivenServers(servers) if source is not None and source.name == "COMMANDLINE" else servers


def _servers_option(*more_names: str) -> Any:
    return typer.Option(
        "--bootstrap-server",
        *more_names,
        callback=_as_given,
        metavar="HOST[:PORT][,...]",
        envvar=BOOTSTRAP_VARIABLE,
        show_envvar=False,
        help=f"GRPC listeners of one or more brokers. The port is 9094 unless given. {BOOTSTRAP_VARIABLE} may set it.",
    )


BootstrapServer = Annotated[str, _servers_option()]
BootstrapServerOrBrokerList = Annotated[str, _servers_option("--broker-list")]
"""Producers take the option of Kafka's old guides, too."""

OutputFormat = Annotated[Output, typer.Option("--output", help="Output format: table for people, json for programs.")]
Timeout = Annotated[
    int, typer.Option("--timeout-ms", min=1, help="Longest wait for an answer of the cluster, in milliseconds.")
]
TopicArgument = Annotated[str | None, typer.Argument(metavar="TOPIC", help="Name of the topic.")]
TopicOption = Annotated[str | None, typer.Option("--topic", help="Same as TOPIC.")]
IncludeOption = Annotated[
    str | None,
    typer.Option(
        "--include",
        metavar="REGEX",
        help="Read all topics whose names match REGEX, instead of one TOPIC.",
        show_default=False,
    ),
]
PartitionOption = Annotated[
    int | None, typer.Option("--partition", min=0, help="Number of the partition.", show_default=False)
]

DEFAULT_BOOTSTRAP_SERVER = "localhost:9094"
DEFAULT_TIMEOUT_MS = 10_000
THROTTLE_MAX: Final = 2**63 - 1
"""Largest value of Kafka's configs for rates."""
REFUSED_TIMEOUT_MS = 1_000
"""Longest time that a command tries when no GRPC listener is at any address."""


def throttle_option(help_text: str) -> Any:
    """Return the option for the rate of moves."""
    return typer.Option(
        "--throttle", metavar="BYTES_PER_SECOND", parser=bytes_per_second, help=help_text, show_default=False
    )


def bytes_per_second(text: str) -> int:
    """Return the rate. Raises BadParameter; at 0, for which brokers would stop all moves, too."""
    if not (text.isascii() and text.isdigit() and len(text) < 20 and 1 <= int(text) <= THROTTLE_MAX):
        raise typer.BadParameter(f"{text[:30]!r} is no rate: give whole bytes per second, at least 1")
    return int(text)


def open_admin(bootstrap_server: str, timeout_ms: int) -> Admin:
    """Return an admin client; the caller closes it."""
    # Imported late, so that a command that only prints its help is fast.
    from kraft.client import Admin

    return Admin(
        bootstrap_server,
        network=command_network(),
        default_api_timeout_ms=timeout_ms,
        bootstrap_refused_timeout_ms=REFUSED_TIMEOUT_MS,
        **connection_settings(),
    )


def command_network() -> Network:
    """Return the network of a command's client, which operators see as this command line."""
    from kraft.client.cluster.network import Network

    return Network(software="kraft-cli")


def json_file(path: Path, option: str) -> object:
    """Return the content of the file that the option names. Raises BadParameter."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be read: {error.strerror}", param_hint=option) from None
    except ValueError as error:
        raise typer.BadParameter(f"{path} is not JSON: {error}", param_hint=option) from None


def topic_name(positional: str | None, option: str | None) -> str:
    """Return the topic that was named. Raises BadParameter for none or two."""
    name = optional_topic_name(positional, option)
    if name is None:
        raise typer.BadParameter("no topic is given: name one", param_hint="TOPIC")
    return name


def optional_topic_name(positional: str | None, option: str | None) -> str | None:
    """Return the topic that was named, or None. Raises BadParameter for two."""
    if positional is not None and option is not None and positional != option:
        raise typer.BadParameter(f"two topics are given, {positional} and {option}: name one", param_hint="--topic")
    return positional if positional is not None else option


def topic_or_pattern(
    positional: str | None, option: str | None, include: str | None
) -> tuple[str | None, re.Pattern[str] | None]:
    """Return the topic that was named, or else the pattern of topics. Raises BadParameter for none or both."""
    name = optional_topic_name(positional, option)
    if (name is None) == (include is None):
        raise typer.BadParameter("give a topic, or --include REGEX, and not both")
    try:
        return name, None if include is None else re.compile(include)
    except re.error as error:
        raise typer.BadParameter(f"{include!r} is no regular expression: {error}", param_hint="--include") from None


def key_values(pairs: list[str], option: str) -> dict[str, str]:
    """Parse `key=value` pairs of the command line. Raises BadParameter."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint=option)
        found[key] = value
    return found


def listed_words(text: str | None, allowed: Sequence[str], option: str) -> list[str]:
    """Return the allowed words that the text lists, in any case. Raises BadParameter."""
    by_lower = {each.lower(): each for each in allowed}
    found = []
    for word in (text or "").split(",") if text is not None else ():
        if word.strip().lower() not in by_lower:
            what = f"{word.strip()[:100]!r} is not" if word.strip() else "a name is empty: expected"
            raise typer.BadParameter(f"{what} one of {', '.join(allowed)}", param_hint=option)
        found.append(by_lower[word.strip().lower()])
    return found
