"""Refuses options of Kafka's tools that Kraft does not have, old ones too, and names the replacement."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Final

_BOOTSTRAP: Final = "--bootstrap-server HOST:PORT"
_WITH_BOOTSTRAP_SERVER: Final = (
    *("topics", "produce", "consume", "configs", "brokers", "groups", "transactions", "quorum", "features"),
)
_WITH_FILE: Final = ("server", "storage")

ACTIONS: Final = {
    "topics": ("list", "describe", "create", "alter", "delete"),
    "groups": ("list", "describe", "members", "state", "reset-offsets", "delete", "delete-offsets"),
    "configs": ("describe", "alter"),
    "transactions": ("list", "describe", "describe-producers", "find-hanging", "abort"),
}
"""Commands that Kafka's tools have as options, by the command that they belong to."""


def objection(arguments: Sequence[str]) -> str | None:
    """Return an error for the first old option in these arguments of `kraft`; None if there is none."""
    command = arguments[0] if arguments else ""
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


def _instead_of(option: str, command: str, arguments: Sequence[str]) -> str | None:
    if command in _WITH_FILE and option == "--zookeeper":
        return "Kraft has no ZooKeeper: name the controllers in controller.quorum.voters of the configuration file"
    if command not in _WITH_BOOTSTRAP_SERVER:
        return None
    match option:
        case "--zookeeper":
            return f"Kraft has no ZooKeeper: use {_BOOTSTRAP} instead"
        case "--new-consumer":
            return f"there is only one consumer: remove the option and use {_BOOTSTRAP}"
        case "--broker-list" if "reassign" not in arguments:
            return f"use {_BOOTSTRAP} instead"
        case "--bootstrap-servers":
            return f"use {_BOOTSTRAP} instead"
        case _:
            return None
