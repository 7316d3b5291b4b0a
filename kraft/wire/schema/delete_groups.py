"""DeleteGroups: deletes groups that have no members (KIP-229)."""

from kraft.wire.declaration import Array, Int16, Int32, Message, String, Struct


class DeleteGroupsRequest(Message, key=42, versions="0-2", flexible="2+"):
    groups_names: Array[String]


class DeletableGroupResult(Struct):
    group_id: String
    error_code: Int16


class DeleteGroupsResponse(Message, key=42, versions="0-2", flexible="2+"):
    throttle_time_ms: Int32 = 0
    results: Array[DeletableGroupResult]
