"""LeaveGroup: ends membership; many members at once since version 3 (KIP-345)."""

from kraft.wire.declaration import Array, Int16, Int32, Message, String, Struct, field


class MemberIdentity(Struct):
    member_id: String
    group_instance_id: String | None = None
    reason: String | None = field("5+", default=None)


class LeaveGroupRequest(Message, key=13, versions="0-5", flexible="4+"):
    group_id: String
    member_id: String = field("0-2", default="")
    members: Array[MemberIdentity] = field("3+", default=())


class MemberResponse(Struct):
    member_id: String
    group_instance_id: String | None
    error_code: Int16


class LeaveGroupResponse(Message, key=13, versions="0-5", flexible="4+"):
    throttle_time_ms: Int32 = field("1+", default=0)
    error_code: Int16
    members: Array[MemberResponse] = field("3+", default=())
