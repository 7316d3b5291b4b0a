"""The command with which an administrator allows what a command was refused."""

from __future__ import annotations

import re
import shlex
from typing import Final

_REFUSED: Final = re.compile(
    r"(?P<principal>[^\s:]+:\S.*?) has no (?P<operation>[a-z ]+) permission for"
    r" (?:the (?P<cluster>cluster)|(?P<type>topic|group|transactional id) '(?P<name>.+)')$"
)


def remedy(message: str, command: str, group: str | None) -> str:
    """Return the command for the refusal of a broker; empty if the message is none.

    Who produces or consumes needs more than the permission that was missing first.
    """
    found = _REFUSED.search(message)
    if found is None:
        return ""
    words = ["kraft", "acls", "create", "--allow-principal", found["principal"]]
    if found["type"] == "topic" and command == "produce":
        words += ["--producer", "--topic", found["name"]]
    elif found["type"] == "topic" and command == "consume":
        # Without a group consumers need these two alone: --consumer wants a group.
        wanted = ["--consumer", "--group", group] if group else ["--operation", "read", "--operation", "describe"]
        words += [*wanted, "--topic", found["name"]]
    elif found["type"] == "group" and command == "consume":
        words += ["--operation", "read", "--group", found["name"]]
    else:
        words += ["--operation", found["operation"].replace(" ", "-")]
        words += ["--cluster"] if found["cluster"] else [f"--{found['type'].replace(' ', '-')}", found["name"]]
    return shlex.join(words)
