"""DescribeClientQuotas: the quotas that a filter matches (KIP-546)."""

from kraft.wire.declaration import Array, Bool, Float64, Int8, Int16, Int32, Message, String, Struct


class ComponentData(Struct):
    entity_type: String
    match_type: Int8
    match: String | None


class DescribeClientQuotasRequest(Message, key=48, versions="0-1", flexible="1+"):
    components: Array[ComponentData]
    strict: Bool


class EntityData(Struct):
    entity_type: String
    entity_name: String | None


class ValueData(Struct):
    key: String
    value: Float64


class EntryData(Struct):
    entity: Array[EntityData]
    values: Array[ValueData]


class DescribeClientQuotasResponse(Message, key=48, versions="0-1", flexible="1+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: String | None
    entries: Array[EntryData] | None
