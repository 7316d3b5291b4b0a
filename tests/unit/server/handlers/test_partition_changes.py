from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from kraft.log.topic_config import KAFKA_DEFAULTS
from kraft.metadata.configs import broker_defaults
from kraft.metadata.election_decisions import elect_leaders
from kraft.metadata.features import METADATA_VERSION
from kraft.metadata.image import MetadataImage
from kraft.metadata.reassignment import alter_partition_reassignments
from kraft.metadata.records import BrokerConfigSet, FeatureLevelSet
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.partitions import (
    AlterPartitionReassignmentsRequest,
    ElectionType,
    ElectLeadersRequest,
    PartitionName,
    Reassignment,
)
from kraft.server.cluster.controller_client import NoController
from kraft.server.handlers.forwarding import LOCALLY_KNOWN_MAX_S
from kraft.server.handlers.partition_changes import PartitionChangesHandler
from tests.support.cluster_images import cluster, with_topic
from tests.support.server.fake_controllers import FakeControllers
from tests.unit.server.handlers.loader import Loader

IMAGE = with_topic(cluster(1, 2, 3), [1, 2], isr=[2, 1])
ELECT = ElectLeadersRequest(
    election_type=ElectionType.PREFERRED, partitions=[PartitionName(topic="orders", partition=0)], timeout_ms=30_000
)
MOVE = AlterPartitionReassignmentsRequest(
    partitions=[Reassignment(topic="orders", partition=0, replicas=[1, 3])], timeout_ms=30_000
)
NONE_ACTIVE = NoController("no controller is active: 1@localhost:9093 cannot be reached")


def handler(controllers: FakeControllers, loader: Loader) -> PartitionChangesHandler:
    return PartitionChangesHandler(controllers.forwarder(loader), {}, KAFKA_DEFAULTS)


def elected(image: MetadataImage) -> MetadataImage:
    return image.replay(elect_leaders(image, ELECT).records)


def moving(image: MetadataImage) -> MetadataImage:
    return image.replay(alter_partition_reassignments(image, MOVE, defaults=KAFKA_DEFAULTS).records)


async def answered_only_after(asking: Coroutine[Any, Any, Any], loader: Loader, news: MetadataImage) -> None:
    answer = asyncio.ensure_future(asking)
    await asyncio.sleep(0.5)
    assert not answer.done()
    loader.image = news
    await asyncio.sleep(0.1)
    assert answer.done()
    (result,) = answer.result().results
    assert result.error_code is ErrorCode.NONE


async def test_changed_partitions_are_answered_when_this_broker_has_applied_them() -> None:
    loader = Loader()
    asked = handler(
        FakeControllers(
            elect_leaders=elect_leaders(IMAGE, ELECT).response,
            alter_partition_reassignments=alter_partition_reassignments(IMAGE, MOVE, defaults=KAFKA_DEFAULTS).response,
        ),
        loader,
    )
    loader.image = IMAGE
    await answered_only_after(asked.elect_leaders(ELECT), loader, elected(IMAGE))
    loader.image = IMAGE
    await answered_only_after(asked.alter_reassignments(MOVE), loader, moving(IMAGE))


async def test_what_is_waited_for_is_judged_by_what_was_set_for_running_brokers() -> None:
    """Judged by the broker's file alone, one replica is too few, and there would be nothing to wait for."""
    settings = {"min.insync.replicas": "2"}
    lowered = IMAGE.replay([BrokerConfigSet(broker="", key="min.insync.replicas", value="1")])
    to_one = AlterPartitionReassignmentsRequest(
        partitions=[Reassignment(topic="orders", partition=0, replicas=[1])], timeout_ms=30_000
    )
    decision = alter_partition_reassignments(lowered, to_one, defaults=KAFKA_DEFAULTS)
    loader = Loader()
    loader.image = lowered
    asked = PartitionChangesHandler(
        FakeControllers(alter_partition_reassignments=decision.response).forwarder(loader),
        settings,
        broker_defaults(settings),
    )
    await answered_only_after(asked.alter_reassignments(to_one), loader, lowered.replay(decision.records))


async def test_a_broker_without_the_feature_level_for_reassignments_waits_for_it() -> None:
    loader = Loader()
    loader.image = IMAGE.replay([FeatureLevelSet(feature=METADATA_VERSION, level=1)])
    response = alter_partition_reassignments(IMAGE, MOVE, defaults=KAFKA_DEFAULTS).response
    asked = handler(FakeControllers(alter_partition_reassignments=response), loader)
    await answered_only_after(asked.alter_reassignments(MOVE), loader, moving(IMAGE))


async def test_a_broker_that_hears_late_answers_all_the_same() -> None:
    response = elect_leaders(IMAGE, ELECT).response
    began = asyncio.get_running_loop().time()
    assert await handler(FakeControllers(elect_leaders=response), Loader(IMAGE)).elect_leaders(ELECT) == response
    assert asyncio.get_running_loop().time() - began == pytest.approx(LOCALLY_KNOWN_MAX_S, abs=0.1)


async def test_what_was_refused_is_not_waited_for() -> None:
    settled = elected(IMAGE)
    response = elect_leaders(settled, ELECT).response
    assert response.results[0].error_code is ErrorCode.ELECTION_NOT_NEEDED
    began = asyncio.get_running_loop().time()
    await handler(FakeControllers(elect_leaders=response), Loader(IMAGE)).elect_leaders(ELECT)
    assert asyncio.get_running_loop().time() == began


async def test_without_a_controller_the_answer_is_that_time_ran_out() -> None:
    controllers = FakeControllers(elect_leaders=NONE_ACTIVE, alter_partition_reassignments=NONE_ACTIVE)
    asked = handler(controllers, Loader(IMAGE))
    assert (await asked.elect_leaders(ELECT)).error_code is ErrorCode.REQUEST_TIMED_OUT
    assert (await asked.alter_reassignments(MOVE)).error_code is ErrorCode.REQUEST_TIMED_OUT


async def test_a_request_that_is_refused_as_a_whole_is_passed_on() -> None:
    refusal = Refusal(ErrorCode.INVALID_REQUEST, "fewer at a time")
    controllers = FakeControllers(alter_partition_reassignments=refusal)
    with pytest.raises(Refusal, match="fewer at a time"):
        await handler(controllers, Loader(IMAGE)).alter_reassignments(MOVE)
