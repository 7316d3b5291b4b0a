"""Cases of the APIs for topics."""

from __future__ import annotations

from typing import Any, Final

from kraft.metadata.described_topics import DescribeTopicsRequest, DescribeTopicsResponse, TopicDescription
from kraft.model.errors import ErrorCode
from kraft.wire.declaration import ZERO_UUID
from kraft.wire.schema import create_partitions, create_topics, delete_topics, describe_topic_partitions, metadata
from tests.unit.server.access.needs import (
    ALTER,
    CREATE,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    NONE,
    TOPIC,
    TOPIC_ID,
    Case,
    on_cluster,
    on_topic,
)


def _created(request: create_topics.CreateTopicsRequest) -> create_topics.CreateTopicsResponse:
    return create_topics.CreateTopicsResponse(
        topics=tuple(
            create_topics.CreatableTopicResult(
                name=each.name, error_code=NONE, error_message=None, num_partitions=1, replication_factor=1, configs=()
            )
            for each in request.topics
        )
    )


def _deleted(request: delete_topics.DeleteTopicsRequest) -> delete_topics.DeleteTopicsResponse:
    return delete_topics.DeleteTopicsResponse(
        responses=tuple(
            delete_topics.DeletableTopicResult(name=each.name, topic_id=each.topic_id, error_code=NONE)
            for each in request.topics
        )
    )


def _described(request: metadata.MetadataRequest) -> metadata.MetadataResponse:
    names = [TOPIC] if request.topics is None else [each.name or TOPIC for each in request.topics]
    return metadata.MetadataResponse(
        brokers=(),
        topics=tuple(
            metadata.MetadataResponseTopic(error_code=NONE, name=name, topic_id=TOPIC_ID, partitions=())
            for name in names
        ),
    )


def topic_partitions(name: str) -> describe_topic_partitions.DescribeTopicPartitionsResponseTopic:
    return describe_topic_partitions.DescribeTopicPartitionsResponseTopic(
        error_code=NONE, name=name, topic_id=TOPIC_ID, partitions=()
    )


def _pages(request: Any) -> describe_topic_partitions.DescribeTopicPartitionsResponse:
    named = tuple(topic_partitions(each.name) for each in request.topics)
    return describe_topic_partitions.DescribeTopicPartitionsResponse(topics=named)


def _topics(request: DescribeTopicsRequest) -> DescribeTopicsResponse:
    return DescribeTopicsResponse(
        topics=[
            TopicDescription(topic=name, metadata=topic_partitions(name), configs={"retention.ms": "7"})
            for name in request.topics
        ]
    )


TOPIC_CASES: Final[dict[str, Case]] = {
    "CreateTopics": Case(
        create_topics.CreateTopicsRequest(
            topics=(
                create_topics.CreatableTopic(
                    name=TOPIC, num_partitions=1, replication_factor=1, assignments=(), configs=()
                ),
            )
        ),
        _created,
        ((on_cluster(CREATE, ErrorCode.TOPIC_AUTHORIZATION_FAILED), on_topic(CREATE)), (on_topic(DESCRIBE_CONFIGS),)),
        "without DESCRIBE_CONFIGS the topic is created, and its configs are left out",
    ),
    "DeleteTopics": Case(
        delete_topics.DeleteTopicsRequest(
            topics=(delete_topics.DeleteTopicState(name=TOPIC, topic_id=ZERO_UUID),), timeout_ms=1
        ),
        _deleted,
        ((on_cluster(DELETE, ErrorCode.TOPIC_AUTHORIZATION_FAILED), on_topic(DELETE)),),
        "a topic that is given by its id is named only to whoever may describe it, who is also told of a name that no "
        "topic has",
    ),
    "CreatePartitions": Case(
        create_partitions.CreatePartitionsRequest(
            topics=(create_partitions.CreatePartitionsTopic(name=TOPIC, count=2, assignments=None),),
            timeout_ms=1,
            validate_only=False,
        ),
        lambda request: create_partitions.CreatePartitionsResponse(
            results=tuple(
                create_partitions.CreatePartitionsTopicResult(name=each.name, error_code=NONE)
                for each in request.topics
            )
        ),
        ((on_topic(ALTER),),),
    ),
    "Metadata": Case(
        metadata.MetadataRequest(topics=(metadata.MetadataRequestTopic(name=TOPIC),)),
        _described,
        ((on_topic(DESCRIBE),),),
        "of all topics those are left out that the client may not describe; to create a missing one takes CREATE, "
        "on the cluster or on the topic",
    ),
    "DescribeTopicPartitions": Case(
        describe_topic_partitions.DescribeTopicPartitionsRequest(
            topics=(describe_topic_partitions.TopicRequest(name=TOPIC),)
        ),
        _pages,
        ((on_topic(DESCRIBE),),),
        "of all topics those are left out that the client may not describe",
    ),
    "DescribeTopics": Case(
        DescribeTopicsRequest(topics=[TOPIC]),
        _topics,
        ((on_topic(DESCRIBE),), (on_topic(DESCRIBE_CONFIGS, None),)),
        "of all topics those are left out that the client may not describe; configs without DESCRIBE_CONFIGS",
    ),
}
