"""CreateTopics, DeleteTopics and DescribeTopics."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from kraft.model.errors import ErrorCode
from kraft.model.metadata import TopicMetadata
from kraft.model.partitions import ReplicaAssignment


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """Topic to create. A partition count or replication factor of -1 is the cluster's default.

    `assignments` places every partition, from partition 0 on; the two numbers must be -1 then.
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
    """Result for one topic. `topic_id` is set on success, and if the request names the topic by id.

    `topic` is empty if the request names an id that is not known.
    """

    topic: str
    error_code: ErrorCode
    error_message: str = ""
    topic_id: UUID | None = None
    partitions: int = -1
    replication_factor: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicResults:
    """Response of CreateTopics and DeleteTopics: one result per topic, in the request's order, names before ids."""

    results: list[TopicResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsRequest:
    """Request to delete topics by name, or by id, which never means another topic with the same name."""

    topics: list[str]
    timeout_ms: int
    topic_ids: list[UUID] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTopicsRequest:
    """Request to describe these topics; without names, every topic."""

    topics: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """Description of a topic. `configs` holds only the values set on the topic itself."""

    metadata: TopicMetadata
    configs: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTopicsResponse:
    topics: list[TopicDescription]
