"""Metadata: the brokers in service, and topics with their leaders, from the metadata that this broker has applied."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from msgspec.structs import replace

from kraft.metadata.image import MetadataImage
from kraft.metadata.new_topics import new_topic
from kraft.model.errors import ErrorCode, Refusal, error_code
from kraft.model.metadata import BrokerEndpoint, MetadataRequest, MetadataResponse, TopicMetadata
from kraft.rpc.call import Served
from kraft.rpc.calls import METADATA
from kraft.rpc.topic_calls import CREATE_TOPICS
from kraft.server.cluster.controller_client import ControllerClient, NoController
from kraft.server.cluster.metadata_loader import MetadataLoader
from kraft.server.config.components import TopicDefaults
from kraft.server.coordinator.internal_topic import InternalTopic
from kraft.server.handlers.describe_topics import topic_metadata, unknown_topic
from kraft.server.loop.turns import Turns
from kraft.wire.schema.create_topics import CreatableTopic, CreateTopicsRequest

AUTO_CREATE_TIMEOUT_MS = 5_000

PARTITIONS_AT_ONCE = 500
"""Partitions described before other tasks have their turn: a request for 50,000 must not delay other clients."""

CREATED_AT_ONCE = 100
"""Topics that one request has created, whose decision is one piece of work for the controller. For the others, clients
ask again.
"""


class MetadataHandler:
    """Answers the clients of `listener` with that listener's addresses."""

    def __init__(
        self,
        loader: MetadataLoader,
        controllers: ControllerClient,
        defaults: TopicDefaults,
        listener: str,
        known_to_lead: Callable[[Iterable[str]], Awaitable[None]],
        internal_topics: Iterable[InternalTopic],
    ) -> None:
        """`known_to_lead` waits briefly until the leaders of these topics have answered, or those lost are replaced.

        `internal_topics` are created as they plan it.
        """
        self._loader = loader
        self._controllers = controllers
        self._defaults = defaults
        self._listener = listener
        self._known_to_lead = known_to_lead
        self._internal_topics = {each.name: each for each in internal_topics}

    async def handle(self, request: MetadataRequest) -> MetadataResponse:
        if not request.all_topics:
            await self._known_to_lead(request.topics)
        image = self._loader.image
        # A topic that is named twice is described once.
        names = sorted(image.topic_ids) if request.all_topics else list(dict.fromkeys(request.topics))
        missing = [name for name in names if image.topic(name) is None]
        if missing and request.allow_auto_topic_creation and self._defaults.auto_create_enabled:
            created = await self._create(missing[:CREATED_AT_ONCE])
            for name in missing[CREATED_AT_ONCE:]:
                created[name] = _topic_error(
                    name, ErrorCode.LEADER_NOT_AVAILABLE, "others are created first; ask again"
                )
        else:
            created = {}
        return MetadataResponse(
            cluster_id=image.cluster_id,
            controller_id=self._controllers.active_id,
            brokers=self._brokers(image),
            topics=await self._topics(image, names, created),
        )

    def _brokers(self, image: MetadataImage) -> list[BrokerEndpoint]:
        return [
            BrokerEndpoint(broker_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            for broker in image.alive_brokers()
            if (endpoint := broker.endpoint(self._listener)) is not None
        ]

    async def _topics(
        self, image: MetadataImage, names: list[str], created: dict[str, TopicMetadata]
    ) -> list[TopicMetadata]:
        turns, topics = Turns(PARTITIONS_AT_ONCE), []
        for name in names:
            topics.append(self._topic(image, name, created))
            await turns.done(1 + len(topics[-1].partitions))
        return topics

    def _topic(self, image: MetadataImage, name: str, created: dict[str, TopicMetadata]) -> TopicMetadata:
        topic = image.topic(name)
        if topic is not None:
            return topic_metadata(image, topic)
        return created.get(name) or unknown_topic(name)

    async def _create(self, names: list[str]) -> dict[str, TopicMetadata]:
        """Create topics and return their metadata: LEADER_NOT_AVAILABLE while in creation, which clients retry."""
        request = CreateTopicsRequest(
            topics=tuple(self._planned(name) for name in names),
            timeout_ms=AUTO_CREATE_TIMEOUT_MS,
        )
        try:
            response = await self._controllers.call(CREATE_TOPICS, request, AUTO_CREATE_TIMEOUT_MS / 1_000)
        except (NoController, Refusal) as error:
            return {name: _topic_error(name, ErrorCode.LEADER_NOT_AVAILABLE, str(error)) for name in names}
        answers = {}
        for result in response.topics:
            in_creation = result.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
            code = ErrorCode.LEADER_NOT_AVAILABLE if in_creation else error_code(result.error_code)
            answers[result.name] = _topic_error(result.name, code, result.error_message or "")
        return answers

    def _planned(self, name: str) -> CreatableTopic:
        internal = self._internal_topics.get(name)
        return new_topic(name) if internal is None else internal.plan()

    def served(self) -> list[Served]:
        return [METADATA.served_by(self.handle)]


def _topic_error(name: str, code: ErrorCode, message: str) -> TopicMetadata:
    return replace(unknown_topic(name), error_code=code, error_message=message)
