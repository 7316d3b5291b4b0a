"""Options of Kafka's older tools that guides still show: each is refused with what to write instead."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Final

_BOOTSTRAP: Final = "--bootstrap-server HOST:PORT"
_WITH_BOOTSTRAP_SERVER: Final = ("topics", "produce", "consume", "configs", "brokers", "quorum", "features")
_WITH_FILE: Final = ("server", "storage")


def objection(arguments: Sequence[str]) -> str | None:
    """What to write instead of the first old option in these arguments of `kraft`; None when there is none."""
    command = arguments[0] if arguments else ""
    for argument in takewhile(lambda each: each != "--", arguments):
        option = argument.partition("=")[0]
        if (instead := _instead_of(option, command, arguments)) is not None:
            return f"{option}: {instead}"
    return None


def _instead_of(option: str, command: str, arguments: Sequence[str]) -> str | None:
    if command in _WITH_FILE and option == "--zookeeper":
        return "there is no ZooKeeper here: controller.quorum.voters in the configuration file names the controllers"
    if command not in _WITH_BOOTSTRAP_SERVER:
        return None
    match option:
        case "--zookeeper":
            return f"there is no ZooKeeper here: use {_BOOTSTRAP} instead"
        case "--new-consumer":
            return f"there is one consumer only: leave the option out, and use {_BOOTSTRAP}"
        case "--broker-list" if "reassign" not in arguments:
            return f"use {_BOOTSTRAP} instead"
        case "--bootstrap-servers":
            return f"the option is named {_BOOTSTRAP}"
        case _:
            return None
