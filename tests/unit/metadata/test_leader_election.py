from __future__ import annotations

from kraft.metadata.image import MetadataImage
from kraft.metadata.leader_election import (
    changes_when_gone,
    changes_when_shutting_down,
    changes_when_unfenced,
    elect,
)
from kraft.metadata.records import BrokerFenced, BrokerShuttingDown
from kraft.model.ids import NO_BROKER, BrokerId
from tests.support.cluster_images import cluster, epoch_of, ids, partition, with_topic


def state(image: MetadataImage) -> tuple[list[int], int, int, int]:
    """ISR, leader, leader epoch, partition epoch."""
    now = partition(image)
    return list(now.isr), now.leader, now.leader_epoch, now.partition_epoch


def fenced(image: MetadataImage, broker_id: int) -> MetadataImage:
    record = BrokerFenced(broker_id=BrokerId(broker_id), broker_epoch=epoch_of(image, broker_id))
    return image.replay([record, *changes_when_gone(image, BrokerId(broker_id))])


def shutting_down(image: MetadataImage, broker_id: int) -> MetadataImage:
    record = BrokerShuttingDown(broker_id=BrokerId(broker_id), broker_epoch=epoch_of(image, broker_id))
    return image.replay([record, *changes_when_shutting_down(image, BrokerId(broker_id))])


def test_the_first_replica_that_is_in_sync_and_can_lead_is_elected() -> None:
    assert elect(ids(1, 2, 3), ids(3, 2), lambda _: True) == 2
    assert elect(ids(1, 2, 3), ids(3, 2), lambda broker_id: broker_id != 2) == 3


def test_an_election_takes_the_next_of_the_assignment_however_much_it_leads_already() -> None:
    image = fenced(with_topic(cluster(1, 2, 3), [1, 2, 3], [2, 3, 1], [2, 1, 3]), 1)
    assert [partition(image, number).leader for number in range(3)] == [2, 2, 2]


def test_a_newcomer_is_elected_only_if_no_other_can_lead() -> None:
    assert elect(ids(1, 2, 3), ids(1, 2, 3), lambda broker_id: broker_id != 1, newcomers=ids(2)) == 3
    assert elect(ids(1, 2, 3), ids(1, 2), lambda broker_id: broker_id != 1, newcomers=ids(2)) == 2
    assert elect(ids(1, 2, 3), ids(1, 2, 3), lambda _: True, newcomers=ids(1, 2, 3)) == 1


def test_nobody_outside_the_isr_is_ever_elected() -> None:
    assert elect(ids(1, 2, 3), ids(1), lambda broker_id: broker_id != 1) == NO_BROKER


def test_only_the_last_of_the_isr_ends_the_time_without_a_leader() -> None:
    image = fenced(fenced(with_topic(cluster(1, 2), [1, 2]), 1), 2)
    assert changes_when_unfenced(image, BrokerId(1)) == []
    back = image.replay(changes_when_unfenced(image, BrokerId(2)))
    assert state(back) == ([2], 2, 3, 3)


def test_a_dead_leader_and_one_that_shuts_down_are_followed_by_a_newcomer_only_if_no_other_can_lead() -> None:
    image = with_topic(cluster(1, 2, 3), [1, 2, 3], [1, 2])
    for changes in (changes_when_gone, changes_when_shutting_down):
        after = image.replay(changes(image, BrokerId(1), newcomers=ids(2)))
        assert [partition(after, number).leader for number in range(2)] == [3, 2]


def test_a_newcomer_that_leads_goes_on_when_a_follower_dies() -> None:
    image = with_topic(cluster(1, 2, 3), [1, 2, 3])
    after = image.replay(changes_when_gone(image, BrokerId(3), newcomers=ids(1)))
    assert state(after) == ([1, 2], 1, 0, 1)


def test_a_broker_that_shuts_down_goes_on_with_what_nobody_else_has() -> None:
    image = with_topic(cluster(1, 2), [1, 2], isr=[1])
    assert changes_when_shutting_down(image, BrokerId(1)) == []


def test_no_leadership_moves_to_another_broker_that_shuts_down() -> None:
    image = with_topic(shutting_down(cluster(1, 2), 2), [1, 2])
    assert changes_when_shutting_down(image, BrokerId(1)) == []
