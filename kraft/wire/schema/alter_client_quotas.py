"""AlterClientQuotas: sets quotas of users, client ids and addresses (KIP-546)."""

from kraft.wire.declaration import Array, Bool, Float64, Int16, Int32, Message, String, Struct


class EntityData(Struct):
    entity_type: String
    entity_name: String | None


class OpData(Struct):
    key: String
    value: Float64
    remove: Bool


class EntryData(Struct):
    entity: Array[EntityData]
    ops: Array[OpData]


class AlterClientQuotasRequest(Message, key=49, versions="0-1", flexible="1+"):
    entries: Array[EntryData]
    validate_only: Bool


class EntryResult(Struct):
    error_code: Int16
    error_message: String | None
    entity: Array[EntityData]


class AlterClientQuotasResponse(Message, key=49, versions="0-1", flexible="1+"):
    throttle_time_ms: Int32 = 0
    entries: Array[EntryResult]
