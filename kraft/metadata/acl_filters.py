"""Filters of ACLs, as DescribeAcls and DeleteAcls have them (KIP-290)."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from kraft.metadata.acls import AclEntry, Acls, Bits, Holder, Pattern, entries_of
from kraft.metadata.persistent_maps import PersistentMap
from kraft.model.access import WILDCARD, Operation, PatternType, PermissionType, ResourceType
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.schema.delete_acls import DeleteAclsFilter
from kraft.wire.schema.describe_acls import DescribeAclsRequest


class AclFilter(Struct, frozen=True, kw_only=True, gc=False):
    """Selects ACLs. None, and ANY, match anything."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: PermissionType = PermissionType.ANY

    def matches(self, entry: AclEntry) -> bool:
        return (
            self._matches_holder(entry.holder) and self._matches_pattern(entry.pattern) and self._matches_entry(entry)
        )

    def found_in(self, acls: Acls) -> Iterator[list[AclEntry]]:
        """Yield what matches, in parts that take about the same time to find each. A part may be empty."""
        for holders in self._holders(acls):
            for holder, patterns in holders.items():
                if self._matches_holder(holder):
                    for part in self._patterns(patterns):
                        yield [
                            entry
                            for pattern, bits in part.items()
                            if self._matches_pattern(pattern)
                            for entry in entries_of(holder, pattern, bits)
                            if self._matches_entry(entry)
                        ]
            yield []

    def _holders(self, acls: Acls) -> Iterator[dict[Holder, PersistentMap[Pattern, Bits]]]:
        """Yield the holders that may match: all, or the one that the filter names."""
        if self.resource_type is ResourceType.ANY or self.principal is None or self.host is None:
            yield from acls.by_holder.leaves()
            return
        holder = self.resource_type, self.principal, self.host
        patterns = acls.by_holder.get(holder)
        if patterns is not None:
            yield {holder: patterns}

    def _patterns(self, patterns: PersistentMap[Pattern, Bits]) -> Iterator[dict[Pattern, Bits]]:
        """Likewise for the patterns of a holder."""
        if self.resource_name is None or self.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
            yield from patterns.leaves()
            return
        pattern = self.pattern_type, self.resource_name
        bits = patterns.get(pattern)
        if bits is not None:
            yield {pattern: bits}

    def _matches_holder(self, holder: Holder) -> bool:
        resource_type, principal, host = holder
        return (
            self.resource_type in (ResourceType.ANY, resource_type)
            and self.principal in (None, principal)
            and self.host in (None, host)
        )

    def _matches_pattern(self, pattern: Pattern) -> bool:
        pattern_type, name = pattern
        if self.pattern_type in (PatternType.LITERAL, PatternType.PREFIXED) and self.pattern_type != pattern_type:
            return False
        if self.resource_name is None:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return name == self.resource_name
        if pattern_type == PatternType.PREFIXED:
            return self.resource_name.startswith(name)
        return name in (self.resource_name, WILDCARD)

    def _matches_entry(self, entry: AclEntry) -> bool:
        return self.operation in (Operation.ANY, entry.operation) and self.permission in (
            PermissionType.ANY,
            entry.permission,
        )


def acl_filter(wanted: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    """Return the filter of a request. Raises Refusal INVALID_REQUEST."""
    try:
        found = AclFilter(
            resource_type=ResourceType(wanted.resource_type_filter),
            resource_name=wanted.resource_name_filter,
            pattern_type=PatternType(wanted.pattern_type_filter),
            principal=wanted.principal_filter,
            host=wanted.host_filter,
            operation=Operation(wanted.operation),
            permission=PermissionType(wanted.permission_type),
        )
    except ValueError as error:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"the filter has an unknown number: {error}") from None
    if not all((found.resource_type, found.pattern_type, found.operation, found.permission)):
        problem = "the filter has a type, operation or permission that is UNKNOWN: use ANY to match all"
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)
    return found
