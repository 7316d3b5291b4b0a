"""Conversations of Kafka's clients with the coordinator of groups: frames as on the wire, one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from types import SimpleNamespace
from typing import Any, Final, cast

from kraft.coordinator.group_record import GroupRecord
from kraft.coordinator.group_record_codec import decode, encode
from kraft.coordinator.group_refusals import empty_group_id
from kraft.coordinator.groups.commands import CommitOffsets, DeleteGroup, GroupCommand
from kraft.server.apis import serving
from kraft.server.apis.groups import GROUP_APIS
from kraft.server.coordinator.group_coordinators import GroupCoordinators
from kraft.server.kafka_listener.answering import CloseConnection
from kraft.server.kafka_listener.requests import Api, KafkaRequests
from kraft.wire.api_keys import ApiKey
from kraft.wire.frame import SIZE_BYTES
from tests.support.client.fake_cluster import FakeCluster
from tests.support.client.fake_groups import FakeGroups
from tests.support.server.group_handlers import group_handlers
from tests.support.virtual_time import run_virtually

FRAMES_MAX: Final = 12
WAIT_S: Final = 60
"""Longer than the rebalance and session timeouts of the seeds."""

ANSWER_S: Final = 5
"""Longer than the first rebalance of a group waits for more members."""


class _Coordinator(FakeGroups):
    """Every record is encoded, as it is to be appended."""

    async def decide(self, group_id: str, command: GroupCommand) -> Any:
        if not group_id and not isinstance(command, CommitOffsets | DeleteGroup):
            raise empty_group_id()
        return await super().decide(group_id, command)

    def _replay(self, record: GroupRecord) -> None:
        assert decode(*encode(record)) == record, "what is replayed later is not what was decided"
        super()._replay(record)


def converse(data: bytes) -> None:
    """Send all frames on one connection each, and wait for the answers."""
    run_virtually(_converse(data))


async def _converse(data: bytes) -> None:
    cluster = FakeCluster(1)
    cluster.place("orders", [1], [1])
    coordinator = cluster.groups = _Coordinator(cluster)
    groups = cast(GroupCoordinators, coordinator)
    handlers = group_handlers(groups, lambda: cluster.image)
    # Of a broker, only these are there.
    side: Any = SimpleNamespace(groups=handlers, askers=None, audit=None, data_audits={})
    apis: dict[ApiKey, Api] = {
        each.key: serving.kafka_api(each.key, each, side)
        for each in GROUP_APIS
        if each.key is not None and each.key is not ApiKey.FIND_COORDINATOR
    }
    answers: list[asyncio.Future[Any]] = []
    try:
        for frame in _frames(data):
            try:
                begun = KafkaRequests(apis, "10.0.0.7:5100").begin(memoryview(frame))
            except CloseConnection:
                continue
            assert isinstance(begun, Awaitable)
            answers.append(asyncio.ensure_future(begun))
            await asyncio.wait(answers[-1:], timeout=ANSWER_S)
        if answers:
            await asyncio.wait(answers, timeout=WAIT_S)
        for answer in answers:
            # A join may wait longer, if its client asked for that.
            if answer.done():
                answer.result()
        assert handlers.classic.waiting_bytes >= 0
    finally:
        coordinator.close()
        for answer in answers:
            answer.cancel()
        await asyncio.gather(*answers, return_exceptions=True)


def _frames(data: bytes) -> Iterator[bytes]:
    position = 0
    for _ in range(FRAMES_MAX):
        size = int.from_bytes(data[position : position + SIZE_BYTES], "big")
        position += SIZE_BYTES
        frame = data[position : position + size]
        if len(frame) < SIZE_BYTES:
            return
        yield frame
        position += len(frame)
