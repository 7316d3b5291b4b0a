"""Topics, as the admin client creates, describes and deletes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kraft.client.aio.admin_calls import AdminClient
from kraft.client.cluster.any_broker import check
from kraft.client.model.arguments import checked_number, checked_topic, checked_topics
from kraft.client.model.values import NewTopic
from kraft.metadata.described_topics import DescribeTopicsRequest, TopicDescription
from kraft.metadata.new_topics import new_topic
from kraft.model.errors import ErrorCode, Refusal
from kraft.rpc.topic_calls import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_TOPIC_PARTITIONS,
    DESCRIBE_TOPICS,
)
from kraft.wire.declaration import ZERO_UUID
from kraft.wire.schema.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from kraft.wire.schema.create_topics import CreatableTopic, CreatableTopicResult, CreateTopicsRequest
from kraft.wire.schema.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicState
from kraft.wire.schema.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from kraft.wire.schema.metadata import MetadataResponseTopic


async def create_topic(
    admin: AdminClient,
    topic: str,
    partitions: int = -1,
    replication_factor: int = -1,
    configs: dict[str, str] | None = None,
) -> CreatableTopicResult:
    """Create one topic; -1 means the cluster's default. Raises the cluster's Refusal."""
    new = NewTopic(topic=topic, partitions=partitions, replication_factor=replication_factor, configs=configs or {})
    return (await create_topics(admin, [new]))[0]


async def create_topics(
    admin: AdminClient, topics: Sequence[NewTopic], *, validate_only: bool = False, timeout_ms: int | None = None
) -> list[CreatableTopicResult]:
    """Create topics. Raises the first Refusal after all were tried.

    TOPIC_ALREADY_EXISTS can mean that an earlier attempt of the same call succeeded and its response was lost.
    """
    new = _checked_topics(topics)
    response = await admin.calls.change(
        CREATE_TOPICS,
        lambda attempt_ms: CreateTopicsRequest(topics=new, timeout_ms=attempt_ms, validate_only=validate_only),
        timeout_ms,
        lambda response: _check(response.topics),
    )
    return list(response.topics)


async def delete_topics(
    admin: AdminClient, topics: Sequence[str], *, timeout_ms: int | None = None
) -> list[DeletableTopicResult]:
    """Delete topics. Raises the first Refusal after all were tried."""
    states = tuple(DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in checked_topics(topics))
    response = await admin.calls.change(
        DELETE_TOPICS,
        lambda attempt_ms: DeleteTopicsRequest(topics=states, timeout_ms=attempt_ms),
        timeout_ms,
        lambda response: _check(response.responses),
    )
    return list(response.responses)


async def list_topics(admin: AdminClient, *, timeout_ms: int | None = None) -> list[str]:
    """Return the names of all topics, sorted."""
    return sorted(topic.name or "" for topic in (await admin.calls.describe_cluster(timeout_ms=timeout_ms)).topics)


async def find_topics(
    admin: AdminClient, topics: Iterable[str] | None = None, *, timeout_ms: int | None = None
) -> dict[str, MetadataResponseTopic]:
    """Return id and partitions of those of the topics that exist, by name; of all topics without `topics`.

    One broker answers, which may not know a new topic or partition for a moment.
    """
    names = None if topics is None else checked_topics(topics)
    if names == []:
        return {}
    response = await admin.calls.describe_cluster(names, timeout_ms=timeout_ms)
    found: dict[str, MetadataResponseTopic] = {}
    for topic in response.topics:
        if topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            check(topic.error_code, topic.error_message or f"topic {topic.name!r}")
            found[topic.name or ""] = topic
    return found


async def describe_topics(
    admin: AdminClient,
    topics: Iterable[str] = (),
    *,
    config_names: Iterable[str] = (),
    with_partitions: bool = True,
    timeout_ms: int | None = None,
) -> list[TopicDescription]:
    """Return state and configs of the topics, sorted by name; all topics if none is given.

    With `config_names`, only these configs: by Kafka's protocol, which has all configs of a topic in one answer, this
    is what most of the time goes to. Without `with_partitions`, only configs are asked for.
    Raises UNKNOWN_TOPIC_OR_PARTITION if a topic does not exist.
    """
    names = checked_topics(topics)
    request = DescribeTopicsRequest(
        topics=names, config_names=list(config_names), without_partitions=not with_partitions
    )
    described = (await admin.calls.ask(DESCRIBE_TOPICS, request, timeout_ms)).topics
    for each in described:
        check(each.metadata.error_code, each.error_message or f"topic {each.topic!r}")
    missing = set(names) - {each.topic for each in described}
    if missing:
        listed = ", ".join(repr(name) for name in sorted(missing))
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {listed} does not exist")
    return sorted(described, key=lambda each: each.topic)


async def describe_topic_partitions(
    admin: AdminClient,
    topics: Iterable[str] = (),
    *,
    partitions_max: int = 2_000,
    cursor: Cursor | None = None,
    timeout_ms: int | None = None,
) -> DescribeTopicPartitionsResponse:
    """Return a page of topics with their partitions, of all topics if none is given; `next_cursor` of the response
    is the `cursor` of the next page. A topic that does not exist has an `error_code`.
    """
    request = DescribeTopicPartitionsRequest(
        topics=tuple(TopicRequest(name=name) for name in checked_topics(topics)),
        response_partition_limit=partitions_max,
        cursor=cursor,
    )
    return await admin.calls.ask(DESCRIBE_TOPIC_PARTITIONS, request, timeout_ms)


async def create_partitions(
    admin: AdminClient,
    topic: str,
    total_count: int,
    assignments: Sequence[Sequence[int]] | None = None,
    *,
    validate_only: bool = False,
    timeout_ms: int | None = None,
) -> None:
    """Add partitions to the topic until it has `total_count`. Partitions cannot be removed again.

    `assignments` are the brokers of each new partition, preferred leader first; without it the cluster chooses.
    Raises INVALID_PARTITIONS for a count that is not an increase; that can mean that an earlier attempt of the same
    call succeeded and its response was lost.
    """
    placed = tuple(CreatePartitionsAssignment(broker_ids=tuple(replicas)) for replicas in assignments or ())
    # Kafka takes an empty list for assignments of none of the new partitions, and refuses them.
    new = (CreatePartitionsTopic(name=topic, count=total_count, assignments=placed or None),)
    await admin.calls.change(
        CREATE_PARTITIONS,
        lambda attempt_ms: CreatePartitionsRequest(topics=new, timeout_ms=attempt_ms, validate_only=validate_only),
        timeout_ms,
        lambda response: _check(response.results),
    )


def _check(results: Iterable[CreatableTopicResult | DeletableTopicResult | CreatePartitionsTopicResult]) -> None:
    for result in results:
        check(result.error_code, result.error_message or f"topic {result.name!r}")


def _checked_topics(topics: object) -> tuple[CreatableTopic, ...]:
    """Return the topics to create. Raises TypeError."""
    if not isinstance(topics, Iterable) or not all(isinstance(each, NewTopic) for each in topics):
        raise TypeError(f"expected a list of NewTopic, not {topics!r}")
    for each in topics:
        checked_topic(each.topic)
        checked_number("partitions", each.partitions)
        checked_number("replication_factor", each.replication_factor)
    return tuple(
        new_topic(
            each.topic,
            partitions=each.partitions,
            replication_factor=each.replication_factor,
            configs=each.configs,
            assignments=each.assignments,
        )
        for each in topics
    )
