"""Rules of the console's file for viewing records: roles, views by topic, and masks. Pure: no record is here."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Final

from msgspec import Struct

EVERYBODY: Final[tuple[str, ...]] = ()


class Viewing(StrEnum):
    """How records are shown to a user. It may only take away from what the brokers' ACLs allow."""

    OFF = "off"
    MASKED = "masked"
    """By the masks of the topic; where none names the topic, all keys, values and headers are hidden."""

    ON = "on"
    """By the masks of the topic; where none names the topic, all is shown."""


class Role(Struct, frozen=True, kw_only=True):
    """A named set of users."""

    users: frozenset[str] = frozenset()
    claims: Mapping[str, frozenset[str]] = {}
    """By the name of a claim of the user's token: its values, any of which makes a user one of this role."""

    def has(self, user: str, claims: Mapping[str, Any]) -> bool:
        return user in self.users or any(
            not wanted.isdisjoint(_texts(claims.get(name))) for name, wanted in self.claims.items()
        )


class ViewRule(Struct, frozen=True, kw_only=True):
    """What some roles may view of some topics."""

    name: str
    topics: tuple[str, ...]
    """Patterns with * and ?."""

    roles: tuple[str, ...] = EVERYBODY
    viewing: Viewing = Viewing.OFF


class Mask(Struct, frozen=True, kw_only=True):
    """What is hidden in records of some topics."""

    name: str
    topics: tuple[str, ...]
    fields: tuple[tuple[str, ...], ...] = ()
    """Paths, without case. Each hides what it names at any depth: (card, number) each number directly in a card."""

    key: bool = False
    """Whether keys are hidden."""

    headers: tuple[str, ...] = ()
    """Patterns of the names of headers that are hidden, in lower case."""

    roles: tuple[str, ...] = ()
    """Who sees all the same what is hidden."""


class ViewingRules(Struct, frozen=True, kw_only=True):
    """All of a cluster."""

    viewing: Viewing = Viewing.OFF
    """Where no rule names the topic and a role of the user."""

    rules: tuple[ViewRule, ...] = ()
    """The first one that fits decides."""

    masks: tuple[Mask, ...] = ()
    roles: Mapping[str, Role] = {}

    def permission(self, user: str, claims: Mapping[str, Any], topic: str) -> Permission:
        """Return what the user may view of the topic's records."""
        own = {name for name, role in self.roles.items() if role.has(user, claims)}
        viewing = next(
            (
                each.viewing
                for each in self.rules
                if matches(each.topics, topic) and (each.roles == EVERYBODY or not own.isdisjoint(each.roles))
            ),
            self.viewing,
        )
        of_topic = [each for each in self.masks if matches(each.topics, topic)]
        return Permission(
            viewing=viewing,
            masks=tuple(each for each in of_topic if own.isdisjoint(each.roles)),
            hides_all=viewing is not Viewing.ON and not (viewing is Viewing.MASKED and of_topic),
        )


class Permission(Struct, frozen=True, kw_only=True):
    """What a user may view of a topic's records."""

    viewing: Viewing
    masks: tuple[Mask, ...] = ()
    """Those that hide something from this user."""

    hides_all: bool = False

    @property
    def is_off(self) -> bool:
        return self.viewing is Viewing.OFF

    @property
    def hides_keys(self) -> bool:
        """Whether keys are wholly hidden, so that nobody may look for one either."""
        return self.hides_all or any(each.key for each in self.masks)

    @property
    def hides_something(self) -> bool:
        return self.hides_all or bool(self.masks)

    @property
    def fields(self) -> tuple[tuple[str, ...], ...]:
        return tuple(path for each in self.masks for path in each.fields)

    def hides_header(self, name: str) -> bool:
        return self.hides_all or any(matches(each.headers, name.lower()) for each in self.masks)


def matches(patterns: tuple[str, ...], name: str) -> bool:
    return any(fnmatchcase(name, each) for each in patterns)


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [each for each in value if isinstance(each, str)] if isinstance(value, list | tuple) else []
