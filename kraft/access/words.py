"""Names of what ACLs speak of, as people write them: `describe configs`, `Describe-Configs`, `DescribeConfigs`."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, TypeVar

from kraft.model.access import Operation, PatternType, PermissionType, ResourceType
from kraft.model.errors import KraftError

Name = TypeVar("Name", bound=IntEnum)

OPERATIONS: Final = tuple(each for each in Operation if each > Operation.ANY)
RESOURCE_TYPES: Final = tuple(each for each in ResourceType if each > ResourceType.ANY)
PATTERN_TYPES: Final = (PatternType.LITERAL, PatternType.PREFIXED)
PERMISSIONS: Final = (PermissionType.ALLOW, PermissionType.DENY)


class UnknownName(KraftError):
    """The text says which names there are."""


def named(text: str, among: tuple[Name, ...], what: str) -> Name:
    """Return what has this name. Raises UnknownName."""
    wanted = _letters(text)
    for each in among:
        if _letters(each.name) == wanted:
            return each
    names = ", ".join(each.name.replace("_", " ").lower() for each in among)
    raise UnknownName(f"{what}={text[:40]!r} is not one of {names}")


def _letters(text: str) -> str:
    return text.replace("-", "").replace("_", "").replace(" ", "").lower()
