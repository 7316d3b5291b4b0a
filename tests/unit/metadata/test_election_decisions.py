from __future__ import annotations

from uuid import UUID

import pytest

from kraft.metadata.broker_decisions import fence_broker
from kraft.metadata.configs import broker_defaults
from kraft.metadata.decision import Decision
from kraft.metadata.election_decisions import balance_leaders, elect_leaders, elect_unclean_leaders
from kraft.metadata.image import MetadataImage, PartitionImage, TopicImage
from kraft.metadata.leader_election import changes_when_unfenced
from kraft.metadata.partition_names import find_partition
from kraft.metadata.records import BrokerUnfenced, TopicConfigSet
from kraft.model.errors import ErrorCode, Refusal, error_code
from kraft.model.ids import NO_BROKER, BrokerId, TopicId
from kraft.model.partitions import ElectionType
from kraft.wire.schema.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, PartitionResult, TopicPartitions
from tests.support.cluster_images import ORDERS, cluster, epoch_of, fenced, partition, with_topic

BILLS = TopicId(UUID(int=101))
UNCLEAN = broker_defaults({"unclean.leader.election.enable": "true"})


def elect(image: MetadataImage, kind: ElectionType, *numbers: int) -> Decision[ElectLeadersResponse]:
    topics = (TopicPartitions(topic="orders", partitions=numbers),) if numbers else None
    return elect_leaders(image, ElectLeadersRequest(election_type=kind, topic_partitions=topics))


def results(decision: Decision[ElectLeadersResponse]) -> list[tuple[str, PartitionResult]]:
    assert decision.response.error_code == ErrorCode.NONE
    topics = decision.response.replica_election_results
    return [(topic.topic, each) for topic in topics for each in topic.partition_result]


def codes(decision: Decision[ElectLeadersResponse]) -> dict[str, str]:
    return {f"{topic}-{each.partition_id}": error_code(each.error_code).name for topic, each in results(decision)}


def dead_for_good(image: MetadataImage, broker_id: int) -> MetadataImage:
    """Both are gone, the given broker as the last one in sync."""
    for each in (3 - broker_id, broker_id):
        image = fenced(image, each)
    return image


def back(image: MetadataImage, broker_id: int) -> MetadataImage:
    unfenced = BrokerUnfenced(broker_id=BrokerId(broker_id), broker_epoch=epoch_of(image, broker_id))
    return image.replay([unfenced, *changes_when_unfenced(image, BrokerId(broker_id))])


# --- preferred -----------------------------------------------------------------------------------------------


def test_the_preferred_leader_is_elected_where_another_leads() -> None:
    image = with_topic(cluster(1, 2), [1, 2], [2, 1], isr=[2, 1])
    decision = elect(image, ElectionType.PREFERRED, 0, 1)
    assert codes(decision) == {"orders-0": "NONE", "orders-1": "ELECTION_NOT_NEEDED"}
    after = partition(image.replay(decision.records))
    assert (after.leader, after.isr, after.leader_epoch, after.partition_epoch) == (1, (2, 1), 1, 1)


def test_for_all_partitions_only_those_that_need_it_are_reported() -> None:
    image = with_topic(cluster(1, 2), [1, 2], [2, 1], isr=[2, 1])
    image = with_topic(image, [1, 2], isr=[2], topic="bills", topic_id=BILLS)
    decision = elect(image, ElectionType.PREFERRED)
    assert codes(decision) == {"bills-0": "PREFERRED_LEADER_NOT_AVAILABLE", "orders-0": "NONE"}


def test_of_all_partitions_those_that_need_no_election_cost_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the election in a large cluster would be a long turn of the event loop, for nothing."""
    image = with_topic(cluster(1, 2), *[[1, 2]] * 100, [2, 1])
    tried: list[int] = []

    def counted(image: MetadataImage, name: str, number: int) -> tuple[TopicImage, PartitionImage]:
        tried.append(number)
        return find_partition(image, name, number)

    monkeypatch.setattr("kraft.metadata.election_decisions.find_partition", counted)
    assert [codes(elect(image, kind)) for kind in ElectionType] == [{}, {}]
    assert tried == []


def test_what_does_not_exist_has_no_leader_to_elect() -> None:
    image = with_topic(cluster(1), [1])
    named = (TopicPartitions(topic="orders", partitions=(7, 7)), TopicPartitions(topic="nowhere", partitions=(0,)))
    request = ElectLeadersRequest(election_type=ElectionType.PREFERRED, topic_partitions=named * 2)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [(topic, each.error_code, each.error_message) for topic, each in results(elect_leaders(image, request))] == [
        ("orders", unknown, "topic 'orders' has no partition 7"),
        ("nowhere", unknown, "there is no topic 'nowhere'"),
    ]


def test_a_type_of_election_that_does_not_exist_is_refused() -> None:
    with pytest.raises(Refusal, match="unknown election type 5") as refused:
        elect_leaders(cluster(1), ElectLeadersRequest(election_type=5, topic_partitions=None))
    assert refused.value.error_code is ErrorCode.INVALID_REQUEST


# --- unclean -------------------------------------------------------------------------------------------------


def test_an_operator_may_let_a_replica_lead_that_is_not_in_sync() -> None:
    image = back(dead_for_good(with_topic(cluster(1, 2), [1, 2]), 1), 2)
    assert (partition(image).isr, partition(image).leader) == ((1,), NO_BROKER)
    decision = elect(image, ElectionType.UNCLEAN, 0)
    assert codes(decision) == {"orders-0": "NONE"}
    after = partition(image.replay(decision.records))
    assert (after.isr, after.leader, after.leader_epoch) == ((2,), 2, partition(image).leader_epoch + 1)


def test_an_unclean_election_is_not_needed_where_somebody_leads_nor_possible_where_nobody_lives() -> None:
    image = with_topic(cluster(1, 2), [1, 2])
    assert codes(elect(image, ElectionType.UNCLEAN, 0)) == {"orders-0": "ELECTION_NOT_NEEDED"}
    gone = dead_for_good(image, 1)
    assert codes(elect(gone, ElectionType.UNCLEAN, 0)) == {"orders-0": "ELIGIBLE_LEADERS_NOT_AVAILABLE"}


@pytest.mark.parametrize("own", [None, "true", "false"])
def test_the_topics_config_lets_others_lead_at_once_and_wins_over_the_clusters(own: str | None) -> None:
    image = with_topic(cluster(1, 2), [1, 2], isr=[1])
    if own is not None:
        image = image.replay([TopicConfigSet(topic_id=ORDERS, key="unclean.leader.election.enable", value=own)])
    allowed = own != "false"
    gone = image.replay(fence_broker(image, BrokerId(1), epoch_of(image, 1), UNCLEAN).records)
    assert partition(gone).isr == ((2,) if allowed else (1,))
    assert partition(gone).leader == (2 if allowed else NO_BROKER)


def test_with_unclean_elections_a_broker_that_comes_back_leads_what_nobody_leads() -> None:
    image = dead_for_good(with_topic(cluster(1, 2), [1, 2]), 1)
    changes = changes_when_unfenced(image, BrokerId(2), UNCLEAN)
    assert [(change.leader, change.isr) for change in changes] == [(2, [2])]
    assert changes_when_unfenced(image, BrokerId(2)) == []
    (clean,) = changes_when_unfenced(image, BrokerId(1), UNCLEAN)
    assert (clean.leader, clean.isr) == (1, [1])


def test_partitions_without_leader_are_found_when_the_config_came_later() -> None:
    image = back(dead_for_good(with_topic(cluster(1, 2), [1, 2], [2, 1]), 1), 2)
    assert elect_unclean_leaders(image, defaults=broker_defaults({})).records == []
    decision = elect_unclean_leaders(image, defaults=UNCLEAN)
    assert decision.response == 2
    after = image.replay(decision.records)
    assert [partition(after, number).leader for number in (0, 1)] == [2, 2]


# --- balance -------------------------------------------------------------------------------------------------


def test_leaders_go_back_to_a_broker_that_lost_more_than_its_share() -> None:
    image = with_topic(cluster(1, 2), *[[1, 2]] * 10, isr=[2, 1])
    decision = balance_leaders(image, imbalance_percentage=10)
    assert decision.response == 10
    after = image.replay(decision.records)
    assert {each.leader for each in after.topics[ORDERS].partitions.values()} == {1}
    assert balance_leaders(after, imbalance_percentage=10).records == []


def test_a_broker_out_of_service_or_out_of_sync_is_not_given_anything_back() -> None:
    image = with_topic(cluster(1, 2), [1, 2], isr=[2, 1])
    assert balance_leaders(fenced(image, 1), imbalance_percentage=0).records == []
    out_of_sync = with_topic(cluster(1, 2), [1, 2], isr=[2])
    assert balance_leaders(out_of_sync, imbalance_percentage=0).records == []
