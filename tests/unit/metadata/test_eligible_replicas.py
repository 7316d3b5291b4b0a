from __future__ import annotations

from msgspec.structs import replace

from kraft.log.topic_config import KAFKA_DEFAULTS, TopicConfig
from kraft.metadata.broker_decisions import fence_broker, register_broker, unfence_broker
from kraft.metadata.configs import broker_defaults
from kraft.metadata.election_decisions import clear_stale_elrs
from kraft.metadata.eligible_replicas import Eligible, eligible_after
from kraft.metadata.features import ELIGIBLE_REPLICAS_VERSION
from kraft.metadata.image import MetadataImage
from kraft.metadata.records import FeatureLevelSet, PartitionChanged, TopicConfigSet
from kraft.model.ids import NO_BROKER, BrokerId, LeaderEpoch, PartitionEpoch
from tests.support.cluster_images import ORDERS, cluster, epoch_of, ids, partition, registration, with_topic

TWO = broker_defaults({"min.insync.replicas": "2"})


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


def registered(image: MetadataImage, broker_id: int, *, may_have_lost_records: bool = False) -> MetadataImage:
    request = replace(registration(broker_id, process=2), may_have_lost_records=may_have_lost_records)
    return image.replay(register_broker(image, request, session_is_alive=False, defaults=TWO).records)


def state(image: MetadataImage) -> tuple[tuple[int, ...], int, tuple[int, ...], tuple[int, ...]]:
    """ISR, leader, ELR, last known ELR."""
    now = partition(image)
    return now.isr, now.leader, now.elr, now.last_known_elr


# --- who is eligible -----------------------------------------------------------------------------------------


def test_without_a_leader_nothing_is_committed_however_many_are_in_sync() -> None:
    before = partition(orders(1, elr=(2,), leader=NO_BROKER))
    unchanged = eligible_after(before, ids(1), NO_BROKER, replicas=before.replicas, minimum=1)
    assert unchanged == Eligible(elr=tuple(ids(2)))


def test_a_cluster_at_level_0_keeps_none_and_elects_as_before() -> None:
    image = orders().replay([FeatureLevelSet(feature=ELIGIBLE_REPLICAS_VERSION, level=0)])
    image = unfenced(fenced(image, 1, 3, 2), 3)
    assert state(image) == ((2,), NO_BROKER, (), ())


# --- who is not trusted any more -------------------------------------------------------------------------------


def test_a_new_process_that_has_what_the_one_before_synced_stays_eligible() -> None:
    assert state(registered(fenced(orders(1, elr=(2,)), 2), 2)) == ((1,), 1, (2,), ())


# --- a minimum that changes ------------------------------------------------------------------------------------


def test_those_of_a_partition_without_leader_do_not() -> None:
    image = orders(1, elr=(2,), leader=NO_BROKER)
    assert clear_stale_elrs(image, defaults=KAFKA_DEFAULTS).records == []


def test_a_topics_own_minimum_is_what_counts() -> None:
    own = TopicConfigSet(topic_id=ORDERS, key="min.insync.replicas", value="2")
    assert clear_stale_elrs(orders(1, elr=(2,)).replay([own]), defaults=KAFKA_DEFAULTS).records == []
