from __future__ import annotations

import dataclasses

import pytest
from msgspec.structs import replace

from kraft.log.topic_config import KAFKA_DEFAULTS, TopicConfig
from kraft.metadata.broker_decisions import begin_controlled_shutdown, fence_broker, register_broker, unfence_broker
from kraft.metadata.configs import broker_defaults
from kraft.metadata.election_decisions import clear_stale_elrs, elect_leaders, elect_unclean_leaders
from kraft.metadata.eligible_replicas import NO_ELIGIBLE, Eligible, eligible_after, has_stale_elr, minimum_isr
from kraft.metadata.features import ELIGIBLE_REPLICAS_VERSION
from kraft.metadata.image import MetadataImage
from kraft.metadata.partition_decisions import fail_replicas
from kraft.metadata.records import FeatureLevelSet, PartitionChanged, TopicConfigSet
from kraft.metadata.snapshot_records import snapshot_records
from kraft.model.fail_replicas import FailedReplica, FailReplicasRequest
from kraft.model.ids import NO_BROKER, NO_LEADER_EPOCH, BrokerId, LeaderEpoch, PartitionEpoch
from kraft.model.partitions import ElectionType
from kraft.wire.schema.elect_leaders import ElectLeadersRequest
from tests.support.cluster_images import ORDERS, cluster, epoch_of, ids, partition, registration, with_topic

TWO = broker_defaults({"min.insync.replicas": "2"})
UNCLEAN = dataclasses.replace(TWO, unclean_leader_election_enable=True)


def orders(
    *isr: int, elr: tuple[int, ...] = (), last_known: tuple[int, ...] = (), leader: int | None = None
) -> MetadataImage:
    """One partition on brokers 1 to 3 in that state; without ISR all are in sync."""
    image = with_topic(cluster(1, 2, 3), [1, 2, 3])
    if not isr:
        return image
    return image.replay(
        [
            PartitionChanged(
                topic_id=ORDERS,
                partition=0,
                isr=ids(*isr),
                leader=BrokerId(isr[0] if leader is None else leader),
                leader_epoch=LeaderEpoch(1),
                partition_epoch=PartitionEpoch(1),
                elr=ids(*elr),
                last_known_elr=ids(*last_known),
            )
        ]
    )


def fenced(image: MetadataImage, *broker_ids: int, defaults: TopicConfig = TWO) -> MetadataImage:
    for each in broker_ids:
        image = image.replay(fence_broker(image, BrokerId(each), epoch_of(image, each), defaults).records)
    return image


def unfenced(image: MetadataImage, broker_id: int, defaults: TopicConfig = TWO) -> MetadataImage:
    return image.replay(unfence_broker(image, BrokerId(broker_id), epoch_of(image, broker_id), defaults).records)


def failed(image: MetadataImage, broker_id: int) -> MetadataImage:
    replica = FailedReplica(topic_id=ORDERS, partition=0, leader_epoch=NO_LEADER_EPOCH)
    request = FailReplicasRequest(
        broker_id=BrokerId(broker_id), broker_epoch=epoch_of(image, broker_id), replicas=[replica]
    )
    return image.replay(fail_replicas(image, request, defaults=TWO).records)


def registered(image: MetadataImage, broker_id: int, *, may_have_lost_records: bool = False) -> MetadataImage:
    request = replace(registration(broker_id, process=2), may_have_lost_records=may_have_lost_records)
    return image.replay(register_broker(image, request, session_is_alive=False, defaults=TWO).records)


def state(image: MetadataImage) -> tuple[tuple[int, ...], int, tuple[int, ...], tuple[int, ...]]:
    """ISR, leader, ELR, last known ELR."""
    now = partition(image)
    return now.isr, now.leader, now.elr, now.last_known_elr


# --- who is eligible -----------------------------------------------------------------------------------------


def test_those_that_leave_an_isr_below_the_minimum_are_eligible() -> None:
    image = fenced(orders(), 3)
    assert state(image) == ((1, 2), 1, (), ()), "enough are left, so 3 will soon lack what is committed"
    image = fenced(image, 1)
    assert state(image) == ((2,), 2, (1,), ())


def test_all_that_leave_at_once_are_eligible() -> None:
    before = partition(orders())
    after = eligible_after(before, ids(2), BrokerId(2), replicas=before.replicas, minimum=2)
    assert after == Eligible(elr=tuple(ids(1, 3)))


def test_nobody_is_when_the_isr_reaches_the_minimum_again() -> None:
    before = partition(orders(1, elr=(2,), last_known=(3,)))
    assert eligible_after(before, ids(1, 3), BrokerId(1), replicas=before.replicas, minimum=2) == NO_ELIGIBLE


def test_without_a_leader_nothing_is_committed_however_many_are_in_sync() -> None:
    before = partition(orders(1, elr=(2,), leader=NO_BROKER))
    unchanged = eligible_after(before, ids(1), NO_BROKER, replicas=before.replicas, minimum=1)
    assert unchanged == Eligible(elr=tuple(ids(2)))


def test_who_was_never_trusted_makes_nobody_eligible() -> None:
    before = partition(orders(1, elr=(2,)))
    assert eligible_after(before, ids(3), BrokerId(3), replicas=before.replicas, minimum=2) == NO_ELIGIBLE


def test_a_replica_that_is_taken_away_is_not_eligible() -> None:
    before = partition(orders(1, elr=(2,), last_known=(3,)))
    assert eligible_after(before, ids(1), BrokerId(1), replicas=ids(1, 4), minimum=2) == NO_ELIGIBLE


def test_the_minimum_is_the_topics_then_the_servers_and_never_more_than_there_are_replicas() -> None:
    image = orders()
    assert minimum_isr(image, {}, ids(1, 2, 3), TWO) == 2
    assert minimum_isr(image, {"min.insync.replicas": "3"}, ids(1, 2, 3), TWO) == 3
    assert minimum_isr(image, {"min.insync.replicas": "3"}, ids(1), TWO) == 1


def test_a_cluster_at_level_0_keeps_none_and_elects_as_before() -> None:
    image = orders().replay([FeatureLevelSet(feature=ELIGIBLE_REPLICAS_VERSION, level=0)])
    image = unfenced(fenced(image, 1, 3, 2), 3)
    assert state(image) == ((2,), NO_BROKER, (), ())


def test_eligible_replicas_come_back_through_a_snapshot() -> None:
    image = orders(1, elr=(2,), last_known=(3,))
    assert state(image.replay([]))[2:] == ((2,), (3,))
    empty = MetadataImage()
    assert empty.replay(snapshot_records(image)) == image


# --- elections -----------------------------------------------------------------------------------------------


def test_when_the_last_in_sync_dies_a_live_eligible_replica_leads_at_once() -> None:
    image = fenced(orders(1, elr=(2,)), 1)
    assert state(image) == ((2,), 2, (1,), ())
    assert partition(image).leader_epoch == 2


def test_an_eligible_replica_that_comes_back_leads() -> None:
    image = fenced(orders(1, elr=(2,)), 2, 1)
    assert state(image) == ((1,), NO_BROKER, (2,), ())
    image = unfenced(image, 2)
    assert state(image) == ((2,), 2, (1,), ())


def test_one_that_is_not_eligible_does_not() -> None:
    image = unfenced(fenced(orders(1, elr=(2,)), 3, 2, 1), 3)
    assert state(image) == ((1,), NO_BROKER, (2,), ())


def test_the_member_of_the_isr_leads_again_where_it_is_back_first() -> None:
    image = unfenced(fenced(orders(2, elr=(1, 3)), 1, 3, 2), 2)
    assert state(image) == ((2,), 2, (1, 3), ())


def test_where_unclean_elections_are_allowed_an_eligible_replica_still_comes_first() -> None:
    image = fenced(orders(1, elr=(3,)), 1, defaults=UNCLEAN)
    assert state(image) == ((3,), 3, (1,), ())
    waiting = orders(1, elr=(3,), leader=NO_BROKER)
    elected = elect_unclean_leaders(waiting, defaults=UNCLEAN)
    assert partition(waiting.replay(elected.records)).leader == 3


def test_an_unclean_election_ends_the_trust_in_everybody_else() -> None:
    image = fenced(orders(1, elr=(3,), last_known=(2,)), 3)
    image = fenced(image, 1, defaults=UNCLEAN)
    assert state(image) == ((2,), 2, (), ())


def test_a_preferred_election_leaves_the_eligible_replicas_as_they_are() -> None:
    three = broker_defaults({"min.insync.replicas": "3"})
    request = ElectLeadersRequest(election_type=ElectionType.PREFERRED, topic_partitions=None)
    image = orders(2, 1, elr=(3,))
    image = image.replay(elect_leaders(image, request, defaults=three).records)
    assert state(image) == ((2, 1), 1, (3,), ())


def test_a_controlled_shutdown_leaves_an_eligible_replica_behind() -> None:
    image = fenced(orders(), 3)
    image = image.replay(begin_controlled_shutdown(image, BrokerId(1), epoch_of(image, 1), TWO).records)
    assert state(image) == ((2,), 2, (1,), ())


# --- who is not trusted any more -------------------------------------------------------------------------------


def test_a_new_process_that_has_what_the_one_before_synced_stays_eligible() -> None:
    assert state(registered(fenced(orders(1, elr=(2,)), 2), 2)) == ((1,), 1, (2,), ())


def test_one_that_may_have_lost_records_does_not() -> None:
    image = registered(fenced(orders(1, elr=(2,)), 2), 2, may_have_lost_records=True)
    assert state(image) == ((1,), 1, (), (2,))


def test_nor_one_with_nothing_but_new_log_directories() -> None:
    image = fenced(orders(1, elr=(2,)), 2)
    request = replace(registration(2, process=2), directory_ids=registration(3).directory_ids)
    image = image.replay(register_broker(image, request, session_is_alive=False, defaults=TWO).records)
    assert state(image) == ((1,), 1, (), (2,))


def test_the_last_in_sync_that_may_have_lost_records_gives_its_place_to_an_eligible_one() -> None:
    image = registered(fenced(orders(1, elr=(2, 3)), 2, 3, 1), 1, may_have_lost_records=True)
    assert state(image) == ((2,), NO_BROKER, (3,), (1,))
    assert state(unfenced(image, 1)) == state(image)
    assert state(unfenced(image, 3)) == ((3,), 3, (2,), (1,))


def test_where_nobody_is_eligible_it_stays_and_leads_again_as_the_best_there_is() -> None:
    image = registered(fenced(orders(1), 1), 1, may_have_lost_records=True)
    assert state(image) == ((1,), NO_BROKER, (), ())
    assert state(unfenced(image, 1)) == ((1,), 1, (), ())


def test_a_replica_that_failed_is_not_eligible() -> None:
    assert state(failed(orders(1, elr=(2, 3)), 2)) == ((1,), 1, (3,), (2,))
    assert state(failed(orders(1, 2), 2)) == ((1,), 1, (), (2,))
    assert state(failed(orders(1, elr=(2,)), 1)) == ((2,), 2, (), (1,))


# --- a minimum that changes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("minimum", "settled"), [("1", False), ("2", True)])
def test_eligible_replicas_outlive_their_reason_when_the_minimum_is_lowered(minimum: str, settled: bool) -> None:
    image = orders(1, elr=(2,), last_known=(3,))
    topic = image.topics[ORDERS]
    defaults = broker_defaults({"min.insync.replicas": minimum})
    assert has_stale_elr(image, topic, partition(image), defaults) is not settled
    decision = clear_stale_elrs(image, defaults=defaults)
    assert decision.response == (0 if settled else 1)
    if not settled:
        after = image.replay(decision.records)
        assert state(after) == ((1,), 1, (), ())
        assert partition(after).leader_epoch == partition(image).leader_epoch
        assert clear_stale_elrs(after, defaults=defaults).records == []


def test_those_of_a_partition_without_leader_do_not() -> None:
    image = orders(1, elr=(2,), leader=NO_BROKER)
    assert clear_stale_elrs(image, defaults=KAFKA_DEFAULTS).records == []


def test_a_topics_own_minimum_is_what_counts() -> None:
    own = TopicConfigSet(topic_id=ORDERS, key="min.insync.replicas", value="2")
    assert clear_stale_elrs(orders(1, elr=(2,)).replay([own]), defaults=KAFKA_DEFAULTS).records == []
