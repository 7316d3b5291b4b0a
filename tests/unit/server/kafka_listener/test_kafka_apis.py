"""One test for each API and version that is advertised to clients: each is decoded, handled and answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Mapping
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, cast

import pytest

from kraft.model.errors import ErrorCode
from kraft.server.broker.broker_node import BrokerNode
from kraft.server.cluster.controller_client import ControllerClient, NoController
from kraft.server.kafka_listener.answering import CloseConnection
from kraft.server.kafka_listener.requests import Api, KafkaRequests
from kraft.wire.api_keys import ApiKey, request_type, response_type
from kraft.wire.api_versions import advertised_versions
from kraft.wire.declaration import Struct
from kraft.wire.frame import decode_response, encode_request, encode_response
from kraft.wire.schema import WITHOUT_HANDLER
from kraft.wire.schema.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kraft.wire.schema.produce import ProduceRequest
from tests.support.cluster_images import cluster, with_topic
from tests.support.random_messages import random_message
from tests.support.server.broker_nodes import broker

pytestmark = pytest.mark.real_time

SEED = 6
REQUESTS_A_VERSION = 3
DEADLINE_S = 60.0

REFUSED = {(ApiKey.PRODUCE, version) for version in range(3)}
"""Advertised for librdkafka's sake, and refused: the connection closes."""

ANSWERED_BY_NAME = {
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.DELETE_RECORDS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.LIST_OFFSETS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.PRODUCE,
}
"""Each answers for everything that a request names, whether it is there or not."""


class _NobodyActs:
    """Controllers of which none is active: requests are refused after they were decoded."""

    active_id = -1

    async def call(self, *_: object) -> Any:
        raise NoController("no controller is active")

    async def ask_each(self, *_: object) -> dict[int, None]:
        return {}

    def active_peer(self) -> None:
        return None


def node(directory: Path) -> BrokerNode:
    made = broker(directory, "fsync", stopped_cleanly=True)
    made.metadata.loader.image = with_topic(cluster(1, 4), [4], [1])
    nobody = cast(ControllerClient, _NobodyActs())
    made.metadata.controllers = made.coordinators.transactions.producer_ids._controllers = nobody
    return made


def served_apis() -> list[ApiKey]:
    """The APIs of a broker as it is assembled; they do not depend on its state."""

    async def scenario(directory: str) -> list[ApiKey]:
        return sorted(node(Path(directory)).apis.kafka_apis("PLAINTEXT"))

    with TemporaryDirectory() as directory:
        return asyncio.run(scenario(directory))


def advertised_pairs() -> Iterator[tuple[ApiKey, int]]:
    for key in served_apis():
        for version in advertised_versions(key):
            yield key, version


PAIRS = list(advertised_pairs())


@pytest.mark.parametrize(("key", "version"), PAIRS, ids=[f"{key.name}-{version}" for key, version in PAIRS])
async def test_every_advertised_version_of_every_api_is_answered(key: ApiKey, version: int, tmp_path: Path) -> None:
    apis = node(tmp_path).apis.kafka_apis("PLAINTEXT")
    if (key, version) in REFUSED:
        await check_refused(apis, version)
        return
    chance = Random(f"{SEED} {key.name} {version}")
    for number in range(REQUESTS_A_VERSION):
        request = random_message(request_type(key), version, chance)
        if isinstance(request, ProduceRequest):
            request = ProduceRequest(acks=1, timeout_ms=100, topic_data=request.topic_data)
        if isinstance(request, ApiVersionsRequest) and number:
            request = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
        frame = memoryview(b"".join(encode_request(request, version, number, "tester")))[4:]
        begun = KafkaRequests(apis, "10.0.0.7:5100").begin(frame)
        async with asyncio.timeout(DEADLINE_S):
            answer = b"".join(await begun if isinstance(begun, Awaitable) else begun)
        correlation_id, response = decode_response(response_type(key), version, memoryview(answer)[4:])
        assert correlation_id == number
        # Nothing stands behind the message, and nothing in it was passed over.
        assert b"".join(encode_response(response, version, number)) == answer
        assert ("error_code", ErrorCode.UNKNOWN_SERVER_ERROR) not in fields_of(response)
        if key in ANSWERED_BY_NAME:
            assert names_in(response) == names_in(request)


def names_in(message: Struct) -> set[object]:
    return {value for name, value in fields_of(message) if name in ("name", "topic", "resource_name")}


def fields_of(message: Struct) -> Iterator[tuple[str, object]]:
    """Name and value of every field of the message and of all that is in it."""
    for field in type(message).fields:
        value = getattr(message, field.name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Struct):
                yield from fields_of(item)
            else:
                yield field.name, item


async def check_refused(apis: Mapping[ApiKey, Api], version: int) -> None:
    frame = memoryview(b"\x00\x00" + version.to_bytes(2, "big") + b"\x00\x00\x00\x01\xff\xff" + bytes(20))
    with pytest.raises(CloseConnection, match=f"version {version} of PRODUCE"):
        KafkaRequests(apis, "").begin(frame)


def test_every_declared_api_is_served_or_named_as_without_a_handler() -> None:
    served = [key.name.lower() for key in served_apis()]
    without_handler = [name for names in WITHOUT_HANDLER.values() for name in names]
    assert sorted(served + without_handler) == sorted(key.name.lower() for key in ApiKey)


async def test_what_is_advertised_is_what_is_served(tmp_path: Path) -> None:
    apis = node(tmp_path).apis.kafka_apis("PLAINTEXT")
    request = encode_request(ApiVersionsRequest(), 0, 1, "tester")
    begun = KafkaRequests(apis, "").begin(memoryview(b"".join(request))[4:])
    assert isinstance(begun, Awaitable)
    _, response = decode_response(ApiVersionsResponse, 0, memoryview(b"".join(await begun))[4:])
    assert [each.api_key for each in response.api_keys] == sorted(apis)
    assert {
        (ApiKey(each.api_key), version)
        for each in response.api_keys
        for version in range(each.min_version, each.max_version + 1)
    } == set(PAIRS)
