"""JoinGroup: joins or rejoins a group; the response begins a generation."""

from kraft.wire.declaration import Array, Bool, Bytes, Int16, Int32, Message, String, Struct, field


class JoinGroupRequestProtocol(Struct):
    name: String
    metadata: Bytes


class JoinGroupRequest(Message, key=11, versions="0-9", flexible="6+"):
    group_id: String
    session_timeout_ms: Int32
    rebalance_timeout_ms: Int32 = field("1+", default=-1)
    member_id: String
    group_instance_id: String | None = field("5+", default=None)
    protocol_type: String
    protocols: Array[JoinGroupRequestProtocol]
    reason: String | None = field("8+", default=None)


class JoinGroupResponseMember(Struct):
    member_id: String
    group_instance_id: String | None = field("5+", default=None)
    metadata: Bytes


class JoinGroupResponse(Message, key=11, versions="0-9", flexible="6+"):
    throttle_time_ms: Int32 = field("2+", default=0)
    error_code: Int16
    generation_id: Int32 = -1
    protocol_type: String | None = field("7+", default=None)
    protocol_name: String | None = field(nullable="7+")
    leader: String
    skip_assignment: Bool = field("9+", default=False)
    member_id: String
    members: Array[JoinGroupResponseMember]
