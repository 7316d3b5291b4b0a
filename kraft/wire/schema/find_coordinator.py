"""FindCoordinator: the broker that coordinates a group or a transaction; many at once since version 4 (KIP-699)."""

from kraft.wire.declaration import Array, Int8, Int16, Int32, Message, String, Struct, field


class FindCoordinatorRequest(Message, key=10, versions="0-6", flexible="3+"):
    key: String = field("0-3", default="")
    key_type: Int8 = field("1+", default=0)
    coordinator_keys: Array[String] = field("4+", default=())


class Coordinator(Struct):
    key: String
    node_id: Int32
    host: String
    port: Int32
    error_code: Int16
    error_message: String | None


class FindCoordinatorResponse(Message, key=10, versions="0-6", flexible="3+"):
    throttle_time_ms: Int32 = field("1+", default=0)
    error_code: Int16 = field("0-3", default=0)
    error_message: String | None = field("1-3", default="")
    node_id: Int32 = field("0-3", default=0)
    host: String = field("0-3", default="")
    port: Int32 = field("0-3", default=0)
    coordinators: Array[Coordinator] = field("4+", default=())
