"""An API as a client sees it: takes a request as bytes of its version, and returns the response decoded from bytes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast
from uuid import UUID

from kraft.metadata.image import MetadataImage
from kraft.model.ids import TopicPartition
from kraft.server.kafka_listener.apis.leaders import Leaders
from kraft.server.kafka_listener.requests import Api, ConnectionContext, KafkaRequests
from kraft.server.replica.partitions import Partitions
from kraft.wire.api_keys import ApiKey, response_type
from kraft.wire.declaration import ZERO_UUID, Message
from kraft.wire.frame import decode_response, encode_request
from tests.support.cluster_images import ORDERS, cluster, with_topic

R = TypeVar("R", bound=Message)

UNKNOWN_ID = UUID(int=404)

LISTENER = "GRPC"
"""Name of the only listener of the brokers in these tests."""

IMAGE = with_topic(cluster(1, 2), [1, 2], [1, 2], [2, 1])
"""`orders`: its first two partitions are led by broker 1, the third by broker 2."""


async def ask(api: Api, request: Message, version: int, response: type[R]) -> R | None:
    """Return the response as the client decodes it; None if there is none. Raises CloseConnection."""
    key = ApiKey(type(request).message_key)
    assert response_type(key) is response
    frame = memoryview(bytearray(b"".join(encode_request(request, version, 77, "tester"))))[4:]
    begun = KafkaRequests({key: api}, "10.0.0.7:5100").begin(frame)
    # The receive buffer is used for other requests as soon as `begin` has returned.
    frame[:] = bytes(len(frame))
    answer = await begun if isinstance(begun, Awaitable) else begun
    if not answer:
        return None
    correlation_id, decoded = decode_response(response, version, memoryview(b"".join(answer))[4:])
    assert correlation_id == 77
    return decoded


async def called(api: Api, request: Message, call: ConnectionContext, response: type[R]) -> R:
    """Call the API itself; return its response."""
    begun = api(request, call)
    answer = await begun if isinstance(begun, Awaitable) else begun
    assert isinstance(answer, response)
    return answer


async def answered(api: Api, request: Message, version: int, response: type[R]) -> R:
    decoded = await ask(api, request, version, response)
    assert decoded is not None, "there was to be an answer"
    return decoded


def leaders(image: MetadataImage = IMAGE) -> Leaders:
    return Leaders(lambda: image, LISTENER)


def partitions_of(image: MetadataImage = IMAGE) -> Partitions:
    """The partitions of a broker, which looks up in the metadata what exists."""

    def exists(name: TopicPartition) -> bool:
        topic = image.topic(name.topic)
        return topic is not None and name.partition in topic.partitions

    return Partitions(exists)


def versions_of(request: type[Message]) -> list[int]:
    return list(request.versions)


def topic_named(struct: Callable[..., Any], by_id: bool, name: str, topic_id: UUID, field: str, **fields: Any) -> Any:
    """Return a struct that names its topic by id or by name, as its version does."""
    return struct(**{"topic_id": topic_id} if by_id else {field: name, "topic_id": ZERO_UUID}, **fields)


def id_of(name: str) -> UUID:
    return cast(UUID, ORDERS) if name == "orders" else UNKNOWN_ID
