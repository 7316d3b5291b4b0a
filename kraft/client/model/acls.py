"""Values of the admin clients' calls for ACLs: entries, filters, and what they are made of."""

from kraft.metadata.acl_filters import AclFilter
from kraft.metadata.acls import AclEntry
from kraft.model.access import Operation, PatternType, PermissionType, ResourceType

__all__ = ["AclEntry", "AclFilter", "Operation", "PatternType", "PermissionType", "ResourceType"]
