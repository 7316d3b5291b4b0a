"""What the Kafka listener serves: each API beside the handler that answers it. A key is advertised only from here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from kraft.metadata.image import MetadataImage
from kraft.model import requests as values
from kraft.model.ids import BrokerId
from kraft.rpc.services import AdminHandlers, BrokerHandlers
from kraft.server.kafka_admin_apis import KafkaAdminHandlers, kafka_admin_apis
from kraft.server.kafka_listener.apis.api_versions import ApiVersionsApi
from kraft.server.kafka_listener.apis.fetch import FetchApi
from kraft.server.kafka_listener.apis.init_producer_id import InitProducerIdApi
from kraft.server.kafka_listener.apis.leaders import Leaders
from kraft.server.kafka_listener.apis.list_offsets import ListOffsetsApi
from kraft.server.kafka_listener.apis.metadata import MetadataApi
from kraft.server.kafka_listener.apis.offset_for_leader_epoch import OffsetForLeaderEpochApi
from kraft.server.kafka_listener.apis.produce import ProduceApi
from kraft.server.kafka_listener.fetch_sessions import FetchSessions
from kraft.server.kafka_listener.requests import Api
from kraft.wire.api_keys import ApiKey


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSurroundings:
    """What the APIs need besides handlers."""

    broker_id: BrokerId
    listener: str
    """The listener whose clients are answered."""

    image: Callable[[], MetadataImage]
    monotonic_ms: Callable[[], int]
    draw_session_id: Callable[[], int]


def kafka_apis(
    broker: BrokerHandlers,
    admin: AdminHandlers,
    only_here: KafkaAdminHandlers,
    offset_for_leader_epoch: Callable[
        [values.OffsetForLeaderEpochRequest], Awaitable[values.OffsetForLeaderEpochResponse]
    ],
    surroundings: KafkaSurroundings,
) -> Mapping[ApiKey, Api]:
    """`broker.metadata` is that of the same listener."""
    leaders = Leaders(surroundings.image, surroundings.listener)
    sessions = FetchSessions(surroundings.draw_session_id)
    apis: dict[ApiKey, Api] = {
        ApiKey.PRODUCE: ProduceApi(broker.produce, leaders),
        ApiKey.FETCH: FetchApi(broker.fetch, leaders, sessions, surroundings.monotonic_ms),
        ApiKey.LIST_OFFSETS: ListOffsetsApi(broker.list_offsets),
        ApiKey.METADATA: MetadataApi(broker.metadata, leaders, surroundings.broker_id),
        ApiKey.INIT_PRODUCER_ID: InitProducerIdApi(broker.init_producer_id, surroundings.monotonic_ms),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: OffsetForLeaderEpochApi(offset_for_leader_epoch),
        **kafka_admin_apis(
            broker,
            admin,
            only_here,
            broker_id=surroundings.broker_id,
            listener=surroundings.listener,
            image=surroundings.image,
        ),
    }
    keys = (*apis, ApiKey.API_VERSIONS)
    return {**apis, ApiKey.API_VERSIONS: ApiVersionsApi(keys, admin.cluster.describe_features)}
