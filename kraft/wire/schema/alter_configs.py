"""AlterConfigs: replaces all configs of a resource; those left out return to their defaults."""

from kraft.wire.declaration import Array, Bool, Int8, Int16, Int32, Message, String, Struct


class AlterableConfig(Struct):
    name: String
    value: String | None


class AlterConfigsResource(Struct):
    resource_type: Int8
    resource_name: String
    configs: Array[AlterableConfig]


class AlterConfigsRequest(Message, key=33, versions="0-2", flexible="2+"):
    resources: Array[AlterConfigsResource]
    validate_only: Bool


class AlterConfigsResourceResponse(Struct):
    error_code: Int16
    error_message: String | None
    resource_type: Int8
    resource_name: String


class AlterConfigsResponse(Message, key=33, versions="0-2", flexible="2+"):
    throttle_time_ms: Int32 = 0
    responses: Array[AlterConfigsResourceResponse]
