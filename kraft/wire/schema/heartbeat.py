"""Heartbeat: keeps a member in its group; the response says if the group rebalances."""

from kraft.wire.declaration import Int16, Int32, Message, String, field


class HeartbeatRequest(Message, key=12, versions="0-4", flexible="4+"):
    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = field("3+", default=None)


class HeartbeatResponse(Message, key=12, versions="0-4", flexible="4+"):
    throttle_time_ms: Int32 = field("1+", default=0)
    error_code: Int16
