"""ListGroups: the groups that one broker coordinates, by state (KIP-518) and by type (KIP-848)."""

from kraft.wire.declaration import Array, Int16, Int32, Message, String, Struct, field


class ListGroupsRequest(Message, key=16, versions="0-5", flexible="3+"):
    states_filter: Array[String] = field("4+", default=())
    types_filter: Array[String] = field("5+", default=())


class ListedGroup(Struct):
    group_id: String
    protocol_type: String
    group_state: String = field("4+", default="")
    group_type: String = field("5+", default="")
    # In no version of Kafka: over gRPC, how many rebalances began within five minutes, as the coordinator has seen.
    rebalances: Int32 = field("none", default=0)


class ListGroupsResponse(Message, key=16, versions="0-5", flexible="3+"):
    throttle_time_ms: Int32 = field("1+", default=0)
    error_code: Int16
    groups: Array[ListedGroup]
