"""ApiVersions: the APIs of a broker with their version ranges.

The first request on a connection, before the versions are known; see `kraft/wire/api_versions.py`.
"""

from kraft.wire.declaration import Array, Bool, Int16, Int32, Int64, Message, String, Struct, field


class ApiVersionsRequest(Message, key=18, versions="0-4", flexible="3+"):
    client_software_name: String = field("3+", default="")
    client_software_version: String = field("3+", default="")


class ApiVersion(Struct):
    api_key: Int16
    min_version: Int16
    max_version: Int16


class SupportedFeatureKey(Struct):
    name: String
    min_version: Int16
    max_version: Int16


class FinalizedFeatureKey(Struct):
    name: String
    max_version_level: Int16
    min_version_level: Int16


class ApiVersionsResponse(Message, key=18, versions="0-4", flexible="3+"):
    error_code: Int16
    api_keys: Array[ApiVersion]
    throttle_time_ms: Int32 = field("1+", default=0)
    supported_features: Array[SupportedFeatureKey] = field("3+", default=(), tag=0)
    finalized_features_epoch: Int64 = field("3+", default=-1, tag=1)
    finalized_features: Array[FinalizedFeatureKey] = field("3+", default=(), tag=2)
    zk_migration_ready: Bool = field("3+", default=False, tag=3)
