"""Refuses tools and options of Kafka that Kraft does not have, old ones too, and names the replacement."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Final

_BOOTSTRAP: Final = "--bootstrap-server HOST:PORT"
_WITH_BOOTSTRAP_SERVER: Final = (
    *("acls", "topics", "produce", "consume", "configs", "brokers", "groups", "transactions", "quorum", "features"),
    "cluster",
)
_WITH_FILE: Final = ("server", "storage")

ACTIONS: Final = {
    "acls": ("list",),
    "topics": ("list", "describe", "create", "alter", "delete"),
    "groups": ("list", "describe", "members", "state", "reset-offsets", "delete", "delete-offsets"),
    "configs": ("describe", "alter"),
    "transactions": ("list", "describe", "describe-producers", "find-hanging", "abort"),
}
"""Commands that Kafka's tools have as options, by the command that they belong to."""


_NOT_YET: Final = "not supported yet"

TOOLS: Final = {
    "broker-api-versions": "kraft api-versions",
    "client-metrics": _NOT_YET,
    "console-consumer": "kraft consume",
    "console-producer": "kraft produce",
    "console-share-consumer": f"{_NOT_YET}: there are no share groups",
    "consumer-groups": "kraft groups",
    "consumer-perf-test": "kraft perf consume",
    "delegation-tokens": _NOT_YET,
    "delete-records": "kraft topics delete-records",
    "dump-log": "kraft log dump, and kraft metadata dump for the metadata log",
    "e2e-latency": "kraft perf latency",
    "get-offsets": "kraft topics offsets",
    "leader-election": "kraft topics elect-leaders",
    "log-dirs": "kraft brokers log-dirs",
    "metadata-quorum": "kraft quorum describe",
    "metadata-shell": "kraft metadata shell",
    "mirror-maker": "write one file in place of MirrorMaker 1's two (docs/mirror.md): kraft mirror start -c FILE",
    "preferred-replica-election": "kraft topics elect-leaders --election-type preferred",
    "producer-perf-test": "kraft perf produce",
    "reassign-partitions": "kraft topics reassign",
    "replica-verification": "kraft replicas verify",
    "server-start": "kraft server start",
    "server-stop": "kraft server stop",
    "share-groups": f"{_NOT_YET}: there are no share groups",
    "streams-application-reset": "it works with Kafka's own tool, at a PLAINTEXT listener",
    "zookeeper-server-start": "Kraft has no ZooKeeper: kraft server start is all",
    "zookeeper-shell": "Kraft has no ZooKeeper: see kraft metadata shell",
}
"""What does the work of each of Kafka's tools, by the tool's name without `kafka-` and `.sh`."""

SUBCOMMANDS: Final = {
    "lag": "kraft groups lag",
    "loggers": "kraft brokers loggers",
    "offsets": "kraft topics offsets",
    "safe-to-restart": "kraft brokers safe-to-restart",
}
"""Where commands are that are called without their group."""

_NAMES_AS_HERE: Final = frozenset(
    {"acls", "cluster", "configs", "features", "groups", "storage", "topics", "transactions"}
)
"""Tools whose command has the same name here."""

_ALONE: Final = frozenset({"--standalone", "--initial-controllers", "--no-initial-controllers"})
"""Options of `kafka-storage format` for quorums that change while they run (KIP-853)."""


def objection(arguments: Sequence[str]) -> str | None:
    """Return an error for a tool of Kafka, or the first old option, in these arguments of `kraft`; else None."""
    command = arguments[0] if arguments else ""
    if (instead := _instead_of_tool(command)) is not None:
        return f"{command}: {instead}"
    for argument in takewhile(lambda each: each != "--", arguments):
        option = argument.partition("=")[0]
        if (instead := _instead_of(option, command, arguments)) is not None:
            return f"{option}: {instead}"
    return _action_given_as_option(arguments)


def _action_given_as_option(arguments: Sequence[str]) -> str | None:
    """Return an error for `kraft topics --list` and the like."""
    match arguments:
        case [command, first, *_] if first.startswith("-"):
            given = [each for each in arguments if each.startswith("--") and each[2:] in ACTIONS.get(command, ())]
        case _:
            return None
    # In kafka-consumer-groups, --members and --state go with --describe.
    actions = [each for each in given if each != "--describe"] or given
    return f"{actions[0]}: it is a command here: kraft {command} {actions[0][2:]}" if actions else None


def _instead_of_tool(command: str) -> str | None:
    name = command.removesuffix(".sh").removeprefix("kafka-")
    if name != command and name in _NAMES_AS_HERE:
        return f"kraft {name}"
    return next((found for each, found in (TOOLS | SUBCOMMANDS).items() if _letters(each) == _letters(name)), None)


def _letters(name: str) -> str:
    """Return the name without what people leave out or replace: `log_dirs` and `logdirs` are `log-dirs`."""
    return name.replace("-", "").replace("_", "")


def _instead_of(option: str, command: str, arguments: Sequence[str]) -> str | None:
    if command == "storage" and option in _ALONE:
        return "remove it: controller.quorum.voters of the configuration file names the controllers"
    if command in _WITH_FILE and option == "--zookeeper":
        return "Kraft has no ZooKeeper: name the controllers in controller.quorum.voters of the configuration file"
    if command not in _WITH_BOOTSTRAP_SERVER:
        return None
    match option:
        case "--add" if command == "acls":
            return "it is a command here: kraft acls create"
        case "--remove" if command == "acls":
            return "it is a command here: kraft acls delete"
        case "--zookeeper":
            return f"Kraft has no ZooKeeper: use {_BOOTSTRAP} instead"
        case "--new-consumer":
            return f"there is only one consumer: remove the option and use {_BOOTSTRAP}"
        case "--broker-list" if command != "produce" and "reassign" not in arguments:
            return f"use {_BOOTSTRAP} instead"
        case "--bootstrap-servers":
            return f"use {_BOOTSTRAP} instead"
        case _:
            return None
