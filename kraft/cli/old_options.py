"""Refuses tools and options of Kafka that Kraft does not have, old ones too, and names the replacement."""

from __future__ import annotations

from collections.abc import Container, Sequence
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

_NO_SHARE_GROUPS: Final = f"{_NOT_YET}: there are no share groups"
_NO_STREAMS_GROUPS: Final = f"{_NOT_YET}: there are no groups of the streams protocol"
_NO_CONNECT: Final = (
    "Kafka Connect is not part of Kraft: run Kafka's own script, with bootstrap.servers of a PLAINTEXT listener"
)
_CREATE: Final = "kraft topics create, list, delete, or alter --partitions"

OTHER_TOOLS: Final = {
    "add-partitions": _CREATE,
    "connect-distributed": _NO_CONNECT,
    "connect-plugin-path": _NO_CONNECT,
    "connect-standalone": _NO_CONNECT,
    "console-share-consumer": _NO_SHARE_GROUPS,
    "consumer-offset-checker": "kraft groups describe --group GROUP",
    "create-topic": _CREATE,
    "delegation-tokens": _NOT_YET,
    "delete-topic": _CREATE,
    "jmx": "there is no JMX: set metrics.address, and see docs/metrics.md",
    "list-topic": _CREATE,
    "metadata-shell": "kraft metadata shell DIRECTORY, with a log directory of a node",
    "preferred-replica-election": "kraft topics elect-leaders --election-type preferred --all-topic-partitions",
    "replay-log-producer": "kraft consume TOPIC --from-beginning --timeout-ms 5000 | kraft produce OTHER-TOPIC",
    "share-consumer-perf-test": _NO_SHARE_GROUPS,
    "share-groups": _NO_SHARE_GROUPS,
    "shell": "kraft metadata shell DIRECTORY, with a log directory of a node",
    "simple-consumer-shell": "kraft consume TOPIC --partition N --offset OFFSET",
    "streams-application-reset": "it works with Kafka's own tool, at a PLAINTEXT listener",
    "streams-groups": _NO_STREAMS_GROUPS,
    "zookeeper-security-migration": "Kraft has no ZooKeeper: see kraft acls",
    "zookeeper-server-start": "Kraft needs no ZooKeeper: leave this out; kraft server start -c FILE starts a node",
    "zookeeper-server-stop": "Kraft needs no ZooKeeper: leave this out; kraft server stop stops nodes",
    "zookeeper-shell": "Kraft has no ZooKeeper: see kraft metadata shell",
}
"""What does the work of each of Kafka's tools that is no command by its name, without `kafka-` and `.sh`."""

SUBCOMMANDS: Final = {
    "lag": "kraft groups lag",
    "loggers": "kraft brokers loggers",
    "offsets": "kraft topics offsets",
    "safe-to-restart": "kraft brokers safe-to-restart",
}
"""Where commands are that are called without their group."""

_OF_QUORUMS: Final = frozenset({"--initial-controllers", "--no-initial-controllers"})
"""Options of `kafka-storage format` for quorums that change while they run (KIP-853)."""


def objection(arguments: Sequence[str], commands: Container[str] = ()) -> str | None:
    """Return an error for a tool of Kafka, or the first old option, in these arguments of `kraft`; else None.

    `commands` are those that `kraft` has.
    """
    command = arguments[0] if arguments else ""
    is_tool = command != "" and not command.startswith("-") and command not in commands
    if is_tool and (instead := _instead_of_tool(command)) is not None:
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
    # Imported late, because commands of Kraft do without.
    from kraft.cli.kafka_scripts import commands_of_tools

    name = command.removesuffix(".sh").removeprefix("kafka-")
    of_scripts = {each: instead for each, instead in commands_of_tools().items() if instead != f"kraft {each}"}
    return next(
        (found for each, found in (of_scripts | OTHER_TOOLS | SUBCOMMANDS).items() if _letters(each) == _letters(name)),
        None,
    )


def _letters(name: str) -> str:
    """Return the name without what people leave out or replace: `log_dirs` and `logdirs` are `log-dirs`."""
    return name.replace("-", "").replace("_", "")


def _instead_of(option: str, command: str, arguments: Sequence[str]) -> str | None:
    if command == "storage" and option in _OF_QUORUMS:
        return "remove it: controller.quorum.voters of the configuration file names the controllers"
    if command == "configs" and option == "--entity-type" and _count(option, arguments) > 1:
        return "give it once; a user with a client id is --user NAME --client ID"
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


def _count(option: str, arguments: Sequence[str]) -> int:
    return sum(each.partition("=")[0] == option for each in arguments)
