"""Decides who may do what, as Kafka's StandardAuthorizer does: from ACLs, super users and a rule for what has no ACL.

An ACL concerns a resource if its pattern has the resource's name, is a prefix of it, or is the literal `*`. What a DENY
denies is denied, whatever allows it; otherwise one ALLOW is enough. Super users are not asked.
Source: KIP-11, KIP-290, KIP-679 (`may_on_any`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Set
from enum import Enum
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from itertools import product
from typing import Final, NamedTuple, TypeVar

from msgspec import Struct

from kraft.metadata.acls import DENIED_SHIFT, AclEntry, Acls, Holder, Pattern
from kraft.metadata.held_acls import LITERAL_WILDCARD, NAMED, NOTHING, Held, HeldAcls, Said, said_at
from kraft.model.access import EVERY_USER, WILDCARD, Operation, PatternType, ResourceType
from kraft.model.principal import Principal

Key = TypeVar("Key")
Kept = TypeVar("Kept")

DECISIONS_KEPT_MAX: Final = 20_000
NAME_LENGTH_KEPT_MAX: Final = 256
"""Decisions on longer names are not kept: a client chooses the names, and so the memory."""

OWN_PATTERNS_MAX: Final = 1_000
"""Of a principal with more patterns, the prefixes of all principals are tried: to look at its own takes longer."""


class Requester(NamedTuple):
    """Who asks, and from where."""

    principal: str
    host: str

    @classmethod
    def of(cls, principal: Principal, host: str) -> Requester:
        return cls(str(principal), host)


class Reason(Enum):
    """What a decision follows from."""

    SUPER_USER = "the principal is a super user"
    ENTRY = "this ACL says so"
    NOTHING_ALLOWS = "no ACL allows it"
    NO_ACL = "no ACL concerns the resource, and then everybody may do everything (allow.everyone.if.no.acl.found)"


class Decision(Struct, frozen=True):
    """`entry` is the ACL that the decision follows from, if it follows from one."""

    is_allowed: bool
    reason: Reason
    entry: AclEntry | None = None


_SUPER_USER: Final = Decision(True, Reason.SUPER_USER)
_NOTHING_ALLOWS: Final = Decision(False, Reason.NOTHING_ALLOWS)
_NO_ACL: Final = Decision(True, Reason.NO_ACL)


class Authorizer:
    """Decides from one value of the ACLs. What it keeps is never out of date, because that value never changes."""

    def __init__(self, acls: Acls, super_users: Set[str], *, allow_if_no_acl: bool) -> None:
        """`super_users` are principals as in ACLs: `User:alice`."""
        self.acls: Final = acls
        self._super_users = super_users
        self._allow_if_no_acl = allow_if_no_acl
        self._decisions: dict[tuple[Requester, Operation, ResourceType, str], Decision] = {}
        self._on_any: dict[tuple[Requester, Operation, ResourceType], bool] = {}
        self._held_by: dict[tuple[Requester, ResourceType], Held] = {}
        self._own: dict[tuple[Holder, ...], HeldAcls] = {}
        lengths: dict[int, list[int]] = defaultdict(list)
        for resource_type, length in acls.prefix_lengths:
            lengths[resource_type].append(length)
        # The longest comes first, so that the entry that is named is the most exact one.
        self._prefix_lengths = {each: sorted(found, reverse=True) for each, found in lengths.items()}

    def decide(self, requester: Requester, operation: Operation, resource_type: ResourceType, name: str) -> Decision:
        """Return whether the requester may do this with the resource of that name."""
        key = requester, operation, resource_type, name
        kept = self._decisions.get(key)
        if kept is None:
            kept = self._decided(requester, operation, resource_type, name)
            if len(name) <= NAME_LENGTH_KEPT_MAX:
                _keep(self._decisions, key, kept)
        return kept

    def may_on_any(self, requester: Requester, operation: Operation, resource_type: ResourceType) -> bool:
        """Return whether there is a name for which the requester may do this, and no DENY covers the ALLOW.

        As in Kafka, only ACLs for this very operation and for all operations count.
        """
        key = requester, operation, resource_type
        kept = self._on_any.get(key)
        if kept is None:
            # Kafka asks for this name, too, so that super users are allowed whatever is denied.
            kept = self._decided(requester, operation, resource_type, "hardcode").is_allowed or self._is_allowed_on_any(
                requester, operation, resource_type
            )
            _keep(self._on_any, key, kept)
        return kept

    def _decided(self, requester: Requester, operation: Operation, resource_type: ResourceType, name: str) -> Decision:
        if requester.principal in self._super_users:
            return _SUPER_USER
        held = self._held(requester, resource_type)
        if not held and not self._allow_if_no_acl:
            return _NOTHING_ALLOWS
        said = self._said(held, operation, resource_type, name)
        if said.denying is not None:
            return Decision(False, Reason.ENTRY, said.denying)
        if said.allowing is not None:
            return Decision(True, Reason.ENTRY, said.allowing)
        return _NO_ACL if self._allow_if_no_acl and not self._has_acls(resource_type, name) else _NOTHING_ALLOWS

    def _said(self, held: Held, operation: Operation, resource_type: ResourceType, name: str) -> Said:
        holders = tuple([holder for holder, _ in held])
        own = self._own.get(holders)
        if own is None:
            if any(len(patterns) > OWN_PATTERNS_MAX for _, patterns in held):
                return self._said_by_many(held, operation, resource_type, name)
            own = HeldAcls(held)
            _keep(self._own, holders, own)
        return own.say(operation, name)

    def _said_by_many(self, held: Held, operation: Operation, resource_type: ResourceType, name: str) -> Said:
        """Return what is said by holders that have very many patterns."""
        said = NOTHING
        for pattern in self._patterns(resource_type, name):
            if (resource_type, pattern) in self.acls.holders:
                said = said.or_else(said_at(held, pattern, operation))
            if said.denying is not None:
                break
        return said

    def _has_acls(self, resource_type: ResourceType, name: str) -> bool:
        """Return whether anybody has an ACL that concerns the resource."""
        return any((resource_type, pattern) in self.acls.holders for pattern in self._patterns(resource_type, name))

    def _patterns(self, resource_type: ResourceType, name: str) -> Iterator[Pattern]:
        """Yield the patterns that have a resource of that name, prefixes of the lengths that anybody's have only."""
        yield PatternType.LITERAL, name
        for length in self._prefix_lengths.get(resource_type, ()):
            if length <= len(name):
                yield PatternType.PREFIXED, name[:length]
        if name != WILDCARD:
            yield LITERAL_WILDCARD

    def _held(self, requester: Requester, resource_type: ResourceType) -> Held:
        """Return what concerns the requester."""
        key = requester, resource_type
        held = self._held_by.get(key)
        if held is None:
            holders = ((resource_type, principal, host) for principal, host in _holding(requester))
            held = [(each, self.acls.by_holder[each]) for each in holders if each in self.acls.by_holder]
            _keep(self._held_by, key, held)
        return held

    def _is_allowed_on_any(self, requester: Requester, operation: Operation, resource_type: ResourceType) -> bool:
        named = NAMED[operation]
        held = [patterns for _, patterns in self._held(requester, resource_type)]
        denied = {pattern for patterns in held for pattern, bits in patterns.items() if bits & (named << DENIED_SHIFT)}
        if LITERAL_WILDCARD in denied:
            return False
        denied_lengths = {len(name) for pattern_type, name in denied if pattern_type == PatternType.PREFIXED}
        return any(
            bits & named and not _is_covered(pattern, denied, denied_lengths)
            for patterns in held
            for pattern, bits in patterns.items()
        )


def super_users_of(text: str) -> frozenset[str]:
    """Return the principals of `super.users`: `User:admin;User:ops`."""
    return frozenset(each.strip() for each in text.split(";") if each.strip())


class CurrentAuthorizer:
    """The authorizer of the current metadata: another one once the ACLs are others."""

    def __init__(self, super_users: Set[str], *, allow_if_no_acl: bool) -> None:
        self._super_users = super_users
        self._allow_if_no_acl = allow_if_no_acl
        self._current: Authorizer | None = None

    def of(self, acls: Acls) -> Authorizer:
        current = self._current
        if current is None or current.acls is not acls:
            current = Authorizer(acls, self._super_users, allow_if_no_acl=self._allow_if_no_acl)
            self._current = current
        return current


def _is_covered(allowed: Pattern, denied: Set[Pattern], denied_lengths: Set[int]) -> bool:
    """Return whether one denied pattern has all names of the allowed one."""
    if allowed == LITERAL_WILDCARD:
        return False
    name = allowed[1]
    return allowed in denied or any((PatternType.PREFIXED, name[:length]) in denied for length in denied_lengths)


def _holding(requester: Requester) -> Iterator[tuple[str, str]]:
    """Yield the principals and hosts whose ACLs concern the requester."""
    return product((requester.principal, EVERY_USER), _hosts(requester.host))


@lru_cache(1_024)
def _hosts(host: str) -> tuple[str, ...]:
    """Return the hosts of ACLs that are for this one: an IPv6 address is written by Kafka with all of its groups."""
    try:
        address = ip_address(host)
    except ValueError:
        return host, WILDCARD
    if not isinstance(address, IPv6Address):
        return host, WILDCARD
    if address.ipv4_mapped is not None:
        return host, str(address.ipv4_mapped), WILDCARD
    return host, ":".join(f"{int.from_bytes(address.packed[at : at + 2]):x}" for at in range(0, 16, 2)), WILDCARD


def _keep(kept: dict[Key, Kept], key: Key, value: Kept) -> None:
    """Keep one more; all are dropped before there are too many, and the ones in use soon come back."""
    if len(kept) >= DECISIONS_KEPT_MAX:
        kept.clear()
    kept[key] = value
