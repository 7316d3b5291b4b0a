"""CreateTopics, DeleteTopics and DescribeTopics."""

from __future__ import annotations

from uuid import UUID

from msgspec import Struct, field

from kraft.model.errors import ErrorCode
from kraft.model.metadata import TopicMetadata
from kraft.model.partitions import ReplicaAssignment


class NewTopic(Struct, frozen=True, kw_only=True):
    """Topic to create. A partition count or replication factor of -1 is the cluster's default.

    `assignments` places every partition, from partition 0 on; the two numbers must be -1 then.
    """

    topic: str
    partitions: int = -1
    replication_factor: int = -1
    configs: dict[str, str] = field(default_factory=dict)
    assignments: list[ReplicaAssignment] = field(default_factory=list)


class CreateTopicsRequest(Struct, frozen=True, kw_only=True):
    topics: list[NewTopic]
    timeout_ms: int
    validate_only: bool = False


class TopicResult(Struct, frozen=True, kw_only=True):
    """Result for one topic. `topic_id` is set on success, and if the request names the topic by id.

    `topic` is empty if the request names an id that is not known.
    """

    topic: str
    error_code: ErrorCode
    error_message: str = ""
    topic_id: UUID | None = None
    partitions: int = -1
    replication_factor: int = -1


class TopicResults(Struct, frozen=True, kw_only=True):
    """Response of CreateTopics and DeleteTopics: one result per topic, in the request's order, names before ids."""

    results: list[TopicResult]


class DeleteTopicsRequest(Struct, frozen=True, kw_only=True):
    """Request to delete topics by name, or by id, which never means another topic with the same name."""

    topics: list[str]
    timeout_ms: int
    topic_ids: list[UUID] = field(default_factory=list)


class DescribeTopicsRequest(Struct, frozen=True, kw_only=True):
    """Request to describe these topics; without names, every topic."""

    topics: list[str]


class TopicDescription(Struct, frozen=True, kw_only=True):
    """Description of a topic. `configs` holds only the values set on the topic itself."""

    metadata: TopicMetadata
    configs: dict[str, str]


class DescribeTopicsResponse(Struct, frozen=True, kw_only=True):
    topics: list[TopicDescription]
