"""What clients say about themselves is kept with their connection, and bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from types import SimpleNamespace
from typing import Any

from kraft.model.clients import TEXT_CHARACTERS_MAX, ClientWords
from kraft.model.principal import Principal
from kraft.server.apis.cluster import CLUSTER_APIS
from kraft.server.kafka_listener.handled import HandledApi
from kraft.server.kafka_listener.requests import KafkaRequests
from kraft.wire.api_keys import ApiKey
from kraft.wire.frame import encode_request
from kraft.wire.schema.api_versions import ApiVersionsRequest
from tests.support.cluster_images import cluster

ALICE = Principal("alice")


def connection() -> KafkaRequests:
    (row,) = (each for each in CLUSTER_APIS if each.key is ApiKey.API_VERSIONS)
    # Of a broker, only these are there.
    side: Any = SimpleNamespace(served_keys=[ApiKey.API_VERSIONS], image=lambda: cluster(1), index=lambda: 41)
    api = HandledApi(ApiKey.API_VERSIONS, row.handler(side), takes_context=row.takes_context, to_version=row.to_version)
    return KafkaRequests({ApiKey.API_VERSIONS: api}, "10.0.0.7:5100", principal=ALICE)


def ask(requests: KafkaRequests, version: int, client_id: str, name: str = "", of_software: str = "") -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=of_software)

    async def answered() -> None:
        begun = requests.begin(memoryview(b"".join(encode_request(request, version, 1, client_id)))[4:])
        if isinstance(begun, Awaitable):
            await begun

    asyncio.run(answered())


def words(client_id: str, name: str = "", version: str = "") -> ClientWords:
    return ClientWords(principal=ALICE, client_id=client_id, software_name=name, software_version=version)


def test_a_client_names_its_software_from_version_3_on() -> None:
    requests = connection()
    assert requests.client() == words("")
    ask(requests, 2, "old")
    assert requests.client() == words("old")
    ask(requests, 3, "new", "librdkafka", "2.6.1")
    assert requests.client() == words("new", "librdkafka", "2.6.1")
    ask(requests, 0, "again")
    assert requests.client() == words("again", "librdkafka", "2.6.1"), "it says nothing new of its software"


def test_a_name_that_is_refused_is_not_kept() -> None:
    requests = connection()
    ask(requests, 3, "odd", "-no name-", "1")
    assert requests.client() == words("odd")


def test_of_very_long_texts_the_beginning_is_kept() -> None:
    requests = connection()
    ask(requests, 3, "c" * 30_000, "n" * 30_000, "1" * 30_000)
    kept = TEXT_CHARACTERS_MAX
    assert requests.client() == words("c" * kept, "n" * kept, "1" * kept)
