"""Refuses options of Kafka's older tools that guides still show, and names the replacement."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Final

_BOOTSTRAP: Final = "--bootstrap-server HOST:PORT"
_WITH_BOOTSTRAP_SERVER: Final = (
    *("topics", "produce", "consume", "configs", "brokers", "groups", "transactions", "quorum", "features"),
)
_WITH_FILE: Final = ("server", "storage")


def objection(arguments: Sequence[str]) -> str | None:
    """Return an error for the first old option in these arguments of `kraft`; None if there is none."""
    command = arguments[0] if arguments else ""
    for argument in takewhile(lambda each: each != "--", arguments):
        option = argument.partition("=")[0]
        if (instead := _instead_of(option, command, arguments)) is not None:
            return f"{option}: {instead}"
    return None


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
