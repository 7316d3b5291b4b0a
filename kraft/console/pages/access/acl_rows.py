"""ACLs as rows of tables, in Kafka's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from kraft.model.access import words

if TYPE_CHECKING:
    from kraft.metadata.acls import AclEntry


class AclRow(Struct, frozen=True, kw_only=True):
    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str

    @property
    def order(self) -> tuple[Any, ...]:
        return self.resource_type, self.resource_name, self.pattern_type, self.principal, self.host, self.operation


def row_of(entry: AclEntry) -> AclRow:
    return AclRow(
        resource_type=words(entry.resource_type),
        resource_name=entry.resource_name,
        pattern_type=words(entry.pattern_type),
        principal=entry.principal,
        host=entry.host,
        operation=words(entry.operation),
        permission=words(entry.permission),
    )
