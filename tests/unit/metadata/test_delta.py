from __future__ import annotations

from uuid import UUID

from kraft.metadata.delta import AssignedPartition, BrokerDelta, RemovedPartition, delta
from kraft.metadata.image import EMPTY_IMAGE, MetadataImage
from kraft.metadata.records import TopicConfigSet, TopicDeleted
from kraft.model.ids import BrokerId, TopicId
from tests.support.cluster_images import ORDERS, cluster, partition, with_isr, with_topic

ME = BrokerId(1)
EMPTY = BrokerDelta(remove=(), reconfigured=(), lead=(), follow=())


def assigned(image: MetadataImage, number: int, *, is_new: bool) -> AssignedPartition:
    return AssignedPartition(topic="orders", topic_id=ORDERS, state=partition(image, number), is_new=is_new)


def test_nothing_changed_means_nothing_to_do() -> None:
    image = with_topic(cluster(1, 2), [1, 2])
    assert delta(image, image, ME) == EMPTY
    assert delta(image, image, ME).is_empty
    assert delta(EMPTY_IMAGE, cluster(1), ME).is_empty


def test_a_leader_that_is_replaced_follows() -> None:
    before = with_topic(cluster(1, 2), [1, 2])
    after = with_isr(before, 1, 2, leader=2)
    assert delta(before, after, ME).follow == (assigned(after, 0, is_new=False),)


def test_a_leader_hears_of_every_change_of_its_isr_and_a_follower_of_none() -> None:
    before = with_topic(cluster(1, 2, 3), [1, 2, 3])
    after = with_isr(before, 1, 2, leader=1)
    assert delta(before, after, ME).lead == (assigned(after, 0, is_new=False),)
    assert delta(before, after, BrokerId(2)).is_empty


def test_a_deleted_topic_is_removed_and_its_namesake_is_new() -> None:
    before = with_topic(cluster(1, 2), [1, 2], [2])
    deleted = before.replay([TopicDeleted(topic_id=ORDERS)])
    removed = RemovedPartition(topic="orders", topic_id=ORDERS, partition=0)
    assert delta(before, deleted, ME).remove == (removed,)
    again = TopicId(UUID(int=101))
    recreated = with_topic(deleted, [1, 2], topic_id=again)
    step = delta(before, recreated, ME)
    assert step.remove == (removed,)
    assert [(entry.topic_id, entry.is_new) for entry in step.lead] == [(again, True)]


def test_changed_configs_reach_those_that_hold_the_topic() -> None:
    before = with_topic(cluster(1, 2), [1])
    after = before.replay([TopicConfigSet(topic_id=ORDERS, key="segment.bytes", value="100")])
    assert delta(before, after, ME).reconfigured == (after.topics[ORDERS],)
    assert delta(before, after, BrokerId(2)).is_empty
