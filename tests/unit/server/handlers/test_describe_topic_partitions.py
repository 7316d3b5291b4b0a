from __future__ import annotations

from uuid import UUID

import pytest

from kraft.metadata.image import MetadataImage, PartitionImage
from kraft.metadata.records import BrokerFenced, PartitionChanged
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import NO_BROKER, BrokerId, LeaderEpoch, PartitionEpoch, TopicId
from kraft.server.handlers import describe_topics
from kraft.server.handlers.authorized_operations import ON_TOPIC
from kraft.server.handlers.describe_topic_partitions import PARTITIONS_MAX, describe_topic_partitions
from kraft.server.handlers.describe_topic_partitions import refused as describe_topic_partitions_refused
from kraft.wire.schema.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    TopicRequest,
)
from tests.support.cluster_images import ORDERS, cluster, epoch_of, with_topic


def three_topics() -> MetadataImage:
    """Topics with 2, 1 and 3 partitions."""
    image = cluster(1)
    for number, (name, partitions) in enumerate({"a": 2, "b": 1, "c": 3}.items()):
        image = with_topic(image, *([1] for _ in range(partitions)), topic=name, topic_id=TopicId(UUID(int=number + 1)))
    return image


IMAGE = three_topics()


def page(
    limit: int, *names: str, begin: tuple[str, int] | None = None, image: MetadataImage = IMAGE
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest(
        topics=tuple(TopicRequest(name=name) for name in names),
        response_partition_limit=limit,
        cursor=None if begin is None else Cursor(topic_name=begin[0], partition_index=begin[1]),
    )
    return describe_topic_partitions(image, request)


def partitions_of(answer: DescribeTopicPartitionsResponse) -> list[tuple[str | None, list[int]]]:
    return [(topic.name, [each.partition_index for each in topic.partitions]) for topic in answer.topics]


def following(answer: DescribeTopicPartitionsResponse) -> tuple[str, int] | None:
    cursor = answer.next_cursor
    return None if cursor is None else (cursor.topic_name, cursor.partition_index)


def test_everything_that_fits_is_listed_by_name() -> None:
    answer = page(100)
    assert (partitions_of(answer), following(answer)) == ([("a", [0, 1]), ("b", [0]), ("c", [0, 1, 2])], None)
    assert partitions_of(page(100, "c", "a", "c")) == [("a", [0, 1]), ("c", [0, 1, 2])]


@pytest.mark.parametrize(
    ("room", "pages"),
    [
        (1, [[("a", [0])], [("a", [1])], [("b", [0])], [("c", [0])], [("c", [1])], [("c", [2])]]),
        (2, [[("a", [0, 1])], [("b", [0]), ("c", [0])], [("c", [1, 2])]]),
        (5, [[("a", [0, 1]), ("b", [0]), ("c", [0, 1])], [("c", [2])]]),
    ],
)
def test_the_next_page_goes_on_where_this_one_ends(room: int, pages: list[list[tuple[str | None, list[int]]]]) -> None:
    found, begin = [], None
    while True:
        answer = page(room, begin=begin)
        found.append(partitions_of(answer))
        begin = following(answer)
        if begin is None:
            break
    assert found == pages


def test_a_page_that_begins_at_a_deleted_topic_begins_at_the_next_one() -> None:
    assert partitions_of(page(100, begin=("b0", 7))) == [("c", [0, 1, 2])]


def test_an_unknown_topic_is_reported_as_unknown() -> None:
    (topic,) = page(100, "nowhere").topics
    assert (topic.name, topic.error_code) == ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def test_a_page_cannot_begin_before_the_first_partition() -> None:
    with pytest.raises(Refusal) as refused:
        page(100, begin=("a", -1))
    assert refused.value.error_code is ErrorCode.INVALID_REQUEST
    request = DescribeTopicPartitionsRequest(topics=(TopicRequest(name="a"),))
    (topic,) = describe_topic_partitions_refused(request, refused.value).topics
    assert (topic.name, topic.error_code) == ("a", ErrorCode.INVALID_REQUEST)


@pytest.mark.parametrize(("asked", "limit"), [(10, 10), (9_999, PARTITIONS_MAX), (0, 1), (-5, 1)])
def test_an_answer_holds_a_bounded_number_of_partitions(asked: int, limit: int) -> None:
    image = with_topic(cluster(1), *[[1]] * (PARTITIONS_MAX + 1))
    (topic,) = page(asked, image=image).topics
    assert len(topic.partitions) == limit


def test_eligible_leader_replicas_are_described() -> None:
    image = with_topic(cluster(1, 2, 3), [1, 2, 3], topic="__consumer_offsets")
    image = image.replay([BrokerFenced(broker_id=BrokerId(1), broker_epoch=epoch_of(image, 1))])
    changed = PartitionChanged(
        topic_id=ORDERS,
        partition=0,
        leader=NO_BROKER,
        isr=[BrokerId(1)],
        elr=[BrokerId(2)],
        last_known_elr=[BrokerId(3)],
        leader_epoch=LeaderEpoch(3),
        partition_epoch=PartitionEpoch(1),
    )
    (topic,) = page(10, image=image.replay([changed])).topics
    (partition,) = topic.partitions
    assert (topic.topic_id, topic.is_internal, topic.topic_authorized_operations) == (ORDERS, True, ON_TOPIC)
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (
        ErrorCode.LEADER_NOT_AVAILABLE,
        -1,
        3,
    )
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ((2,), (3,))
    assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ((1, 2, 3), (1,), (1,))


def test_unknown_topics_take_room_on_a_page() -> None:
    answer = page(2, "x", "y", "z")
    assert (partitions_of(answer), following(answer)) == ([("x", []), ("y", [])], ("z", 0))
    answer = page(2, "x", "y", "z", begin=("z", 0))
    assert (partitions_of(answer), following(answer)) == ([("z", [])], None)


def test_a_page_costs_no_look_at_the_partitions_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise all pages of one topic with tens of thousands of partitions would take the square of their number."""
    looked_at: list[int] = []
    real = describe_topics._partition

    def counted(image: MetadataImage, state: PartitionImage) -> DescribeTopicPartitionsResponsePartition:
        looked_at.append(state.partition)
        return real(image, state)

    monkeypatch.setattr(describe_topics, "_partition", counted)
    image = with_topic(cluster(1), *([1] for _ in range(1_000)), topic="orders", topic_id=ORDERS)
    answer = page(10, begin=("orders", 500), image=image)
    assert partitions_of(answer) == [("orders", list(range(500, 510)))]
    assert following(answer) == ("orders", 510)
    assert looked_at == list(range(500, 511))
