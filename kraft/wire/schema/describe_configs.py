"""DescribeConfigs: values of configs with their sources, and since version 3 their documentation (KIP-569)."""

from kraft.wire.declaration import Array, Bool, Int8, Int16, Int32, Message, String, Struct, field


class DescribeConfigsResource(Struct):
    resource_type: Int8
    resource_name: String
    configuration_keys: Array[String] | None


class DescribeConfigsRequest(Message, key=32, versions="1-4", flexible="4+"):
    resources: Array[DescribeConfigsResource]
    include_synonyms: Bool = False
    include_documentation: Bool = field("3+", default=False)


class DescribeConfigsSynonym(Struct):
    name: String
    value: String | None
    source: Int8


class DescribeConfigsResourceResult(Struct):
    name: String
    value: String | None
    read_only: Bool
    config_source: Int8 = -1
    is_sensitive: Bool
    synonyms: Array[DescribeConfigsSynonym]
    config_type: Int8 = field("3+", default=0)
    documentation: String | None = field("3+", default="")


class DescribeConfigsResult(Struct):
    error_code: Int16
    error_message: String | None
    resource_type: Int8
    resource_name: String
    configs: Array[DescribeConfigsResourceResult]


class DescribeConfigsResponse(Message, key=32, versions="1-4", flexible="4+"):
    throttle_time_ms: Int32 = 0
    results: Array[DescribeConfigsResult]
