"""ListConfigResources: resources that have configs (KIP-1142).

Version 0 is ListClientMetricsResources (KIP-714): another name for the same bytes.
"""

from kraft.wire.declaration import Array, Int8, Int16, Int32, Message, String, Struct, field


class ListConfigResourcesRequest(Message, key=74, versions="0-1", flexible="0+"):
    resource_types: Array[Int8] = field("1+", default=())


class ConfigResource(Struct):
    resource_name: String
    resource_type: Int8 = field("1+", default=16)


class ListConfigResourcesResponse(Message, key=74, versions="0-1", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16
    config_resources: Array[ConfigResource]
