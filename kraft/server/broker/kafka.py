"""Assembly: what all Kafka listeners share - fetch sessions, and the budget of waiting fetches."""

from __future__ import annotations

from collections.abc import Mapping

from kraft.model.endpoint import Endpoint
from kraft.server.broker.metadata import BrokerMetadata
from kraft.server.config.node_config import NodeConfig
from kraft.server.config.values import CONTROLLER
from kraft.server.handlers.broker_handlers import BrokerHandlers
from kraft.server.identity.world import NodeWorld
from kraft.server.kafka_listener.apis.fetch import WAITING_PARTITIONS_MAX
from kraft.server.kafka_listener.fetch_sessions import FETCH_SESSION_ID_MAX, FetchSessions, SharedFetches
from kraft.server.kafka_listener.kafka_apis import KafkaSurroundings, kafka_apis
from kraft.server.kafka_listener.requests import Api
from kraft.server.loop.budget import Budget
from kraft.wire.api_keys import ApiKey


class KafkaListeners:
    def __init__(self, config: NodeConfig, world: NodeWorld, metadata: BrokerMetadata) -> None:
        self._config = config
        self._metadata = metadata
        self.fetches = SharedFetches(
            FetchSessions(lambda: 1 + int.from_bytes(world.entropy.bytes(4), "big") % FETCH_SESSION_ID_MAX),
            Budget(WAITING_PARTITIONS_MAX),
            world.clock.monotonic_ms,
        )

    def apis(self, listener: str, handlers: BrokerHandlers, handled: Mapping[ApiKey, Api]) -> Mapping[ApiKey, Api]:
        """Return all APIs of one listener; `handled` are those of the table."""
        return kafka_apis(
            handlers,
            KafkaSurroundings(
                broker_id=self._config.node_id,
                listener=listener,
                image=self._metadata.image,
                index=self._metadata.published_index,
                fenced_lately=self._metadata.fenced_lately.brokers,
                voters=[
                    (voter.node_id, Endpoint(listener=CONTROLLER, host=voter.host, port=voter.port))
                    for voter in self._config.quorum.voters
                ],
            ),
            handled,
        )
