"""What is created and deleted is counted in partitions, topic by topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraft.metadata.topic_deletion import delete_topics
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.request_context import RequestContext
from kraft.quotas.precedence import Client
from kraft.server.apis.mutations import CREATION, DELETION, MORE_PARTITIONS, CountedMutations, Mutations
from kraft.server.loop.throttling import Throttling
from kraft.wire.declaration import ZERO_UUID
from kraft.wire.schema.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from kraft.wire.schema.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kraft.wire.schema.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tests.support.cluster_images import ORDERS, cluster, with_topic
from tests.support.quotas import subject

IMAGE = with_topic(cluster(1), [1], [1], [1])
"""`orders` has three partitions."""


class Broker:
    """A client may change one partition in a second, and so eleven at once."""

    def __init__(self, mutations: Mutations[Any, Any], decide: Callable[[Any], Any]) -> None:
        self.forwarded: list[Any] = []
        self.now_ms = 0
        self.throttling = Throttling(lambda: self.now_ms)
        self.throttling.reconfigure({subject({"user": None}): {"controller_mutation_rate": 1.0}})
        self._decide = decide
        self._counted = CountedMutations(mutations, self.throttling, lambda: IMAGE, 4, self._forward)

    async def _forward(self, request: Any) -> Any:
        self.forwarded.append(request)
        return self._decide(request)

    async def ask(self, request: Any, version: int) -> Any:
        return await self._counted.handle(request, RequestContext(version=version))


def created(request: CreateTopicsRequest) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=tuple(
            CreatableTopicResult(
                name=each.name,
                error_code=ErrorCode.TOPIC_ALREADY_EXISTS if each.name == "there" else ErrorCode.NONE,
                error_message=None,
            )
            for each in request.topics
        )
    )


def creation(*topics: tuple[str, int]) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=tuple(
            CreatableTopic(name=name, num_partitions=count, replication_factor=1, assignments=(), configs=())
            for name, count in topics
        )
    )


def codes(response: CreateTopicsResponse) -> dict[str, int]:
    return {each.name: each.error_code for each in response.topics}


async def test_topics_that_begin_when_the_quota_is_used_up_are_refused_and_not_forwarded() -> None:
    broker = Broker(CREATION, created)
    response = await broker.ask(creation(("a", 10), ("b", 5), ("c", 1)), 6)
    assert codes(response) == {"a": 0, "b": 0, "c": ErrorCode.THROTTLING_QUOTA_EXCEEDED}
    assert response.throttle_time_ms == 4_000
    assert [each.name for each in broker.forwarded[0].topics] == ["a", "b"]
    refused = await broker.ask(creation(("c", 1)), 7)
    assert (codes(refused), len(broker.forwarded)) == ({"c": ErrorCode.THROTTLING_QUOTA_EXCEEDED}, 1)
    assert "in 4000 ms" in str(refused.topics[0].error_message)
    broker.now_ms = 4_000
    assert codes(await broker.ask(creation(("c", 1)), 7)) == {"c": 0}


async def test_what_an_older_client_asks_for_is_done_and_then_it_waits() -> None:
    broker = Broker(CREATION, created)
    response = await broker.ask(creation(("a", 10), ("b", 5), ("c", 1)), 5)
    assert codes(response) == {"a": 0, "b": 0, "c": 0}
    assert response.throttle_time_ms == 5_000


async def test_what_is_not_done_is_not_counted() -> None:
    broker = Broker(CREATION, created)
    assert (await broker.ask(creation(("there", 50)), 7)).throttle_time_ms == 0
    assert codes(await broker.ask(creation(("a", 1)), 7)) == {"a": 0}

    def refuse(_: object) -> None:
        raise Refusal(ErrorCode.REQUEST_TIMED_OUT, "no active controller")

    refusing = Broker(CREATION, refuse)
    with pytest.raises(Refusal):
        await refusing.ask(creation(("a", 50)), 7)
    with pytest.raises(Refusal):
        await refusing.ask(creation(("a", 50)), 7)


async def test_partitions_are_counted_as_they_will_be() -> None:
    broker = Broker(CREATION, created)
    placed = CreatableTopic(
        name="placed",
        num_partitions=-1,
        replication_factor=-1,
        assignments=(
            CreatableReplicaAssignment(partition_index=0, broker_ids=(1,)),
            CreatableReplicaAssignment(partition_index=1, broker_ids=(1,)),
        ),
        configs=(),
    )
    # Two that are placed, and four by default: twelve partitions, which are one too many.
    await broker.ask(CreateTopicsRequest(topics=(placed, *creation(("a", -1), ("b", 6)).topics)), 7)
    assert (await broker.ask(creation(("c", 1)), 7)).throttle_time_ms == 1_000


async def test_deletions_count_by_name_or_id_what_is_there() -> None:
    def deleted(request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        return DeleteTopicsResponse(
            responses=tuple(
                DeletableTopicResult(
                    name=each.name or "orders",
                    topic_id=each.topic_id,
                    error_code=ErrorCode.INVALID_REQUEST if each.topic_id == ORDERS else ErrorCode.NONE,
                )
                for each in request.topics
            )
        )

    broker = Broker(DELETION, deleted)
    by_name = DeleteTopicState(name="orders", topic_id=ZERO_UUID)
    by_id = DeleteTopicState(topic_id=ORDERS)
    unknown = DeleteTopicState(name="unknown", topic_id=ZERO_UUID)
    for _ in range(5):
        # It fails each time, and counts for nothing.
        await broker.ask(DeleteTopicsRequest(topics=(by_id,), timeout_ms=1), 6)
    assert (await broker.ask(DeleteTopicsRequest(topics=(unknown, by_name) * 4, timeout_ms=1), 6)).throttle_time_ms == 0
    refused = await broker.ask(DeleteTopicsRequest(topics=(by_id,), timeout_ms=1), 6)
    assert [(each.topic_id, each.error_code) for each in refused.responses] == [
        (ORDERS, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    ]
    assert refused.throttle_time_ms == 1_000


async def test_more_partitions_count_those_that_are_new() -> None:
    def grown(request: CreatePartitionsRequest) -> CreatePartitionsResponse:
        results = tuple(CreatePartitionsTopicResult(name=each.name, error_code=0) for each in request.topics)
        return CreatePartitionsResponse(results=results)

    broker = Broker(MORE_PARTITIONS, grown)
    asked = CreatePartitionsTopic(name="orders", count=15, assignments=None)
    fewer = CreatePartitionsTopic(name="orders", count=1, assignments=None)
    request = CreatePartitionsRequest(topics=(fewer, asked), timeout_ms=1, validate_only=False)
    assert (await broker.ask(request, 2)).throttle_time_ms == 1_000
    again = CreatePartitionsRequest(topics=(asked,), timeout_ms=1, validate_only=False)
    assert (await broker.ask(again, 3)).results[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED


async def test_a_request_that_names_a_topic_twice_gives_back_no_more_than_was_counted() -> None:
    by_id = DeleteTopicState(name=None, topic_id=ORDERS)
    by_name = DeleteTopicState(name="orders", topic_id=ZERO_UUID)
    for named in ((by_id, by_name), (by_name, by_name)):
        broker = Broker(DELETION, lambda request: delete_topics(IMAGE, request).response)
        broker.throttling.quotas.mutated(Client("ANONYMOUS", ""), 6, 0)
        response = await broker.ask(DeleteTopicsRequest(topics=named, timeout_ms=1_000), 6)
        assert [each.error_code for each in response.responses] == [ErrorCode.INVALID_REQUEST] * 2
        assert broker.throttling.quotas.mutated(Client("ANONYMOUS", ""), 6, 0) == 1_000, "five were left"
