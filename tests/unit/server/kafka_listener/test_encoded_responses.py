from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kraft.metadata.image import MetadataImage
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.kafka_listener.encoded_responses import RESPONSES_MAX, EncodedResponses
from kraft.server.kafka_listener.requests import EncodedMessage
from kraft.wire.declaration import Buffer
from kraft.wire.schema.metadata import MetadataResponse
from tests.support.cluster_images import cluster
from tests.support.server.replicas import settle

pytestmark = pytest.mark.real_time


class Metadata:
    def __init__(self) -> None:
        self.image = cluster(1)
        self.answers = EncodedResponses(lambda: self.image)
        self.made_of: list[MetadataImage] = []
        self.may_end = asyncio.Event()

    async def make(self) -> EncodedMessage:
        self.made_of.append(self.image)
        number = len(self.made_of)
        await self.may_end.wait()
        return EncodedMessage(MetadataResponse, b"%d" % number)

    async def get(self, key: int = 0, make: Callable[[], Awaitable[EncodedMessage]] | None = None) -> Buffer:
        return (await self.answers.get(key, make or self.make)).body


async def test_concurrent_and_later_callers_get_the_response_that_was_made_once() -> None:
    metadata = Metadata()
    waiting = [asyncio.create_task(metadata.get()) for _ in range(3)]
    await settle()
    metadata.may_end.set()
    assert await asyncio.gather(*waiting) == [b"1"] * 3
    assert await metadata.get() == b"1"


async def test_changed_metadata_is_encoded_again_even_while_the_old_response_is_made() -> None:
    metadata = Metadata()
    early = asyncio.create_task(metadata.get())
    await settle()
    metadata.image = cluster(1, 2)
    late = asyncio.create_task(metadata.get())
    await settle()
    metadata.may_end.set()
    assert (await early, await late, await metadata.get()) == (b"1", b"2", b"2")


async def test_a_client_that_goes_takes_nothing_from_the_others() -> None:
    metadata = Metadata()
    gone, stays = asyncio.create_task(metadata.get()), asyncio.create_task(metadata.get())
    await settle()
    gone.cancel()
    metadata.may_end.set()
    assert await stays == b"1"
    assert gone.cancelled()


async def test_what_could_not_be_made_is_tried_again() -> None:
    async def fail() -> EncodedMessage:
        raise Refusal(ErrorCode.REQUEST_TIMED_OUT, "not now")

    metadata = Metadata()
    metadata.may_end.set()
    with pytest.raises(Refusal, match="not now"):
        await metadata.get(make=fail)
    assert await metadata.get() == b"1"


async def test_few_are_kept_those_that_were_used_last() -> None:
    metadata = Metadata()
    metadata.may_end.set()
    for key in range(RESPONSES_MAX):
        await metadata.get(key)
    await metadata.get(0)
    await metadata.get(RESPONSES_MAX)
    made = len(metadata.made_of)
    assert await metadata.get(0) == b"1"
    assert len(metadata.made_of) == made
    assert await metadata.get(1) == b"%d" % (made + 1)
