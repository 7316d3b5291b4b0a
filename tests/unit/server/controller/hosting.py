"""A state machine host on a quorum of the test's, and commands for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from uuid import NAMESPACE_OID, uuid5

from kraft.metadata.decision import Decision
from kraft.metadata.image import MetadataImage
from kraft.metadata.records import TopicCreated
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicId
from kraft.server.controller.state_machine_host import StateMachineHost
from tests.unit.server.controller.fake_quorum import FakeQuorum


@asynccontextmanager
async def leading(**options: bool) -> AsyncIterator[tuple[StateMachineHost, FakeQuorum]]:
    host = StateMachineHost(lambda active: None)
    quorum = FakeQuorum(host, **options)
    host.attach(quorum)
    quorum.lead(1)
    running = asyncio.create_task(host.run())
    try:
        yield host, quorum
    finally:
        running.cancel()
        await asyncio.wait([running])


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def create(topic: str) -> Callable[[MetadataImage], Decision[str]]:
    """Creates a topic, or refuses as a decider does."""

    def decide(image: MetadataImage) -> Decision[str]:
        if image.topic(topic) is not None:
            raise Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, topic)
        topic_id = TopicId(uuid5(NAMESPACE_OID, topic))
        return Decision(records=[TopicCreated(topic=topic, topic_id=topic_id)], response=f"created {topic}")

    return decide


def look(image: MetadataImage) -> Decision[list[str]]:
    return Decision(records=[], response=sorted(image.topic_ids))


def run(scenario: Coroutine[None, None, None]) -> None:
    asyncio.run(scenario)
