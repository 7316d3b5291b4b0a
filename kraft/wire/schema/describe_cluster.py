"""DescribeCluster: the brokers, or since version 1 the controllers, and the active controller (KIP-700, KIP-919)."""

from kraft.wire.declaration import Array, Bool, Int8, Int16, Int32, Message, String, Struct, field


class DescribeClusterRequest(Message, key=60, versions="0-2", flexible="0+"):
    include_cluster_authorized_operations: Bool
    endpoint_type: Int8 = field("1+", default=1)
    include_fenced_brokers: Bool = field("2+", default=False)


class DescribeClusterBroker(Struct):
    broker_id: Int32
    host: String
    port: Int32
    rack: String | None = None
    is_fenced: Bool = field("2+", default=False)


class DescribeClusterResponse(Message, key=60, versions="0-2", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: String | None = None
    endpoint_type: Int8 = field("1+", default=1)
    cluster_id: String
    controller_id: Int32 = -1
    brokers: Array[DescribeClusterBroker]
    cluster_authorized_operations: Int32 = -0x80000000
