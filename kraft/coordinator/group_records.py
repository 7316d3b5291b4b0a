"""Records of `__consumer_offsets`, in Kafka's format: tools that read the topic understand ours.

A key begins with the type of the record (int16), which is the `key` of its declaration; a value begins with its version
(int16). A record without a value deletes what its key names. `group_record_codec.py` reads and writes them. Source:
`group-coordinator/src/main/resources/common/message` of Kafka 4.3.1.
"""

from kraft.wire.declaration import ZERO_UUID, Array, Bytes, Int8, Int32, Int64, Message, String, Struct, Uuid, field

# --- offsets ---------------------------------------------------------------------------------------------------------


class OffsetCommitKey(Message, key=1, versions="0"):
    group: String
    topic: String
    partition: Int32


class OffsetCommitValue(Message, versions="0-4", flexible="4+"):
    offset: Int64
    leader_epoch: Int32 = field("3+", default=-1)
    metadata: String
    commit_timestamp: Int64
    expire_timestamp: Int64 = field("1", default=-1)
    topic_id: Uuid = field("4+", default=ZERO_UUID, tag=0)


# --- classic groups --------------------------------------------------------------------------------------------------


class GroupMetadataKey(Message, key=2, versions="0"):
    group: String


class MemberMetadata(Struct):
    member_id: String
    group_instance_id: String | None = field("3+", default=None)
    client_id: String
    client_host: String
    rebalance_timeout: Int32 = field("1+", default=-1)
    session_timeout: Int32
    subscription: Bytes
    assignment: Bytes


class GroupMetadataValue(Message, versions="0-4", flexible="4+"):
    protocol_type: String
    generation: Int32
    protocol: String | None
    leader: String | None
    current_state_timestamp: Int64 = field("2+", default=-1)
    members: Array[MemberMetadata]


# --- groups of the new protocol (KIP-848) ----------------------------------------------------------------------------


class ConsumerGroupMetadataKey(Message, key=3, versions="0"):
    group_id: String


class ConsumerGroupMetadataValue(Message, versions="0", flexible="0+"):
    epoch: Int32
    metadata_hash: Int64 = field(default=0, tag=0)


class ConsumerGroupMemberMetadataKey(Message, key=5, versions="0"):
    group_id: String
    member_id: String


class ClassicProtocol(Struct):
    name: String
    metadata: Bytes


class ClassicMemberMetadata(Struct):
    session_timeout_ms: Int32
    supported_protocols: Array[ClassicProtocol]


class ConsumerGroupMemberMetadataValue(Message, versions="0", flexible="0+"):
    instance_id: String | None
    rack_id: String | None
    client_id: String
    client_host: String
    subscribed_topic_names: Array[String]
    subscribed_topic_regex: String | None
    rebalance_timeout_ms: Int32 = -1
    server_assignor: String | None
    classic_member_metadata: ClassicMemberMetadata | None = field(
        default=None, tag=0, absent=ClassicMemberMetadata(session_timeout_ms=0, supported_protocols=())
    )


class ConsumerGroupTargetAssignmentMetadataKey(Message, key=6, versions="0"):
    group_id: String


class ConsumerGroupTargetAssignmentMetadataValue(Message, versions="0", flexible="0+"):
    assignment_epoch: Int32
    assignment_timestamp: Int64 = field(default=0, tag=0)


class ConsumerGroupTargetAssignmentMemberKey(Message, key=7, versions="0"):
    group_id: String
    member_id: String


class AssignedTopic(Struct):
    topic_id: Uuid
    partitions: Array[Int32]


class ConsumerGroupTargetAssignmentMemberValue(Message, versions="0", flexible="0+"):
    topic_partitions: Array[AssignedTopic]


class ConsumerGroupCurrentMemberAssignmentKey(Message, key=8, versions="0"):
    group_id: String
    member_id: String


class OwnedTopic(Struct):
    topic_id: Uuid
    partitions: Array[Int32]
    assignment_epochs: Array[Int32] | None = field(default=None, tag=0, absent=())


class ConsumerGroupCurrentMemberAssignmentValue(Message, versions="0", flexible="0+"):
    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: Array[OwnedTopic]
    partitions_pending_revocation: Array[OwnedTopic]


class ConsumerGroupRegularExpressionKey(Message, key=16, versions="0"):
    group_id: String
    regular_expression: String


class ConsumerGroupRegularExpressionValue(Message, versions="0", flexible="0+"):
    topics: Array[String]
    version: Int64
    timestamp: Int64
