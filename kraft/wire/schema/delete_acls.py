"""DeleteAcls: removes every ACL that a filter matches."""

from kraft.wire.declaration import Array, Int8, Int16, Int32, Message, String, Struct


class DeleteAclsFilter(Struct):
    resource_type_filter: Int8
    resource_name_filter: String | None
    pattern_type_filter: Int8 = 3
    principal_filter: String | None
    host_filter: String | None
    operation: Int8
    permission_type: Int8


class DeleteAclsRequest(Message, key=31, versions="1-3", flexible="2+"):
    filters: Array[DeleteAclsFilter]


class DeleteAclsMatchingAcl(Struct):
    error_code: Int16
    error_message: String | None
    resource_type: Int8
    resource_name: String
    pattern_type: Int8 = 3
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


class DeleteAclsFilterResult(Struct):
    error_code: Int16
    error_message: String | None
    matching_acls: Array[DeleteAclsMatchingAcl]


class DeleteAclsResponse(Message, key=31, versions="1-3", flexible="2+"):
    throttle_time_ms: Int32 = 0
    filter_results: Array[DeleteAclsFilterResult]
