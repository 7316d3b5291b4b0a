"""Broker 1 with its coordinators of groups and their handlers, on real logs and virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Executor
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

from kraft.coordinator.groups.settings import GroupShardSettings
from kraft.metadata.image import MetadataImage
from kraft.metadata.topic_names import OFFSETS_TOPIC
from kraft.model.ids import TopicId, TopicPartition
from kraft.model.request_context import RequestContext
from kraft.runtime.entropy import Entropy
from kraft.server.coordinator.group_coordinators import GroupCoordinators
from kraft.server.coordinator.group_kind import group_kind
from kraft.server.coordinator.offset_verification import OffsetVerification
from kraft.server.coordinator.shard_host import HostSettings
from kraft.server.coordinator.topic_changes import REGEX_PAUSE_S
from kraft.server.replica.waiting_appends import WaitingAppends
from kraft.wire.schema.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kraft.wire.schema.join_group import JoinGroupRequest, JoinGroupResponse
from kraft.wire.schema.leave_group import LeaveGroupRequest, MemberIdentity
from kraft.wire.schema.sync_group import SyncGroupRequest
from tests.support.classic_requests import assigning, offered
from tests.support.cluster_images import cluster, with_topic
from tests.support.server.fake_transactions import FakeTransactions
from tests.support.server.group_handlers import group_handlers
from tests.support.server.replicas import Broker, InlineExecutor, lead, settle
from tests.support.virtual_time import LoopClock

OFFSETS = TopicId(UUID(int=50))
GROUP = "billing"
CONTEXT = RequestContext(version=9, client_id="tester", peer="10.0.0.7:5100")


class _Counting:
    """Ids in their order."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def bytes(self, size: int) -> bytes:
        return next(self._numbers).to_bytes(size, "big")

    def below(self, bound: int) -> int:
        return bound // 2


class GroupBroker:
    """`__consumer_offsets` has one partition; `orders` has two."""

    def __init__(
        self,
        directory: Path,
        settings: GroupShardSettings | None = None,
        *,
        sync_before_ack: bool = False,
        executor: Executor | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        """With `sync_before_ack`, nothing is committed until the test calls `broker.sync()`.

        Ids are numbers in their order, unless `entropy` is given.
        """
        self.crashes: list[str] = []
        self.transactions = FakeTransactions()
        self.image: MetadataImage = with_topic(cluster(1), [1], topic=OFFSETS_TOPIC, topic_id=OFFSETS)
        self.image = with_topic(self.image, [1], [1])
        self._waiting_appends = WaitingAppends(InlineExecutor())
        settings = settings or GroupShardSettings()
        self.coordinators = GroupCoordinators(
            group_kind(settings),
            HostSettings(),
            group_settings=settings,
            image=lambda: self.image,
            clock=LoopClock(),
            entropy=entropy or _Counting(),
            waiting_appends=self._waiting_appends,
            executor=executor or InlineExecutor(),
            fatal=self.crashes.append,
            index=lambda: 0,
        )
        self.coordinators.verification = OffsetVerification(self.transactions.verify)
        self.broker = Broker(directory, sync_before_ack=sync_before_ack, role_changed=self.coordinators.role_changed)
        self.handlers = group_handlers(self.coordinators, lambda: self.image)

    async def __aenter__(self) -> GroupBroker:
        self.partition = self.broker.open(TopicPartition(OFFSETS_TOPIC, 0), OFFSETS)
        lead(self.partition, replicas=(1,))
        await settle()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.coordinators.drain()
        await self._waiting_appends.close()
        assert self.crashes == []

    async def join(self, group_id: str = GROUP, **fields: Any) -> JoinGroupResponse:
        """Join a classic group as a new member, which asks for its id first."""
        handlers = self.handlers.classic
        required = await handlers.join(joining(group_id, **fields), CONTEXT)
        return await handlers.join(joining(group_id, member_id=required.member_id, **fields), CONTEXT)

    async def stable(self, group_id: str = GROUP) -> str:
        """Bring a new classic group with one member to its first generation; return the member's id."""
        member_id = (await self.join(group_id)).member_id
        sync = syncing(group_id, member_id, {member_id: b"all"})
        await self.handlers.classic.sync(sync, CONTEXT)
        return member_id

    async def leave(self, member_id: str, group_id: str = GROUP) -> None:
        await self.handlers.classic.leave(
            LeaveGroupRequest(group_id=group_id, members=(MemberIdentity(member_id=member_id),))
        )

    async def join_consumer(
        self, group_id: str = GROUP, member_id: str = "m", **fields: Any
    ) -> ConsumerGroupHeartbeatResponse:
        return await self.handlers.consumer.heartbeat(heartbeat(group_id, member_id, **fields), CONTEXT)


def syncing(group_id: str, member_id: str, assignments: Mapping[str, bytes] | None = None) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=group_id,
        member_id=member_id,
        generation_id=1,
        protocol_type="consumer",
        protocol_name="range",
        assignments=assigning(assignments or {}),
    )


def joining(group_id: str = GROUP, **fields: Any) -> JoinGroupRequest:
    request: dict[str, Any] = {
        "group_id": group_id,
        "member_id": "",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": (offered("range", b"topics"),),
    }
    return JoinGroupRequest(**{**request, **fields})


def heartbeat(group_id: str = GROUP, member_id: str = "m", **fields: Any) -> ConsumerGroupHeartbeatRequest:
    """The first heartbeat of a member of the consumer protocol."""
    request: dict[str, Any] = {
        "group_id": group_id,
        "member_id": member_id,
        "member_epoch": 0,
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": ("orders",),
        "topic_partitions": (),
    }
    return ConsumerGroupHeartbeatRequest(**{**request, **fields})


def change_topics(broker: GroupBroker, after: MetadataImage) -> None:
    before, broker.image = broker.image, after
    broker.coordinators.metadata_applied(before, broker.image)


async def subscribed(broker: GroupBroker, group_id: str = GROUP) -> set[str]:
    """Return the topics that the expressions of the group match, once the coordinator has looked at them again."""
    await asyncio.sleep(2 * REGEX_PAUSE_S)
    await settle()
    group = broker.coordinators.view(group_id).latest.consumer[group_id]
    return {topic for resolved in group.regexes.values() for topic in resolved.topics}
