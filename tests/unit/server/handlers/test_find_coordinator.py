"""FindCoordinator: the leaders of the partitions that groups and transactional ids belong to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from kraft.coordinator.group_partition import partition_of
from kraft.metadata.image import MetadataImage
from kraft.metadata.records import BrokerFenced
from kraft.metadata.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.find_coordinator import CoordinatorType
from kraft.model.ids import BrokerId
from kraft.server.coordinator.internal_topic import InternalTopic
from kraft.server.handlers.find_coordinator import FindCoordinatorHandler, from_version, to_version
from kraft.wire.schema.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from tests.support.cluster_images import cluster, epoch_of, with_topic

IMAGE = with_topic(cluster(1, 2, 3), [1, 2], [2, 3], [3, 1], topic=OFFSETS_TOPIC)
WITH_TRANSACTIONS = with_topic(cluster(1, 2, 3), [3, 1], [1, 2], topic=TRANSACTIONS_TOPIC)
BEING_CREATED = Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "being created")


class FakeTopic(InternalTopic):
    """An internal topic that is never created."""

    def __init__(self, name: str, created: list[str] | None) -> None:
        self.name = name
        self._created = [] if created is None else created

    def create(self) -> None:
        self._created.append(self.name)

    def missing(self) -> Refusal:
        return BEING_CREATED


def ask(
    *keys: str,
    key_type: int = CoordinatorType.GROUP,
    image: MetadataImage = IMAGE,
    listener: str = "GRPC",
    waited_for: list[list[str]] | None = None,
    created: list[str] | None = None,
) -> list[Coordinator]:
    """`waited_for` collects the topics whose lost leaders must be replaced first, `created` the new topics."""

    async def replaced(topics: Iterable[str]) -> None:
        if waited_for is not None:
            waited_for.append(list(topics))

    topics: dict[int, InternalTopic] = {
        CoordinatorType.GROUP: FakeTopic(OFFSETS_TOPIC, created),
        CoordinatorType.TRANSACTION: FakeTopic(TRANSACTIONS_TOPIC, created),
    }
    handler = FindCoordinatorHandler(lambda: image, listener, topics, replaced)
    return list(
        asyncio.run(handler.handle(FindCoordinatorRequest(key_type=key_type, coordinator_keys=keys))).coordinators
    )


def test_each_group_is_coordinated_where_its_partition_is_led() -> None:
    groups = [f"group-{number}" for number in range(20)]
    found = ask(*groups)
    assert [each.key for each in found] == groups
    leaders = {0: 1, 1: 2, 2: 3}
    assert [each.node_id for each in found] == [leaders[partition_of(group, 3)] for group in groups]
    assert {(each.node_id, each.host, each.port) for each in found} == {
        (1, "localhost", 9095),
        (2, "localhost", 9096),
        (3, "localhost", 9097),
    }


def test_each_transactional_id_is_coordinated_where_its_partition_is_led() -> None:
    ids = [f"id-{number}" for number in range(20)]
    found = ask(*ids, key_type=CoordinatorType.TRANSACTION, image=WITH_TRANSACTIONS)
    assert [each.node_id for each in found] == [{0: 3, 1: 1}[partition_of(each, 2)] for each in ids]
    assert {each.node_id for each in found} == {1, 3}


def test_the_topic_of_transactions_is_created_on_demand() -> None:
    created: list[str] = []
    waited_for: list[list[str]] = []
    (found,) = ask("id", key_type=CoordinatorType.TRANSACTION, created=created, waited_for=waited_for)
    assert (created, waited_for) == ([TRANSACTIONS_TOPIC], [[TRANSACTIONS_TOPIC]])
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_an_empty_transactional_id_has_no_coordinator() -> None:
    (found,) = ask("", key_type=CoordinatorType.TRANSACTION, image=WITH_TRANSACTIONS)
    assert found.error_code == ErrorCode.INVALID_REQUEST


def test_leaders_that_were_lost_are_replaced_first() -> None:
    waited_for: list[list[str]] = []
    ask("group", waited_for=waited_for)
    assert waited_for == [[OFFSETS_TOPIC]]


def test_the_topic_is_created_on_demand() -> None:
    created: list[str] = []
    (found,) = ask("group", image=cluster(1), created=created)
    assert created == [OFFSETS_TOPIC]
    assert found == coordinator(
        "group",
        node_id=-1,
        host="",
        port=-1,
        error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
        error_message="being created",
    )


def test_a_coordinator_that_clients_cannot_reach_is_not_named() -> None:
    without_leader = IMAGE
    for broker_id in (1, 2, 3):
        without_leader = without_leader.replay(
            [BrokerFenced(broker_id=BrokerId(broker_id), broker_epoch=epoch_of(IMAGE, broker_id))]
        )
    (found,) = ask("group", image=without_leader)
    assert (found.error_code, found.node_id, found.host) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "")
    assert "has no leader" in (found.error_message or "")
    (found,) = ask("group", listener="EXTERNAL")
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert "without a listener EXTERNAL" in (found.error_message or "")


@pytest.mark.parametrize(("key_type", "name"), [(CoordinatorType.SHARE, "share"), (3, "3"), (-1, "-1")])
def test_other_coordinators_are_refused_for_good(key_type: int, name: str) -> None:
    (found,) = ask("id", key_type=key_type)
    assert (found.error_code, found.node_id) == (ErrorCode.INVALID_REQUEST, -1)
    assert found.error_message == f"coordinators of type {name} are not supported"


def test_an_id_that_no_group_can_have_is_refused_and_the_others_are_found() -> None:
    refused, found = ask("g" * 40_000, "group")
    assert (refused.error_code, refused.node_id) == (ErrorCode.INVALID_GROUP_ID, -1)
    assert found.error_code == ErrorCode.NONE


# --- Kafka's protocol --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(4))
def test_earlier_versions_ask_for_one_coordinator(version: int) -> None:
    request = from_version(FindCoordinatorRequest(key="group"), version)
    assert request.coordinator_keys == ("group",)
    found = to_version(request, FindCoordinatorResponse(coordinators=(coordinator("group"),)), version)
    assert found == FindCoordinatorResponse(error_code=0, error_message="NONE", node_id=7, host="broker", port=9092)
    lost = coordinator("group", node_id=-1, host="", port=-1, error_code=15, error_message="no leader")
    found = to_version(request, FindCoordinatorResponse(coordinators=(lost,)), version)
    assert found == FindCoordinatorResponse(error_code=15, error_message="no leader", node_id=-1, host="", port=-1)


@pytest.mark.parametrize("version", range(4, 7))
def test_later_versions_ask_for_many(version: int) -> None:
    request = FindCoordinatorRequest(coordinator_keys=("a", "b"))
    assert from_version(request, version) is request
    found = FindCoordinatorResponse(coordinators=(coordinator("a"), coordinator("b")))
    assert to_version(request, found, version) is found


def coordinator(key: str, **fields: Any) -> Coordinator:
    found = {"node_id": 7, "host": "broker", "port": 9092, "error_code": 0, "error_message": "", **fields}
    return Coordinator(key=key, **found)
