"""CreateAcls: adds ACLs that allow or deny operations."""

from kraft.wire.declaration import Array, Int8, Int16, Int32, Message, String, Struct


class AclCreation(Struct):
    resource_type: Int8
    resource_name: String
    resource_pattern_type: Int8 = 3
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


class CreateAclsRequest(Message, key=30, versions="1-3", flexible="2+"):
    creations: Array[AclCreation]


class AclCreationResult(Struct):
    error_code: Int16
    error_message: String | None


class CreateAclsResponse(Message, key=30, versions="1-3", flexible="2+"):
    throttle_time_ms: Int32 = 0
    results: Array[AclCreationResult]
