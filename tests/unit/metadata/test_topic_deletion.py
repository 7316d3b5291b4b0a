from __future__ import annotations

from uuid import UUID

from kraft.metadata.decision import Decision
from kraft.metadata.image import MetadataImage
from kraft.metadata.records import TopicDeleted
from kraft.metadata.topic_deletion import delete_topics
from kraft.model.errors import ErrorCode
from kraft.wire.declaration import ZERO_UUID
from kraft.wire.schema.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from tests.support.cluster_images import ORDERS, cluster, with_topic

IMAGE = with_topic(cluster(1), [1])
NOBODYS = UUID(int=999)


def named(name: str) -> DeleteTopicState:
    return DeleteTopicState(name=name, topic_id=ZERO_UUID)


def by_id(topic_id: UUID) -> DeleteTopicState:
    return DeleteTopicState(name=None, topic_id=topic_id)


def delete(*topics: DeleteTopicState, image: MetadataImage = IMAGE) -> Decision[DeleteTopicsResponse]:
    return delete_topics(image, DeleteTopicsRequest(topics=topics, timeout_ms=1_000))


def results(decision: Decision[DeleteTopicsResponse]) -> list[tuple[str | None, UUID, int]]:
    return [(each.name, each.topic_id, each.error_code) for each in decision.response.responses]


def test_topics_are_deleted_each_on_its_own() -> None:
    decision = delete(named("orders"), named("payments"), named(""))
    assert results(decision) == [
        ("orders", ORDERS, ErrorCode.NONE),
        ("payments", ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("", ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert [each.error_message for each in decision.response.responses[:2]] == [None, "there is no topic 'payments'"]
    assert decision.records == [TopicDeleted(topic_id=ORDERS)]


def test_a_topic_is_deleted_by_its_id_and_answered_with_its_name() -> None:
    decision = delete(by_id(NOBODYS), by_id(ORDERS))
    assert results(decision) == [
        (None, NOBODYS, ErrorCode.UNKNOWN_TOPIC_ID),
        ("orders", ORDERS, ErrorCode.NONE),
    ]
    assert decision.records == [TopicDeleted(topic_id=ORDERS)]


def test_a_topic_is_named_in_one_way_and_those_that_are_not_come_last() -> None:
    neither, both = DeleteTopicState(name=None, topic_id=ZERO_UUID), DeleteTopicState(name="orders", topic_id=ORDERS)
    assert results(delete(neither, both, by_id(NOBODYS), named("orders"))) == [
        ("orders", ORDERS, ErrorCode.NONE),
        (None, NOBODYS, ErrorCode.UNKNOWN_TOPIC_ID),
        (None, ZERO_UUID, ErrorCode.INVALID_REQUEST),
        ("orders", ORDERS, ErrorCode.INVALID_REQUEST),
    ]
