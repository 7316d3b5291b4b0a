"""The coordinator of all groups of the fake cluster: the broker's own handlers and group shard, on one broker.

Records are committed at once. The coordinator fails over on command.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from itertools import count
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from kraft.coordinator.consumer.group import ResolvedRegex
from kraft.coordinator.group_record import GroupRecord
from kraft.coordinator.groups.commands import CommitOffsets, GroupCommand, ResolveRegexes
from kraft.coordinator.groups.replicated import unresolved_regexes
from kraft.coordinator.groups.settings import GroupShardSettings
from kraft.coordinator.groups.shard import GroupShard
from kraft.coordinator.groups.volatile import GroupsDecision, GroupsVolatile
from kraft.coordinator.shard import DecisionContext, Ticket, TimerKey
from kraft.metadata.features import GROUP_VERSION
from kraft.metadata.image import MetadataImage
from kraft.metadata.records import FeatureLevelSet
from kraft.model.errors import ErrorCode, Refusal
from kraft.rpc.call import ServedCall
from kraft.rpc.group_calls import FIND_COORDINATOR
from kraft.server.apis import serving
from kraft.server.apis.groups import GROUP_APIS
from kraft.server.coordinator.group_coordinators import GroupsView
from kraft.server.coordinator.rebalance_counts import RebalanceCounts
from kraft.wire.schema.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kraft.wire.schema.list_groups import ListGroupsRequest, ListGroupsResponse
from tests.support.client.coordinators import client, found
from tests.support.client.fake_timers import FakeTimers
from tests.support.server.fake_controllers import python_name
from tests.support.server.group_handlers import group_handlers

if TYPE_CHECKING:
    from tests.support.client.fake_cluster import FakeCluster


class FakeGroups:
    def __init__(self, cluster: FakeCluster, settings: GroupShardSettings | None = None) -> None:
        self._cluster = cluster
        self._settings = settings or GroupShardSettings()
        self._shard = GroupShard(self._settings)
        self.coordinator_id = 1
        self.groups = self._shard.empty()
        self.volatile = GroupsVolatile()
        self.rebalances = RebalanceCounts(lambda: 0)
        self.commands: list[GroupCommand] = []
        self.may_commit = asyncio.Event()
        """Cleared, it holds commits back."""
        self.may_commit.set()
        self._timers = FakeTimers(self._timer_ended)
        self._waiting: dict[Ticket, asyncio.Future[Any]] = {}
        self._numbers = count(1)
        cluster.image = cluster.image.replay([FeatureLevelSet(feature=GROUP_VERSION, level=1)])
        coordinators: Any = self
        handlers = group_handlers(coordinators, self._image)
        # Of a broker, only these are there.
        side: Any = SimpleNamespace(groups=handlers, askers=None, audit=None, data_audits={})
        rows = [each for each in GROUP_APIS if each.call not in (None, FIND_COORDINATOR)]
        served = [serving.served_call(each.call, each, side) for each in rows if each.call]
        self._calls: Mapping[str, ServedCall] = {python_name(each.call.name): each for each in served}
        self._apply(self._shard.loaded(self.groups, self._context()))

    def close(self) -> None:
        self._timers.clear()

    def move_to(self, broker_id: int) -> None:
        """Load what is replicated on another broker."""
        before, self.coordinator_id = self.coordinator_id, broker_id
        self.close()
        self.volatile = GroupsVolatile()
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            # A coordinator that hangs does not answer those who wait.
            if not self._cluster.brokers[before].hangs and not future.done():
                future.set_exception(Refusal(ErrorCode.NOT_COORDINATOR, "the coordinator has moved"))
        self._apply(self._shard.loaded(self.groups, self._context()))

    def committed(self, group_id: str, topic: str, partition: int = 0) -> int | None:
        found = self.groups.offsets.offset(group_id, topic, partition)
        return None if found is None else found.offset

    def members(self, group_id: str) -> int:
        """Return how many members a group has, of either protocol."""
        consumer, classic = self.groups.consumer.get(group_id), self.volatile.classic.get(group_id)
        return len(consumer.members if consumer is not None else classic.members if classic is not None else ())

    # --- requests ---------------------------------------------------------------------------------------------

    def serves(self, name: str) -> bool:
        return name in self._calls

    async def answer(self, broker_id: int, name: str, request: Any) -> Any:
        if broker_id != self.coordinator_id:
            if isinstance(request, ListGroupsRequest):
                return ListGroupsResponse(error_code=ErrorCode.NONE, groups=())
            raise Refusal(ErrorCode.NOT_COORDINATOR, f"broker {broker_id} does not coordinate the group")
        served = self._calls[name]
        if served.context_version is None:
            return await served.handler(request)
        return await served.handler(request, client(served.context_version))

    def find_coordinator(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        broker = self._cluster.brokers[self.coordinator_id]
        if not broker.is_up:
            raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator is down")
        host = broker.address.split(":")[0]
        return FindCoordinatorResponse(
            coordinators=tuple(found(key, broker.broker_id, host) for key in request.coordinator_keys)
        )

    # --- as the handlers see it -------------------------------------------------------------------------------

    async def decide(self, _: str, command: GroupCommand) -> Any:
        self.commands.append(command)
        if isinstance(command, CommitOffsets):
            await self.may_commit.wait()
        ticket = Ticket(next(self._numbers))
        waiting = self._waiting[ticket] = asyncio.get_running_loop().create_future()
        self._apply(self._shard.decide(self.groups, self.volatile, ticket, command, self._context()))
        return await waiting

    def view(self, _: str) -> GroupsView:
        return GroupsView(committed=self.groups, latest=self.groups, volatile=self.volatile, settings=self._settings)

    def views(self) -> tuple[GroupsView, ...]:
        return (self.view(""),)

    # --- the host ---------------------------------------------------------------------------------------------

    def _image(self) -> MetadataImage:
        return self._cluster.image

    def _context(self) -> DecisionContext:
        now_ms = round(asyncio.get_running_loop().time() * 1000)
        return DecisionContext(now_ms=now_ms, image=self._cluster.image, random_id=f"{next(self._numbers):04}")

    def _apply(self, decision: GroupsDecision) -> None:
        for record in decision.records:
            if decision.producer is None:
                self._replay(record)
            else:
                producer_id = decision.producer.producer_id
                self.groups = self._shard.replay_transactional(self.groups, producer_id, record)
        self.volatile = decision.volatile
        self._timers.set(decision.timers)
        for reply in decision.replies:
            waiting = self._waiting.pop(reply.ticket, None)
            if waiting is None or waiting.done():
                continue
            if isinstance(reply.response, Refusal):
                waiting.set_exception(reply.response)
            else:
                waiting.set_result(reply.response)
        self._resolve_regexes()

    def _replay(self, record: GroupRecord) -> None:
        self.groups = self._shard.replay(self.groups, record)

    def _timer_ended(self, key: TimerKey) -> None:
        self._apply(self._shard.timer_ended(self.groups, self.volatile, key, self._context()))

    def _resolve_regexes(self) -> None:
        for group_id, regexes in unresolved_regexes(self.groups).items():
            results = {
                regex: ResolvedRegex(
                    topics=frozenset(topic for topic in self._cluster.topics if re.fullmatch(regex, topic)),
                    version=1,
                    timestamp_ms=0,
                )
                for regex in regexes
            }
            command = ResolveRegexes(group_id=group_id, results=results)
            ticket = Ticket(next(self._numbers))
            self._apply(self._shard.decide(self.groups, self.volatile, ticket, command, self._context()))
