"""DescribeGroups: groups of the older protocol with their members."""

from kraft.wire.declaration import Array, Bool, Bytes, Int16, Int32, Message, String, Struct, field


class DescribeGroupsRequest(Message, key=15, versions="0-6", flexible="5+"):
    groups: Array[String]
    include_authorized_operations: Bool = field("3+", default=False)


class DescribedGroupMember(Struct):
    member_id: String
    group_instance_id: String | None = field("4+", default=None)
    client_id: String
    client_host: String
    member_metadata: Bytes
    member_assignment: Bytes


class DescribedGroup(Struct):
    error_code: Int16
    error_message: String | None = field("6+", default=None)
    group_id: String
    group_state: String
    protocol_type: String
    protocol_data: String
    members: Array[DescribedGroupMember]
    authorized_operations: Int32 = field("3+", default=-0x80000000)


class DescribeGroupsResponse(Message, key=15, versions="0-6", flexible="5+"):
    throttle_time_ms: Int32 = field("1+", default=0)
    groups: Array[DescribedGroup]
