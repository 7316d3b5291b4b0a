from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from kraft.log.topic_config import KAFKA_DEFAULTS
from kraft.metadata.broker_configs import TopicDefaultsInEffect
from kraft.metadata.configs import broker_defaults
from kraft.metadata.election_decisions import elect_leaders
from kraft.metadata.features import METADATA_VERSION
from kraft.metadata.image import MetadataImage
from kraft.metadata.reassignment import alter_partition_reassignments, list_partition_reassignments
from kraft.metadata.records import BrokerConfigSet, FeatureLevelSet
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.partitions import ElectionType
from kraft.server.handlers.forwarding import LOCALLY_KNOWN_MAX_S
from kraft.server.handlers.partition_changes import (
    LISTED_BY_CONTROLLER_MS_MAX,
    elect,
    elections_refused,
    list_reassignments,
    reassign,
    reassignments_refused,
)
from kraft.wire.declaration import replace
from kraft.wire.schema.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from kraft.wire.schema.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from kraft.wire.schema.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from tests.support.cluster_images import cluster, with_topic
from tests.support.server.fake_controllers import FakeControllers
from tests.unit.server.handlers.loader import Loader

IMAGE = with_topic(cluster(1, 2, 3), [1, 2], isr=[2, 1])
ELECT = ElectLeadersRequest(
    election_type=ElectionType.PREFERRED, topic_partitions=(TopicPartitions(topic="orders", partitions=(0,)),)
)
DEFAULTS = TopicDefaultsInEffect({}, KAFKA_DEFAULTS)


def move(*replicas: int) -> AlterPartitionReassignmentsRequest:
    asked = ReassignablePartition(partition_index=0, replicas=replicas)
    return AlterPartitionReassignmentsRequest(topics=(ReassignableTopic(name="orders", partitions=(asked,)),))


MOVE = move(1, 3)


def elected(image: MetadataImage) -> MetadataImage:
    return image.replay(elect_leaders(image, ELECT).records)


def moving(image: MetadataImage) -> MetadataImage:
    return image.replay(alter_partition_reassignments(image, MOVE, defaults=KAFKA_DEFAULTS).records)


async def answered_only_after(
    asking: Coroutine[Any, Any, ElectLeadersResponse | AlterPartitionReassignmentsResponse],
    loader: Loader,
    news: MetadataImage,
) -> None:
    answer = asyncio.ensure_future(asking)
    await asyncio.sleep(0.5)
    assert not answer.done()
    loader.image = news
    await asyncio.sleep(0.1)
    assert answer.done()
    assert answer.result().error_code == ErrorCode.NONE


async def test_changed_partitions_are_answered_when_this_broker_has_applied_them() -> None:
    loader = Loader()
    forwarder = FakeControllers(
        elect_leaders=elect_leaders(IMAGE, ELECT).response,
        alter_partition_reassignments=alter_partition_reassignments(IMAGE, MOVE, defaults=KAFKA_DEFAULTS).response,
    ).forwarder(loader)
    loader.image = IMAGE
    await answered_only_after(elect(forwarder, DEFAULTS, ELECT), loader, elected(IMAGE))
    loader.image = IMAGE
    await answered_only_after(reassign(forwarder, DEFAULTS, MOVE), loader, moving(IMAGE))


async def test_what_is_waited_for_is_judged_by_what_was_set_for_running_brokers() -> None:
    """Judged by the broker's file alone, one replica is too few, and there would be nothing to wait for."""
    settings = {"min.insync.replicas": "2"}
    lowered = IMAGE.replay([BrokerConfigSet(broker="", key="min.insync.replicas", value="1")])
    to_one = move(1)
    decision = alter_partition_reassignments(lowered, to_one, defaults=KAFKA_DEFAULTS)
    loader = Loader()
    loader.image = lowered
    forwarder = FakeControllers(alter_partition_reassignments=decision.response).forwarder(loader)
    defaults = TopicDefaultsInEffect(settings, broker_defaults(settings))
    await answered_only_after(reassign(forwarder, defaults, to_one), loader, lowered.replay(decision.records))


async def test_a_broker_without_the_feature_level_for_reassignments_waits_for_it() -> None:
    loader = Loader()
    loader.image = IMAGE.replay([FeatureLevelSet(feature=METADATA_VERSION, level=1)])
    response = alter_partition_reassignments(IMAGE, MOVE, defaults=KAFKA_DEFAULTS).response
    forwarder = FakeControllers(alter_partition_reassignments=response).forwarder(loader)
    await answered_only_after(reassign(forwarder, DEFAULTS, MOVE), loader, moving(IMAGE))


async def test_a_broker_that_hears_late_answers_all_the_same() -> None:
    response = elect_leaders(IMAGE, ELECT).response
    began = asyncio.get_running_loop().time()
    assert await elect(FakeControllers(elect_leaders=response).forwarder(Loader(IMAGE)), DEFAULTS, ELECT) == response
    assert asyncio.get_running_loop().time() - began == pytest.approx(LOCALLY_KNOWN_MAX_S, abs=0.1)


async def test_what_was_refused_is_not_waited_for() -> None:
    settled = elected(IMAGE)
    response = elect_leaders(settled, ELECT).response
    assert response.replica_election_results[0].partition_result[0].error_code == ErrorCode.ELECTION_NOT_NEEDED
    began = asyncio.get_running_loop().time()
    await elect(FakeControllers(elect_leaders=response).forwarder(Loader(IMAGE)), DEFAULTS, ELECT)
    assert asyncio.get_running_loop().time() == began


def test_a_refusal_of_the_whole_request_is_given_for_each_partition() -> None:
    late = Refusal(ErrorCode.REQUEST_TIMED_OUT, "late")
    elections = elections_refused(
        replace(ELECT, topic_partitions=(TopicPartitions(topic="orders", partitions=(0, 1)),)), late
    )
    (topic,) = elections.replica_election_results
    assert (elections.error_code, topic.topic) == (7, "orders")
    assert [(each.partition_id, each.error_code, each.error_message) for each in topic.partition_result] == [
        (0, 7, "late"),
        (1, 7, "late"),
    ]
    assert elections_refused(replace(ELECT, topic_partitions=None), late).replica_election_results == ()
    for may_change in (True, False):
        refused = reassignments_refused(replace(MOVE, allow_replication_factor_change=may_change), late)
        assert (refused.error_code, refused.error_message) == (7, "late")
        assert refused.allow_replication_factor_change is may_change
        assert [
            (topic.name, each.partition_index, each.error_code, each.error_message)
            for topic in refused.responses
            for each in topic.partitions
        ] == [("orders", 0, 7, "late")]


async def test_a_broker_that_lags_does_not_say_that_a_move_is_over() -> None:
    """Its throttle would be removed, and the move would run without one."""
    loader = Loader(IMAGE)
    under_way = list_partition_reassignments(moving(IMAGE), ListPartitionReassignmentsRequest())
    forwarder = FakeControllers(list_partition_reassignments=under_way).forwarder(loader)
    answer = asyncio.ensure_future(list_reassignments(forwarder, ListPartitionReassignmentsRequest()))
    await asyncio.sleep(0.5)
    assert not answer.done(), "the topic that is described next would not show the move"
    loader.image = moving(IMAGE)
    assert await answer == under_way
    assert [topic.name for topic in under_way.topics] == ["orders"]


async def test_without_an_active_controller_a_broker_lists_what_it_knows() -> None:
    controllers = FakeControllers(list_partition_reassignments=None)
    controllers.takes_s = 3_600
    forwarder = controllers.forwarder(Loader(moving(IMAGE)))
    began = asyncio.get_running_loop().time()
    listed = await list_reassignments(forwarder, ListPartitionReassignmentsRequest())
    assert [topic.name for topic in listed.topics] == ["orders"]
    assert asyncio.get_running_loop().time() - began == pytest.approx(LISTED_BY_CONTROLLER_MS_MAX / 1_000, abs=0.5)
