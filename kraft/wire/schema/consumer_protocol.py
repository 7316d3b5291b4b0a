"""Consumer protocol: subscriptions and assignments inside JoinGroup and SyncGroup.

A broker reads subscriptions to know which topics a group subscribes to, and both where a group has members of the
classic and of the consumer protocol.

The bytes begin with their version (int16). Source: KIP-429, KIP-792, KIP-881.
"""

from kraft.wire.declaration import Array, Bytes, Int32, Message, String, Struct, field


class TopicPartition(Struct):
    topic: String
    partitions: Array[Int32]


class ConsumerProtocolAssignment(Message, versions="0-3"):
    assigned_partitions: Array[TopicPartition]
    user_data: Bytes | None = None


class ConsumerProtocolSubscription(Message, versions="0-3"):
    topics: Array[String]
    user_data: Bytes | None = None
    owned_partitions: Array[TopicPartition] = field("1+", default=())
    generation_id: Int32 = field("2+", default=-1)
    rack_id: String | None = field("3+", default=None)
