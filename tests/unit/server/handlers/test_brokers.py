from __future__ import annotations

import asyncio
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.metadata.image import MetadataImage, PartitionImage
from kraft.metadata.operator_decisions import fence_by_operator
from kraft.metadata.records import PartitionCreated, TopicCreated
from kraft.model.brokers import (
    BrokerActionResult,
    DescribeBrokersRequest,
    FenceBrokerRequest,
    UnfenceBrokerRequest,
)
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import NO_BROKER, BrokerId, LeaderEpoch, PartitionEpoch, TopicId
from kraft.server.handlers import brokers
from kraft.server.handlers.describe_brokers import describe_brokers
from kraft.wire.schema.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from tests.support.cluster_images import cluster, with_topic

DONE = BrokerActionResult(changed=True, leaderless=[])
FENCE = FenceBrokerRequest(broker_id=1, timeout_ms=30_000)


def fenced(image: MetadataImage) -> MetadataImage:
    return image.replay(fence_by_operator(image, FENCE).records)


async def test_brokers_are_described_with_what_they_hold() -> None:
    image = fenced(with_topic(cluster(2, 1, 3, racks={1: "a"}), [1, 2], [2, 1], [2, 1]))
    one, two, three = (await describe_brokers(image, DescribeBrokersRequest(broker_ids=[]))).brokers
    assert [each.broker_id for each in (one, two, three)] == [1, 2, 3]
    assert (one.rack, one.fenced, one.fenced_by_operator, one.broker_epoch) == ("a", True, True, 2)
    assert (one.leaders, one.replicas, one.in_sync) == (0, 3, 0)
    assert (two.leaders, two.replicas, two.in_sync, two.fenced) == (3, 3, 3, False)
    assert (three.leaders, three.replicas, three.in_sync) == (0, 0, 0)
    assert [(each.listener, each.port) for each in one.addresses] == [("GRPC", 9095)]
    assert len(one.log_directory_ids) == 1
    assert "metadata.version" in {each.feature for each in one.features}


def _partitions(topic_id: TopicId) -> st.SearchStrategy[list[PartitionCreated]]:
    """Partitions of a topic, also none; some have no leader, or are being reassigned."""
    brokers_of = st.lists(st.integers(1, 4).map(BrokerId), min_size=1, unique=True)
    states = st.lists(st.tuples(brokers_of, st.integers(1, 4), st.booleans(), st.booleans()), max_size=6)
    return states.map(
        lambda drawn: [
            PartitionCreated(
                topic_id=topic_id,
                partition=number,
                replicas=replicas,
                isr=replicas[:in_sync],
                leader=replicas[0] if is_led else NO_BROKER,
                leader_epoch=LeaderEpoch(0),
                partition_epoch=PartitionEpoch(0),
                adding_replicas=replicas[1:] if is_moved else [],
            )
            for number, (replicas, in_sync, is_led, is_moved) in enumerate(drawn)
        ]
    )


@given(st.tuples(*(_partitions(TopicId(UUID(int=number))) for number in (1, 2, 3))))
def test_every_replica_is_counted(topics: tuple[list[PartitionCreated], ...]) -> None:
    image = cluster(1, 2, 3, 4)
    for number, created in enumerate(topics, start=1):
        image = image.replay([TopicCreated(topic=f"topic-{number}", topic_id=TopicId(UUID(int=number))), *created])
    states: list[PartitionImage] = [
        topic.partitions[each] for topic in image.topics.values() for each in topic.partitions
    ]
    described = asyncio.run(describe_brokers(image, DescribeBrokersRequest(broker_ids=[]))).brokers
    assert [(each.broker_id, each.leaders, each.replicas, each.in_sync) for each in described] == [
        (
            broker_id,
            sum(state.leader == broker_id for state in states),
            sum(broker_id in state.replicas for state in states),
            sum(broker_id in state.isr for state in states),
        )
        for broker_id in (1, 2, 3, 4)
    ]


async def test_counting_gives_other_tasks_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kraft.server.handlers.describe_brokers._PARTITIONS_AT_ONCE", 2)
    image, turns = with_topic(cluster(1, 2), [1, 2], [2, 1]), 0
    counting = asyncio.create_task(describe_brokers(image, DescribeBrokersRequest(broker_ids=[])))
    while not counting.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 1


async def test_a_broker_that_is_not_registered_is_not_described() -> None:
    request = DescribeBrokersRequest(broker_ids=[1, 9])
    with pytest.raises(Refusal, match="there is no broker 9: registered are 1, 2") as refused:
        await describe_brokers(cluster(1, 2), request)
    assert refused.value.error_code is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_the_broker_that_is_asked_answers_once_its_image_shows_what_was_decided() -> None:
    unfence, unregister = UnfenceBrokerRequest(broker_id=1, timeout_ms=1), UnregisterBrokerRequest(broker_id=1)
    done = UnregisterBrokerResponse(error_code=ErrorCode.NONE, error_message=None)
    before = cluster(1, 2)
    after = fenced(before)
    assert [brokers.is_fenced(image, FENCE, DONE) for image in (before, after)] == [False, True]
    assert [brokers.is_unfenced(image, unfence, DONE) for image in (before, after)] == [True, False]
    assert [brokers.is_unregistered(image, unregister, done) for image in (before, cluster(2))] == [False, True]
