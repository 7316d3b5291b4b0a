"""CreateTopics, DeleteTopics and DescribeTopics."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from kraft.model.errors import ErrorCode
from kraft.model.metadata import TopicMetadata
from kraft.model.partitions import ReplicaAssignment


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
