from __future__ import annotations

from uuid import UUID

import pytest

from kraft.metadata.image import MetadataImage
from kraft.model.describe_topic_partitions import PartitionPlace, TopicPage, TopicPageRequest
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicId
from kraft.server.handlers.describe_topic_partitions import describe_topic_partitions
from tests.support.cluster_images import cluster, with_topic


def three_topics() -> MetadataImage:
    """Topics with 2, 1 and 3 partitions."""
    image = cluster(1)
    for number, (name, partitions) in enumerate({"a": 2, "b": 1, "c": 3}.items()):
        image = with_topic(image, *([1] for _ in range(partitions)), topic=name, topic_id=TopicId(UUID(int=number + 1)))
    return image


IMAGE = three_topics()


def page(partitions_max: int, *names: str, begin: tuple[str, int] | None = None) -> TopicPage:
    place = None if begin is None else PartitionPlace(topic=begin[0], partition=begin[1])
    request = TopicPageRequest(topics=list(names), partitions_max=partitions_max, begin=place)
    return describe_topic_partitions(IMAGE, request)


def partitions_of(answer: TopicPage) -> list[tuple[str, list[int]]]:
    return [(topic.topic, [each.partition for each in topic.partitions]) for topic in answer.topics]


def following(answer: TopicPage) -> tuple[str, int] | None:
    return None if answer.following is None else (answer.following.topic, answer.following.partition)


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
def test_the_next_page_goes_on_where_this_one_ends(room: int, pages: list[list[tuple[str, list[int]]]]) -> None:
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
    assert (topic.topic, topic.error_code) == ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def test_a_page_cannot_begin_before_the_first_partition() -> None:
    with pytest.raises(Refusal) as refused:
        page(100, begin=("a", -1))
    assert refused.value.error_code is ErrorCode.INVALID_REQUEST


def test_unknown_topics_take_room_on_a_page() -> None:
    answer = page(2, "x", "y", "z")
    assert (partitions_of(answer), following(answer)) == ([("x", []), ("y", [])], ("z", 0))
    answer = page(2, "x", "y", "z", begin=("z", 0))
    assert (partitions_of(answer), following(answer)) == ([("z", [])], None)
