"""The hash of the metadata of a group is the same however it came about, and costs little where nothing has changed."""

from __future__ import annotations

from random import Random
from unittest.mock import patch

from msgspec.structs import replace

from kraft.coordinator.consumer import metadata_hash
from kraft.coordinator.consumer.metadata_hash import MetadataHash
from kraft.metadata.image import MetadataImage
from kraft.metadata.persistent_maps import PersistentMap
from tests.unit.coordinator.consumer.coordinator import image_of

TOPICS = tuple(f"t{number}" for number in range(12))


def names_of(*names: str) -> PersistentMap[str, int]:
    return PersistentMap(dict.fromkeys(names, 1))


def persistent(image: MetadataImage) -> MetadataImage:
    return replace(image, topics=PersistentMap.of(image.topics), topic_ids=PersistentMap.of(image.topic_ids))


def test_the_hash_is_0_without_topics() -> None:
    image = image_of({"a": 1})
    assert MetadataHash().of(names_of(), image) == MetadataHash().of(names_of("unknown"), image) == 0
    assert MetadataHash().partitions(names_of("unknown"), image) == 0


def test_the_hash_depends_on_topics_and_partitions_and_not_on_their_order() -> None:
    image = image_of({"a": 1, "b": 2})
    both = MetadataHash().of(names_of("a", "b"), image)
    assert both == MetadataHash().of(names_of("b", "a", "unknown"), image)
    others = [
        MetadataHash().of(names_of("a"), image),
        MetadataHash().of(names_of("b"), image),
        MetadataHash().of(names_of("a", "b"), image_of({"a": 2, "b": 1})),
        MetadataHash().of(names_of("a", "b"), image_of({"a": 1, "b": 3})),
    ]
    assert len({both, *others}) == 5
    assert MetadataHash().partitions(names_of("a", "b"), image) == 3


def test_after_any_changes_the_hash_is_what_another_coordinator_computes() -> None:
    random = Random(1)
    counts = dict.fromkeys(TOPICS[:6], 1)
    names, image = names_of(), persistent(image_of(counts))
    followed = MetadataHash()
    for _ in range(300):
        topic = random.choice(TOPICS)
        match random.randrange(3):
            case 0:
                names = names.with_changes({topic: None if topic in names else random.randint(1, 1_000)})
            case 1 if topic in counts:
                del counts[topic]
                image = persistent(image_of(counts))
            case _:
                counts[topic] = counts.get(topic, 0) + 1
                image = persistent(image_of(counts))
        if random.random() < 0.7:
            assert followed.of(names, image) == MetadataHash().of(names, image)
            assert followed.partitions(names, image) == sum(counts.get(name, 0) for name in names)


def test_a_topic_is_hashed_again_only_if_it_or_its_subscription_has_changed() -> None:
    image, names = persistent(image_of(dict.fromkeys(TOPICS, 1))), names_of(*TOPICS[1:])
    followed = MetadataHash()
    followed.of(names, image)
    with patch.object(metadata_hash, "_number", side_effect=metadata_hash._number) as number:
        followed.of(names, image)
        assert number.call_count == 0
        followed.of(names.with_changes({TOPICS[0]: 1}), image)
        assert number.call_count == 1
        changed = image.topics[image.topic_ids[TOPICS[3]]]
        after = replace(image, topics=PersistentMap.of(image.topics).with_changes({changed.topic_id: replace(changed)}))
        followed.of(names.with_changes({TOPICS[0]: 1}), after)
        assert number.call_count == 3, "the topic before and after"


def test_the_remembered_sum_is_not_part_of_the_value_of_a_group() -> None:
    one, other = MetadataHash(), MetadataHash()
    one.of(names_of("a"), image_of({"a": 1}))
    assert one == other
    assert repr(one) == repr(other)
