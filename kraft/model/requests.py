"""What clients ask a broker for and what it answers, as values.

Both listeners decode into these and call the same handler. Byte fields hold whole record batches in Kafka's
format v2. Every error is an `ErrorCode` beside the part of the request that it concerns; `error_message` adds
the one line that a person needs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from kraft.model.errors import ErrorCode, RecordError
from kraft.model.partition_requests import ReplicaAssignment

LATEST_TIMESTAMP = -1
"""In ListOffsets: the high watermark."""

EARLIEST_TIMESTAMP = -2
"""In ListOffsets: the log start offset."""

MAX_TIMESTAMP = -3
"""In ListOffsets: the first record with the largest timestamp."""

EARLIEST_LOCAL_TIMESTAMP = -4
"""In ListOffsets: the first offset on this broker's disk, which is the log start offset (KIP-405)."""

LATEST_TIERED_TIMESTAMP = -5
"""In ListOffsets: the last offset in tiered storage (KIP-1005). There is none, and no error."""

EARLIEST_PENDING_UPLOAD_TIMESTAMP = -6
"""In ListOffsets: the first offset that is still to be tiered (KIP-1023). There is none, and no error."""


# --- produce -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducePartition:
    """Record batches for one partition; `records` is one batch, or several back to back."""

    topic: str
    partition: int
    records: bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRequest:
    """`acks` is 0, 1 or -1 (all in-sync replicas); `timeout_ms` bounds the wait for them."""

    request_id: int
    acks: int
    timeout_ms: int
    partitions: list[ProducePartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducePartitionResult:
    """`base_offset` is that of the first record, -1 on an error; leader fields are hints, -1 when unknown."""

    topic: str
    partition: int
    error_code: ErrorCode
    error_message: str = ""
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    leader_id: int = -1
    leader_epoch: int = -1
    record_errors: list[RecordError] = field(default_factory=list)
    """The records for which the batch was refused, where it was for single ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceResponse:
    request_id: int
    partitions: list[ProducePartitionResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerIdRequest:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerIdResponse:
    error_code: ErrorCode
    error_message: str = ""
    producer_id: int = -1
    producer_epoch: int = -1


# --- fetch ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPartition:
    """`current_leader_epoch` is the leader epoch that the client knows, -1 for none; it fences stale clients."""

    topic: str
    partition: int
    fetch_offset: int
    partition_max_bytes: int
    current_leader_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """Waits up to `max_wait_ms` until `min_bytes` are there; at least one batch is answered (KIP-74)."""

    request_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partitions: list[FetchPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPartitionResult:
    """`records` are whole batches below the high watermark; the first may begin before `fetch_offset`."""

    topic: str
    partition: int
    error_code: ErrorCode
    error_message: str = ""
    high_watermark: int = -1
    log_start_offset: int = -1
    records: bytes = b""
    leader_id: int = -1
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponse:
    request_id: int
    partitions: list[FetchPartitionResult]


# --- plain records, for languages without our codec ------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainHeader:
    key: str
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainRecord:
    """One record as ProduceRecords takes and FetchRecords gives it; `timestamp_ms` -1 means: now."""

    key: bytes | None = None
    value: bytes | None = None
    headers: list[PlainHeader] = field(default_factory=list)
    timestamp_ms: int = -1
    offset: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRecordsRequest:
    topic: str
    partition: int
    acks: int
    timeout_ms: int
    records: list[PlainRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRecordsRequest:
    topic: str
    partition: int
    fetch_offset: int
    max_wait_ms: int
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRecordsResponse:
    error_code: ErrorCode
    error_message: str = ""
    high_watermark: int = -1
    log_start_offset: int = -1
    records: list[PlainRecord] = field(default_factory=list)


# --- metadata and offsets ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRequest:
    """`topics` names those asked for; `all_topics` asks for every one."""

    topics: list[str]
    all_topics: bool = False
    allow_auto_topic_creation: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEndpoint:
    """Where clients of the answering listener reach a broker."""

    broker_id: int
    host: str
    port: int
    rack: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """`leader_id` is -1 while the partition has no leader.

    `elr`, the eligible leader replicas, are not in sync and yet hold all that is committed; `last_known_elr` did, and
    may not any more (KIP-966).
    """

    partition: int
    leader_id: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline_replicas: list[int]
    elr: list[int] = field(default_factory=list)
    last_known_elr: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    error_code: ErrorCode
    error_message: str = ""
    topic: str
    topic_id: UUID
    partitions: list[PartitionMetadata]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataResponse:
    """`controller_id` is the active controller as this broker knows it, -1 for none."""

    cluster_id: str
    controller_id: int
    brokers: list[BrokerEndpoint]
    topics: list[TopicMetadata]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsPartition:
    """`timestamp_ms` is one of the negative numbers above, or a time to look up."""

    topic: str
    partition: int
    timestamp_ms: int
    current_leader_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsRequest:
    partitions: list[ListOffsetsPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsPartitionResult:
    """The first record at or after the time asked for; offset and timestamp -1 when there is none."""

    topic: str
    partition: int
    error_code: ErrorCode
    error_message: str = ""
    offset: int = -1
    timestamp_ms: int = -1
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsResponse:
    partitions: list[ListOffsetsPartitionResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEndPartition:
    """Where does `leader_epoch` end? `current_leader_epoch` as in a fetch."""

    topic: str
    partition: int
    leader_epoch: int
    current_leader_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderEpochRequest:
    partitions: list[EpochEndPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEndPartitionResult:
    """The largest epoch up to the one asked for, and the offset behind its last record; -1 when there is none."""

    topic: str
    partition: int
    error_code: ErrorCode
    leader_epoch: int = -1
    end_offset: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderEpochResponse:
    """One result a partition, in the request's order."""

    partitions: list[EpochEndPartitionResult]


# --- deleting records ----------------------------------------------------------------------------------------

HIGH_WATERMARK = -1
"""In DeleteRecords: everything that is committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsPartition:
    """Records below `before_offset` are to go; HIGH_WATERMARK stands for the high watermark."""

    topic: str
    partition: int
    before_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsRequest:
    """`timeout_ms` bounds the wait for the replicas."""

    timeout_ms: int
    partitions: list[DeleteRecordsPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsPartitionResult:
    """`low_watermark`: no in-sync replica keeps a record below it; -1 on an error."""

    topic: str
    partition: int
    error_code: ErrorCode
    error_message: str = ""
    low_watermark: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsResponse:
    """One result a partition, in the request's order."""

    partitions: list[DeleteRecordsPartitionResult]


# --- administration ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """-1 for partitions or replication factor means the cluster's default.

    `assignments` places every partition by hand, from partition 0 on; then the numbers are left at -1.
    """

    topic: str
    partitions: int = -1
    replication_factor: int = -1
    configs: dict[str, str] = field(default_factory=dict)
    assignments: list[ReplicaAssignment] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsRequest:
    topics: list[NewTopic]
    timeout_ms: int
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicResult:
    topic: str
    error_code: ErrorCode
    error_message: str = ""
    topic_id: UUID | None = None
    partitions: int = -1
    replication_factor: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicResults:
    """Answer of CreateTopics and DeleteTopics: one result a topic, in the request's order; those by name come first."""

    results: list[TopicResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsRequest:
    """Topics by name, and topics by id: a name may have come to mean another topic since."""

    topics: list[str]
    timeout_ms: int
    topic_ids: list[UUID] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTopicsRequest:
    """No names: every topic."""

    topics: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """`configs` holds only what was set on the topic itself."""

    metadata: TopicMetadata
    configs: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTopicsResponse:
    topics: list[TopicDescription]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumMember:
    """A voter or observer. -1 stands for what the leader has not heard yet.

    `lag` counts the entries of the leader's log that the member does not hold. The timestamps are the leader's: when it
    last heard from the member, and when the member last held all that the leader did.
    """

    node_id: int
    log_end_offset: int
    last_fetch_ms_ago: int = -1
    lag: int = -1
    last_fetch_timestamp_ms: int = -1
    last_caught_up_timestamp_ms: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeQuorumRequest:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumDescription:
    """The metadata quorum as its leader sees it."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    leader_id: int = -1
    leader_epoch: int = -1
    high_watermark: int = -1
    voters: list[QuorumMember] = field(default_factory=list)
    observers: list[QuorumMember] = field(default_factory=list)
    cluster_id: str = ""
