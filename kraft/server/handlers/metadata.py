"""Metadata: the brokers in service, and topics with their leaders, from the metadata that this broker has applied.

Topics are asked for by name, by id, or all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Hashable, Iterable, Sequence
from typing import Final

from kraft.metadata.image import CurrentImage, MetadataImage, PartitionImage, TopicImage
from kraft.metadata.new_topics import new_topic
from kraft.metadata.topic_names import INTERNAL_TOPICS, unknown_topic
from kraft.model.errors import ErrorCode, Refusal, error_code
from kraft.model.ids import NO_BROKER, BrokerId
from kraft.model.request_context import RequestContext
from kraft.rpc.topic_calls import CREATE_TOPICS
from kraft.server.cluster.controller_client import ControllerClient, NoController
from kraft.server.cluster.fenced_lately import ListedBrokers
from kraft.server.cluster.leader_checks import KnownToLead
from kraft.server.config.node_config import NodeConfig
from kraft.server.coordinator.internal_topic import InternalTopic
from kraft.server.handlers.authorized_operations import NOT_ASKED, ON_CLUSTER, ON_TOPIC
from kraft.server.handlers.describe_cluster import ControllerAmong
from kraft.server.loop.turns import Turns
from kraft.wire.declaration import ZERO_UUID, replace
from kraft.wire.schema.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kraft.wire.schema.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

AUTO_CREATE_TIMEOUT_MS: Final = 5_000

PARTITIONS_AT_ONCE: Final = 500
"""Partitions described before other tasks have their turn: a request for 50,000 must not delay other clients."""

CREATED_AT_ONCE: Final = 100
"""Topics that one request has created, whose decision is one piece of work for the controller. For the others, clients
ask again.
"""

NO_CONTEXT: Final = RequestContext(version=0)

_NULL_NAMES_FROM: Final = 12
_LISTENER_NOT_FOUND_FROM: Final = 6


CreationNoted = Callable[[RequestContext, str, int], None]
"""Notes what became of a topic that was created, or was not, because a client asked for it."""


class MetadataHandler:
    """Answers the clients of `listener` with that listener's addresses."""

    def __init__(
        self,
        image: CurrentImage,
        controllers: ControllerClient,
        config: NodeConfig,
        listener: str,
        *,
        controller: ControllerAmong,
        listed_though_fenced: ListedBrokers,
        known_to_lead: KnownToLead,
        internal_topics: Iterable[InternalTopic],
        creation_noted: CreationNoted | None = None,
    ) -> None:
        """`internal_topics` are created as they plan it."""
        self._creation_noted = creation_noted
        self._image = image
        self._controllers = controllers
        self._defaults = config.topics
        self._listener = listener
        self._controller = controller
        self._listed_though_fenced = listed_though_fenced
        self._known_to_lead = known_to_lead
        self._internal_topics = {each.name: each for each in internal_topics}
        self._creations: set[asyncio.Task[CreateTopicsResponse]] = set()

    async def handle(self, request: MetadataRequest, context: RequestContext = NO_CONTEXT) -> MetadataResponse:
        named = [(asked, self._name(asked)) for asked in request.topics or ()]
        # A topic that is named twice is described once.
        names = list(dict.fromkeys(name for _, name in named if name is not None))
        if names:
            await self._known_to_lead(names)
        image = self._image()
        created = await self._created(request, context, [name for name in names if image.topic(name) is None])
        in_service = self._brokers(image, (broker.broker_id for broker in image.alive_brokers()))
        operations = ON_TOPIC if request.include_topic_authorized_operations else NOT_ASKED
        describe = _Described(image, in_service, operations)
        turns, topics = Turns(PARTITIONS_AT_ONCE), []
        for name in sorted(image.topic_ids) if request.topics is None else names:
            topics.append(describe.topic(name) or describe.missing(name, created.get(name) or unknown_topic(name)))
            await turns.done(1 + len(topics[-1].partitions))
        brokers = self._brokers(image, self._listed_though_fenced()) | in_service
        return MetadataResponse(
            brokers=tuple(brokers[each] for each in sorted(brokers)),
            cluster_id=image.cluster_id,
            controller_id=self._controller(in_service),
            topics=(*topics, *(_unknown_id(asked) for asked, name in named if name is None)),
            cluster_authorized_operations=ON_CLUSTER if request.include_cluster_authorized_operations else NOT_ASKED,
        )

    def _name(self, asked: MetadataRequestTopic) -> str | None:
        """Return the topic's name; None if no topic has the id."""
        if asked.name is not None:
            return asked.name
        found = self._image().topic_by_id(asked.topic_id)
        return None if found is None else found.topic

    def _brokers(self, image: MetadataImage, broker_ids: Iterable[BrokerId]) -> dict[int, MetadataResponseBroker]:
        """Return those of the brokers that are registered and have this listener."""
        return {
            broker_id: MetadataResponseBroker(
                node_id=broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack or None
            )
            for broker_id in broker_ids
            if (broker := image.broker(broker_id)) is not None
            and (endpoint := broker.endpoint(self._listener)) is not None
        }

    async def _created(
        self, request: MetadataRequest, context: RequestContext, missing: list[str]
    ) -> dict[str, Refusal]:
        """Create the missing topics if that is wanted and enabled; return what clients are told about them.

        That is LEADER_NOT_AVAILABLE while they are in creation: clients ask again.
        """
        if not (missing and request.allow_auto_topic_creation and self._defaults.auto_create_enabled):
            return {}
        retry = ErrorCode.LEADER_NOT_AVAILABLE
        later = Refusal(retry, f"one request has {CREATED_AT_ONCE} topics created: ask again for this one")
        answers = dict.fromkeys(missing[CREATED_AT_ONCE:], later)
        # A client that disconnects has them created nevertheless, and that has to be noted.
        task = asyncio.ensure_future(self._create(context, missing[:CREATED_AT_ONCE]))
        self._creations.add(task)
        task.add_done_callback(self._creations.discard)
        try:
            response = await asyncio.shield(task)
        except (NoController, Refusal) as error:
            return answers | dict.fromkeys(missing[:CREATED_AT_ONCE], Refusal(retry, str(error)))
        for result in response.topics:
            in_creation = result.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
            code = retry if in_creation else error_code(result.error_code)
            answers[result.name] = Refusal(code, result.error_message or "")
        return answers

    async def _create(self, context: RequestContext, names: Sequence[str]) -> CreateTopicsResponse:
        topics = tuple(map(self._planned, names))
        creation = CreateTopicsRequest(topics=topics, timeout_ms=AUTO_CREATE_TIMEOUT_MS)
        try:
            response = await self._controllers.call(CREATE_TOPICS, creation, AUTO_CREATE_TIMEOUT_MS / 1_000)
        except (NoController, Refusal) as error:
            # They may have been created nevertheless.
            code = error.error_code if isinstance(error, Refusal) else ErrorCode.REQUEST_TIMED_OUT
            self._note(context, ((name, code) for name in names))
            raise
        self._note(context, ((result.name, result.error_code) for result in response.topics))
        return response

    def _note(self, context: RequestContext, results: Iterable[tuple[str, int]]) -> None:
        if self._creation_noted is None:
            return
        for name, code in results:
            # Of one that is there already somebody else's request has a line.
            if code != ErrorCode.TOPIC_ALREADY_EXISTS:
                self._creation_noted(context, name, code)

    def _planned(self, name: str) -> CreatableTopic:
        internal = self._internal_topics.get(name)
        return new_topic(name) if internal is None else internal.plan()


class _Described:
    """Topics as an image has them, for clients that reach these brokers."""

    def __init__(self, image: MetadataImage, reachable: Container[int], operations: int) -> None:
        self._image = image
        self._alive = {broker.broker_id for broker in image.alive_brokers()}
        self._reachable = reachable
        self._operations = operations

    def topic(self, name: str) -> MetadataResponseTopic | None:
        topic = self._image.topic(name)
        return None if topic is None else self._topic(topic)

    def missing(self, name: str, refusal: Refusal) -> MetadataResponseTopic:
        return MetadataResponseTopic(
            error_code=refusal.error_code,
            name=name,
            topic_id=ZERO_UUID,
            is_internal=name in INTERNAL_TOPICS,
            partitions=(),
            topic_authorized_operations=self._operations,
            error_message=refusal.message,
        )

    def _topic(self, topic: TopicImage) -> MetadataResponseTopic:
        return MetadataResponseTopic(
            error_code=ErrorCode.NONE,
            name=topic.topic,
            topic_id=topic.topic_id,
            is_internal=topic.topic in INTERNAL_TOPICS,
            partitions=tuple([self._partition(state) for _, state in sorted(topic.partitions.items())]),
            topic_authorized_operations=self._operations,
        )

    def _partition(self, state: PartitionImage) -> MetadataResponsePartition:
        leader_id, code = state.leader, ErrorCode.NONE
        if leader_id < 0:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        elif leader_id not in self._reachable:
            # It has no listener of the name that the client uses.
            leader_id, code = NO_BROKER, ErrorCode.LISTENER_NOT_FOUND
        return MetadataResponsePartition(
            error_code=code,
            partition_index=state.partition,
            leader_id=leader_id,
            leader_epoch=state.leader_epoch,
            replica_nodes=tuple(state.replicas),
            isr_nodes=tuple(state.isr),
            offline_replicas=self._offline(state.replicas),
        )

    def _offline(self, replicas: Sequence[BrokerId]) -> tuple[BrokerId, ...]:
        if self._alive.issuperset(replicas):
            return ()
        return tuple([broker_id for broker_id in replicas if broker_id not in self._alive])


def _unknown_id(asked: MetadataRequestTopic) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id, partitions=()
    )


# --- only in Kafka's protocol ------------------------------------------------------------------------------------


def reused_for(request: MetadataRequest, listed_though_fenced: Hashable) -> Hashable | None:
    """Return what the description of all topics depends on besides the metadata; None for a request that names some."""
    if request.topics is not None:
        return None
    operations = (request.include_cluster_authorized_operations, request.include_topic_authorized_operations)
    return (*operations, listed_though_fenced)


def from_version(request: MetadataRequest, version: int) -> MetadataRequest:
    # In version 0 an empty list means every topic; later versions use null for that.
    return replace(request, topics=None) if version == 0 and not request.topics else request


def to_version(_: MetadataRequest, response: MetadataResponse, version: int) -> MetadataResponse:
    if version >= _NULL_NAMES_FROM:
        return response
    return replace(response, topics=tuple(_topic_to_version(topic, version) for topic in response.topics))


def _topic_to_version(topic: MetadataResponseTopic, version: int) -> MetadataResponseTopic:
    partitions = topic.partitions
    if version < _LISTENER_NOT_FOUND_FROM:
        partitions = tuple(map(_known_to_old_clients, partitions))
    return replace(topic, name=topic.name or "", partitions=partitions)


def _known_to_old_clients(partition: MetadataResponsePartition) -> MetadataResponsePartition:
    is_unknown = partition.error_code == ErrorCode.LISTENER_NOT_FOUND
    return replace(partition, error_code=ErrorCode.LEADER_NOT_AVAILABLE) if is_unknown else partition
