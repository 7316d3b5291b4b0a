"""Puts the quota of changes to topics around their handlers: partitions that are created or deleted (KIP-599).

Topics are counted one by one, in the order of the request. A client of a version that knows the error
THROTTLING_QUOTA_EXCEEDED gets it for those that begin when its quota is used up, and they are not forwarded to the
controller. What an older one asks for is done, and then it has to wait.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

from kraft.metadata.image import MetadataImage
from kraft.metadata.partition_creation import refused_partitions
from kraft.metadata.topic_decisions import refused_topic
from kraft.metadata.topic_deletion import refused_deletion
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.request_context import RequestContext
from kraft.quotas.precedence import Client
from kraft.server.loop.throttling import Throttling
from kraft.wire.declaration import Message, replace
from kraft.wire.schema.create_partitions import CreatePartitionsResponse, CreatePartitionsTopic
from kraft.wire.schema.create_topics import CreatableTopic, CreateTopicsResponse
from kraft.wire.schema.delete_topics import DeleteTopicsResponse, DeleteTopicState

Item = TypeVar("Item")
Result = TypeVar("Result")


class Mutations(Struct, Generic[Item, Result], frozen=True, kw_only=True):
    """What an API changes: the topics in its requests, and how many partitions each of them stands for."""

    results: str
    """Name of the response's field with a result for each topic. The request's is `topics`."""

    response: type[Message]

    strict_from: int
    """First version whose clients know the error."""

    partitions: Callable[[MetadataImage, Item, int], int]
    """Takes the partitions that a topic has by default, too."""

    item_key: Callable[[Item], Hashable]
    result_keys: Callable[[Result], tuple[Hashable, ...]]
    """The keys that its item may have."""

    refused: Callable[[Item, Refusal], Result]


class CountedMutations:
    """The handler of such an API."""

    def __init__(
        self,
        mutations: Mutations[Any, Any],
        throttling: Throttling,
        image: Callable[[], MetadataImage],
        partitions_by_default: int,
        handle: Callable[[Any], Awaitable[Any]],
    ) -> None:
        self._mutations = mutations
        self._throttling = throttling
        self._quotas = throttling.quotas
        self._image = image
        self._partitions_by_default = partitions_by_default
        self._handle = handle

    async def handle(self, request: Any, call: RequestContext) -> Any:
        if not self._quotas.has_any:
            return await self._handle(request)
        client, mutations = Client(call.principal.name, call.client_id), self._mutations
        allowed: list[Any] = []
        refused: list[Any] = []
        counts: dict[Hashable, int] = {}
        wait_ms = 0
        for item in request.topics:
            before_ms = self._quotas.mutation_wait_ms(client, self._throttling.now_ms())
            if before_ms and call.version >= mutations.strict_from:
                wait_ms = max(wait_ms, before_ms)
                refused.append(mutations.refused(item, _exceeded(before_ms)))
                continue
            count = max(0, mutations.partitions(self._image(), item, self._partitions_by_default))
            key = mutations.item_key(item)
            counts[key] = counts.get(key, 0) + count
            after_ms = self._quotas.mutated(client, count, self._throttling.now_ms())
            if call.version < mutations.strict_from:
                wait_ms = max(wait_ms, after_ms)
            allowed.append(item)
        if refused and not allowed:
            return self._answer(mutations.response(**{mutations.results: ()}), refused, wait_ms)
        try:
            response = await self._handle(replace(request, topics=tuple(allowed)) if refused else request)
        except Refusal:
            self._quotas.mutated(client, -sum(counts.values()), self._throttling.now_ms())
            raise
        # Each is given back once: a topic that is named by its name and by its id has two results with that name.
        failed = (
            counts.pop(key, 0)
            for result in getattr(response, mutations.results)
            if result.error_code != ErrorCode.NONE
            for key in mutations.result_keys(result)
        )
        self._quotas.mutated(client, -sum(failed), self._throttling.now_ms())
        return self._answer(response, refused, wait_ms) if wait_ms else response

    def _answer(self, response: Any, refused: list[Any], wait_ms: int) -> Any:
        results = (*getattr(response, self._mutations.results), *refused)
        return replace(response, throttle_time_ms=wait_ms, **{self._mutations.results: results})


def _exceeded(wait_ms: int) -> Refusal:
    return Refusal(
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        f"the quota controller_mutation_rate is used up: try again in {wait_ms} ms",
    )


def _created(_: MetadataImage, topic: CreatableTopic, by_default: int) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return by_default if topic.num_partitions < 0 else topic.num_partitions


def _deleted(image: MetadataImage, topic: DeleteTopicState, _: int) -> int:
    found = image.topic_by_id(topic.topic_id) if topic.name is None else image.topic(topic.name)
    return 0 if found is None else len(found.partitions)


def _added(image: MetadataImage, topic: CreatePartitionsTopic, _: int) -> int:
    found = image.topic(topic.name)
    return 0 if found is None else topic.count - len(found.partitions)


CREATION: Final = Mutations(
    results="topics",
    response=CreateTopicsResponse,
    strict_from=6,
    partitions=_created,
    item_key=lambda topic: topic.name,
    result_keys=lambda result: (result.name,),
    refused=lambda topic, refusal: refused_topic(topic.name, refusal),
)
DELETION: Final = Mutations(
    results="responses",
    response=DeleteTopicsResponse,
    strict_from=5,
    partitions=_deleted,
    item_key=lambda topic: topic.topic_id if topic.name is None else topic.name,
    # A result has both where the topic was found.
    result_keys=lambda result: (result.name, result.topic_id),
    refused=refused_deletion,
)
MORE_PARTITIONS: Final = Mutations(
    results="results",
    response=CreatePartitionsResponse,
    strict_from=3,
    partitions=_added,
    item_key=lambda topic: topic.name,
    result_keys=lambda result: (result.name,),
    refused=refused_partitions,
)
