"""AddRaftVoter: adds a controller to the voters (KIP-853)."""

from kraft.wire.declaration import Array, Int16, Int32, Message, String, Struct, UInt16, Uuid


class Listener(Struct):
    name: String
    host: String
    port: UInt16


class AddRaftVoterRequest(Message, key=80, versions="0", flexible="0+"):
    cluster_id: String | None
    timeout_ms: Int32
    voter_id: Int32
    voter_directory_id: Uuid
    listeners: Array[Listener]


class AddRaftVoterResponse(Message, key=80, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: String | None
