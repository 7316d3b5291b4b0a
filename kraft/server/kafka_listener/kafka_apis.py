"""Table of all APIs of the Kafka listener, each with its handler. ApiVersions advertises exactly these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from kraft.metadata.image import MetadataImage
from kraft.model.endpoint import Endpoint
from kraft.model.features import DescribeFeaturesResponse
from kraft.model.ids import BrokerId
from kraft.server.handlers.broker_handlers import BrokerHandlers
from kraft.server.handlers.describe_features import describe_features
from kraft.server.kafka_listener.apis.api_versions import ApiVersionsApi
from kraft.server.kafka_listener.apis.leaders import Leaders
from kraft.server.kafka_listener.apis.metadata import MetadataApi
from kraft.server.kafka_listener.kafka_admin_apis import kafka_admin_apis
from kraft.server.kafka_listener.kafka_group_apis import kafka_group_apis
from kraft.server.kafka_listener.requests import Api
from kraft.wire.api_keys import ApiKey


class KafkaSurroundings(Struct, frozen=True, kw_only=True):
    """Everything that the APIs need besides handlers."""

    broker_id: BrokerId
    listener: str
    """Name of the listener that these APIs serve."""

    image: Callable[[], MetadataImage]
    index: Callable[[], int]
    """Index of the last metadata entry in the image."""

    fenced_lately: Callable[[], tuple[BrokerId, ...]]
    """Recently fenced brokers, which Metadata responses still list."""

    voters: Sequence[tuple[int, Endpoint]]
    """Node id and address of each controller."""


def kafka_apis(
    handlers: BrokerHandlers, surroundings: KafkaSurroundings, handled: Mapping[ApiKey, Api]
) -> Mapping[ApiKey, Api]:
    """Return all APIs of one listener: those of the table of APIs, which are `handled`, and the others.

    `handlers.metadata` belongs to the same listener.
    """
    leaders = Leaders(surroundings.image, surroundings.listener)
    apis: dict[ApiKey, Api] = {
        ApiKey.METADATA: MetadataApi(
            handlers.metadata.handle, leaders, surroundings.broker_id, surroundings.fenced_lately
        ),
        **kafka_group_apis(handlers.groups),
        **kafka_admin_apis(
            handlers,
            broker_id=surroundings.broker_id,
            listener=surroundings.listener,
            image=surroundings.image,
            voters=surroundings.voters,
        ),
    }
    assert not apis.keys() & handled.keys(), "an API is in the table or here"
    apis.update(handled)
    keys = (*apis, ApiKey.API_VERSIONS)

    def features() -> DescribeFeaturesResponse:
        return describe_features(surroundings.image(), surroundings.index())

    return {**apis, ApiKey.API_VERSIONS: ApiVersionsApi(keys, features)}
