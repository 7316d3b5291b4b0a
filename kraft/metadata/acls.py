"""ACLs, as the metadata has them: who may do what with which resources, and who may not.

For each holder and pattern there is one number, whose bits are the operations that ACLs allow and deny. So a decision
is a few look-ups, whatever the number of ACLs is, and a change copies only what is on the path to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, assert_never

from msgspec import Struct

from kraft.metadata.persistent_maps import PersistentMap
from kraft.metadata.records import AclAdded, AclRecord, AclRemoved
from kraft.model.access import Operation, PatternType, PermissionType, ResourceType

# Numbers in place of members of an enum: the collector of cycles then has no interest in the tuples, of which there are
# hundreds of thousands.
Holder = tuple[int, str, str]
"""Kafka's number of the kind of resources, the principal and the host: an ACL is held by these."""

Pattern = tuple[int, str]
"""Kafka's number of the type, and the name, of a pattern of resources."""

Bits = int
"""Operations as bits by Kafka's numbers: the allowed ones, and above them the denied ones."""

DENIED_SHIFT: Final = 16
"""The number of the first bit of what is denied."""

_BIT: Final = {
    (operation, permission): 1 << (operation + (DENIED_SHIFT if permission is PermissionType.DENY else 0))
    for operation in Operation
    for permission in (PermissionType.ALLOW, PermissionType.DENY)
}
_OF_BIT: Final = {bit: (operation, permission) for (operation, permission), bit in _BIT.items()}

_RESOURCE_TYPES: Final = {each.value: each for each in ResourceType}
_PATTERN_TYPES: Final = {each.value: each for each in PatternType}

_NO_PATTERNS: Final[PersistentMap[Pattern, Bits]] = PersistentMap()


class AclEntry(Struct, frozen=True, kw_only=True, gc=False):
    """One ACL, Kafka's AclBinding."""

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    """Kind and name, such as `User:alice`; `User:*` is everybody."""

    host: str
    """An address, or `*`."""

    operation: Operation
    permission: PermissionType

    @property
    def holder(self) -> Holder:
        return self.resource_type.value, self.principal, self.host

    @property
    def pattern(self) -> Pattern:
        return self.pattern_type.value, self.resource_name

    @property
    def bit(self) -> Bits:
        return _BIT[self.operation, self.permission]


class Acls(Struct, frozen=True, kw_only=True):
    """All ACLs."""

    by_holder: PersistentMap[Holder, PersistentMap[Pattern, Bits]]
    holders: PersistentMap[tuple[int, Pattern], int]
    """The number of holders with ACLs for each pattern."""

    prefix_lengths: PersistentMap[tuple[int, int], int]
    """The number of prefixed patterns of each length."""

    count: int
    """The number of ACLs."""

    def bits(self, holder: Holder, pattern: Pattern) -> Bits:
        return self.by_holder.get(holder, _NO_PATTERNS).get(pattern, 0)

    def __contains__(self, entry: AclEntry) -> bool:
        return bool(self.bits(entry.holder, entry.pattern) & entry.bit)

    def __iter__(self) -> Iterator[AclEntry]:
        for holder, patterns in self.by_holder.items():
            for pattern, bits in patterns.items():
                yield from entries_of(holder, pattern, bits)

    def records(self) -> Iterator[AclRecord]:
        """Yield the records from which the same ACLs come."""
        return (acl_record(AclAdded, entry) for entry in self)

    def differing(self, other: Acls) -> Iterator[tuple[Holder, Pattern]]:
        """Yield where the two differ. The time depends on the number of differences."""
        for holder in self.by_holder.differing_keys(other.by_holder):
            patterns = self.by_holder.get(holder, _NO_PATTERNS)
            for pattern in patterns.differing_keys(other.by_holder.get(holder, _NO_PATTERNS)):
                yield holder, pattern


NO_ACLS: Final = Acls(by_holder=PersistentMap(), holders=PersistentMap(), prefix_lengths=PersistentMap(), count=0)


def entries_of(holder: Holder, pattern: Pattern, bits: Bits) -> Iterator[AclEntry]:
    """Yield the ACLs that the bits stand for, in the order of Kafka's numbers, allowed ones first."""
    resource_type, principal, host = holder
    pattern_type, resource_name = pattern
    while bits:
        lowest = bits & -bits
        operation, permission = _OF_BIT[lowest]
        yield AclEntry(
            resource_type=_RESOURCE_TYPES[resource_type],
            resource_name=resource_name,
            pattern_type=_PATTERN_TYPES[pattern_type],
            principal=principal,
            host=host,
            operation=operation,
            permission=permission,
        )
        bits ^= lowest


def acl_record(kind: type[AclAdded | AclRemoved], entry: AclEntry) -> AclRecord:
    return kind(
        resource_type=entry.resource_type.value,
        resource_name=entry.resource_name,
        pattern_type=entry.pattern_type.value,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation.value,
        permission=entry.permission.value,
    )


class AclsDraft:
    """The ACLs while records are replayed."""

    def __init__(self, before: Acls) -> None:
        self._before = before
        self._changed: dict[Holder, dict[Pattern, Bits]] = {}
        self._count = before.count

    def acls(self) -> Acls:
        before = self._before
        if not self._changed:
            return before
        by_holder: dict[Holder, PersistentMap[Pattern, Bits] | None] = {}
        holders: dict[tuple[int, Pattern], int] = {}
        for holder, changes in self._changed.items():
            patterns = before.by_holder.get(holder, _NO_PATTERNS)
            for pattern, bits in changes.items():
                key = holder[0], pattern
                more = (bits != 0) - (pattern in patterns)
                holders[key] = holders.get(key, 0) + more
            after = patterns.with_changes({pattern: bits or None for pattern, bits in changes.items()})
            by_holder[holder] = after or None
        counted = {key: before.holders.get(key, 0) + more for key, more in holders.items()}
        return Acls(
            by_holder=before.by_holder.with_changes(by_holder),
            holders=before.holders.with_changes({key: count or None for key, count in counted.items()}),
            prefix_lengths=before.prefix_lengths.with_changes(self._changed_lengths(counted)),
            count=self._count,
        )

    def _changed_lengths(self, holders: dict[tuple[int, Pattern], int]) -> dict[tuple[int, int], int | None]:
        before = self._before
        lengths: dict[tuple[int, int], int] = {}
        for (resource_type, (pattern_type, name)), count in holders.items():
            if pattern_type == PatternType.PREFIXED:
                key = resource_type, len(name)
                more = (count != 0) - ((resource_type, (pattern_type, name)) in before.holders)
                lengths[key] = lengths.get(key, before.prefix_lengths.get(key, 0)) + more
        return {key: count or None for key, count in lengths.items()}

    def apply(self, record: AclRecord) -> None:
        holder = record.resource_type, record.principal, record.host
        pattern = record.pattern_type, record.resource_name
        bit = _BIT[Operation(record.operation), PermissionType(record.permission)]
        changed = self._changed.setdefault(holder, {})
        bits = changed[pattern] if pattern in changed else self._before.bits(holder, pattern)
        match record:
            case AclAdded():
                assert not bits & bit, f"{record}, which is there"
                self._count += 1
            case AclRemoved():
                assert bits & bit, f"{record}, which is not there"
                self._count -= 1
            case _:
                assert_never(record)
        changed[pattern] = bits ^ bit
