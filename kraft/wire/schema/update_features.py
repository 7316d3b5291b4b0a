"""UpdateFeatures: sets feature levels for the whole cluster (KIP-584, KIP-778)."""

from kraft.wire.declaration import Array, Bool, Int8, Int16, Int32, Message, String, Struct, field


class FeatureUpdateKey(Struct):
    feature: String
    max_version_level: Int16
    allow_downgrade: Bool = field("0", default=False)
    upgrade_type: Int8 = field("1+", default=1)


class UpdateFeaturesRequest(Message, key=57, versions="0-2", flexible="0+"):
    timeout_ms: Int32 = 60000
    feature_updates: Array[FeatureUpdateKey]
    validate_only: Bool = field("1+", default=False)


class UpdatableFeatureResult(Struct):
    feature: String
    error_code: Int16
    error_message: String | None


class UpdateFeaturesResponse(Message, key=57, versions="0-2", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: String | None
    results: Array[UpdatableFeatureResult] = field("0-1", default=())
