"""A task that sends the requests of a group's member, also while the consumer is not polled."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from kraft.client.cluster.any_broker import ATTEMPT_MAX_MS
from kraft.client.cluster.coordinators import Coordinators
from kraft.client.cluster.metadata_cache import MetadataCache
from kraft.client.model.settings import ConsumerSettings
from kraft.client.sans_io.group.member import CoordinatorRequest, GroupRequest, GroupResponse, MemberMachine
from kraft.model.callbacks import Callback
from kraft.model.errors import Refusal
from kraft.rpc.call import Call
from kraft.rpc.group_calls import CONSUMER_GROUP_HEARTBEAT, HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP
from kraft.rpc.peers import Unreachable
from kraft.runtime.clock import Clock
from kraft.wire.schema.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kraft.wire.schema.heartbeat import HeartbeatRequest
from kraft.wire.schema.join_group import JoinGroupRequest
from kraft.wire.schema.leave_group import LeaveGroupRequest
from kraft.wire.schema.metadata import MetadataRequest
from kraft.wire.schema.sync_group import SyncGroupRequest

_CALLS: Final[dict[type[CoordinatorRequest], Call[Any, Any]]] = {
    ConsumerGroupHeartbeatRequest: CONSUMER_GROUP_HEARTBEAT,
    JoinGroupRequest: JOIN_GROUP,
    SyncGroupRequest: SYNC_GROUP,
    HeartbeatRequest: HEARTBEAT,
    LeaveGroupRequest: LEAVE_GROUP,
}

_REBALANCE_GRACE_MS: Final = 5_000
"""How much longer than the rebalance timeout a member waits for the others. As in Kafka's clients."""


class GroupMembership:
    """Keeps one member in its group until it leaves."""

    def __init__(
        self,
        member: MemberMachine,
        coordinators: Coordinators,
        metadata: MetadataCache,
        settings: ConsumerSettings,
        clock: Clock,
        notify: Callback,
    ) -> None:
        """`notify` is called when something has changed that a poll acts on."""
        self.member = member
        self._coordinators = coordinators
        self._metadata = metadata
        self._settings = settings
        self._clock = clock
        self._notify = notify
        self._changed = asyncio.Event()
        self._in_flight: asyncio.Future[Any] | None = None
        self.failure: BaseException | None = None
        """The error that ended the task: an internal error."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="group membership")
        self._task.add_done_callback(self._ended)

    def wake_up(self) -> None:
        """Look again for a request that is due: a poll has begun or ended, or a step was done."""
        self._changed.set()

    async def leave(self, deadline_ms: int) -> None:
        """Leave the group, with one attempt, and end the task; at once if no coordinator can know the member."""
        self.member.leave()
        if self.member.waits_for_others and self._in_flight is not None:
            self._in_flight.cancel()
        self.wake_up()
        try:
            if self._coordinators.may_have_reached(self._settings.group_id or ""):
                await asyncio.wait([self._task], timeout=max(0, deadline_ms - self._clock.monotonic_ms()) / 1000)
        finally:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (failure := task.exception()) is not None:
            self.failure = failure
            self._notify()

    async def _run(self) -> None:
        member = self.member
        while not member.has_left:
            self._changed.clear()
            now_ms = self._clock.monotonic_ms()
            request = member.next_request(now_ms)
            if request is not None:
                await self._exchange(request)
                self._notify()
                continue
            wake_ms = member.next_wake_ms()
            try:
                async with asyncio.timeout(None if wake_ms is None else max(1, wake_ms - now_ms) / 1000):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _exchange(self, request: GroupRequest) -> None:
        member = self.member
        attempt = asyncio.ensure_future(self._answer(request))
        self._in_flight = attempt
        try:
            await asyncio.wait([attempt])
        finally:
            attempt.cancel()
            self._in_flight = None
        now_ms = self._clock.monotonic_ms()
        try:
            response = attempt.result()
        except Refusal as refusal:
            member.refused(refusal, now_ms)
        except Unreachable as error:
            member.lost(now_ms, str(error))
        except asyncio.CancelledError:
            # Cancelled by `leave`, which does not wait for the other members.
            member.lost(now_ms)
        else:
            member.answered(response, now_ms)

    async def _answer(self, request: GroupRequest) -> GroupResponse:
        if isinstance(request, MetadataRequest):
            return await self._metadata.fetch(request, ATTEMPT_MAX_MS)
        waits = self.member.waits_for_others
        timeout_ms = self._settings.max_poll_interval_ms + _REBALANCE_GRACE_MS if waits else ATTEMPT_MAX_MS
        call = _CALLS[type(request)]
        response: GroupResponse = await self._coordinators.attempt(request.group_id, call, request, timeout_ms)
        return response
