"""Base of the members of both group protocols: one request in flight, retries, leaving, and idle consumers.

A member says which request is due (`next_request`) and takes its outcome. What it is to read is in its `ownership`,
whose steps the consumer runs inside its polls.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from enum import Enum, auto
from typing import Final, TypeAlias

from msgspec import Struct

from kraft.client.model.errors import AuthenticationFailed
from kraft.client.model.settings import ConsumerSettings
from kraft.client.sans_io.backoff import Backoff
from kraft.client.sans_io.group.ownership import Ownership
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.schema.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kraft.wire.schema.heartbeat import HeartbeatRequest, HeartbeatResponse
from kraft.wire.schema.join_group import JoinGroupRequest, JoinGroupResponse
from kraft.wire.schema.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kraft.wire.schema.metadata import MetadataRequest, MetadataResponse
from kraft.wire.schema.sync_group import SyncGroupRequest, SyncGroupResponse

log = logging.getLogger("kraft.client")

CoordinatorRequest: TypeAlias = (
    ConsumerGroupHeartbeatRequest | JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest
)
GroupRequest: TypeAlias = CoordinatorRequest | MetadataRequest
"""Metadata may be asked of any broker."""

GroupResponse: TypeAlias = (
    ConsumerGroupHeartbeatResponse
    | JoinGroupResponse
    | SyncGroupResponse
    | HeartbeatResponse
    | LeaveGroupResponse
    | MetadataResponse
)

FAILURES_LOGGED: Final = 5
"""Failed attempts in a row after which the reason is logged: the consumer reads nothing new meanwhile."""

MUST_JOIN_AGAIN: Final = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.GROUP_ID_NOT_FOUND,
    }
)
"""The group has excluded the member, or does not know it."""

_NOT_AUTHORIZED: Final = frozenset(
    {ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
)


class CommitIdentity(Struct, frozen=True):
    """Identity that a member commits offsets with."""

    member_id: str
    instance_id: str | None
    epoch: int
    """Epoch of the member in the consumer protocol, generation of the group in the classic one."""


class _Leaving(Enum):
    NOT = auto()
    IDLE = auto()
    """The consumer was not polled; it joins again when it is."""
    FOR_GOOD = auto()


class MemberMachine(ABC):
    """A member of a group. It joins once it is subscribed and polled."""

    def __init__(self, settings: ConsumerSettings, member_id: str, backoff: Backoff) -> None:
        self._settings = settings
        self._backoff = backoff
        self._member_id = member_id
        self.ownership = Ownership()
        self.misfit: Refusal | None = None
        """Why the client is not accepted, or has no right to be a member; whoever raises it sets it to None."""
        self.error: Refusal | None = None
        """The refusal after which the member sends nothing more."""
        self.has_left = False
        self._leaving = _Leaving.NOT
        self._is_out = True
        """Not in the group, and not joining: before the first poll, while idle, and until a loss was carried out."""
        self._sent: GroupRequest | None = None
        self._sent_ms = 0
        self._has_sent_leave = False
        self._failures = 0
        self._retry_at_ms = 0
        self._idle_at_ms: int | None = None
        """When `max.poll.interval.ms` ends; None during a poll."""

    # --- polls ------------------------------------------------------------------------------------------------

    def poll_began(self) -> None:
        self._idle_at_ms = None
        self._enter()

    def poll_ended(self, now_ms: int) -> None:
        """The user has the records, or runs a callback."""
        self._idle_at_ms = now_ms + self._settings.max_poll_interval_ms

    def step_done(self) -> None:
        """The step of `ownership` was carried out."""
        self.ownership.step_done()
        self._settled()
        self._enter()

    def _enter(self) -> None:
        """Join, unless partitions are still to be taken from the consumer."""
        if self._is_out and not self.ownership.is_losing and self._idle_at_ms is None and self.error is None:
            self._is_out = False
            self._join()

    # --- requests ---------------------------------------------------------------------------------------------

    def next_request(self, now_ms: int) -> GroupRequest | None:
        """Return the request to send now. Its outcome must be reported before there is another one."""
        if self._sent is not None or self.error is not None or self.has_left:
            return None
        self._check_poll_interval(now_ms)
        due_ms = self._due_ms()
        if due_ms is None or now_ms < max(due_ms, self._retry_at_ms):
            return None
        self._has_sent_leave = self._is_leaving
        self._sent = self._leave_request() if self._has_sent_leave else self._request()
        self._sent_ms = now_ms
        return self._sent

    def next_wake_ms(self) -> int | None:
        """Return the time at which `next_request` should be called again; None if only after another event."""
        if self._sent is not None or self.error is not None or self.has_left:
            return None
        due_ms = self._due_ms()
        times = [max(due_ms, self._retry_at_ms)] if due_ms is not None else []
        if self._idle_at_ms is not None and not self._is_out:
            times.append(self._idle_at_ms)
        return min(times, default=None)

    @property
    def waits_for_others(self) -> bool:
        """True if the request in flight is answered when other members have acted, which may take minutes."""
        return isinstance(self._sent, JoinGroupRequest | SyncGroupRequest)

    def answered(self, response: GroupResponse, now_ms: int) -> None:
        self._sent = None
        if self._has_sent_leave:
            self._left()
            return
        self._failures = self._retry_at_ms = 0
        self._take(response, now_ms)
        self._settled()

    def refused(self, refusal: Refusal, now_ms: int) -> None:
        request, self._sent = self._sent, None
        assert request is not None
        code = refusal.error_code
        if self._has_sent_leave or (self._is_leaving and code in MUST_JOIN_AGAIN):
            self._left()
        elif code in MUST_JOIN_AGAIN:
            log.warning("group %s: consumer excluded, joining again: %s", self._group, refusal)
            self._forget_membership(code)
            self._exclude()
        elif isinstance(refusal, AuthenticationFailed) or code in _NOT_AUTHORIZED:
            # An operator may mend it, as by a user that is created again, or an ACL: the member goes on trying.
            self.misfit = refusal if isinstance(refusal, AuthenticationFailed) else _of_group(self._group, refusal)
            self._retry(now_ms, str(refusal))
        elif code.retriable:
            self._retry(now_ms, str(refusal))
        elif not self._take_refusal(code, now_ms):
            self._fail(refusal)

    def lost(self, now_ms: int, reason: str = "no response") -> None:
        """The request has no response, and it is unknown whether it was carried out."""
        self._sent = None
        if self._has_sent_leave:
            self._left()
        else:
            self._retry(now_ms, reason)

    # --- leaving ----------------------------------------------------------------------------------------------

    def leave(self) -> None:
        """Leave the group for good, with one attempt."""
        self._leaving = _Leaving.FOR_GOOD
        self._retry_at_ms = 0
        if self._is_out or not self._is_known or self.error is not None:
            self.has_left = True

    def _check_poll_interval(self, now_ms: int) -> None:
        if self._idle_at_ms is None or now_ms < self._idle_at_ms or self._is_out or self._is_leaving:
            return
        log.warning(
            "group %s: the consumer leaves, because it was not polled for max.poll.interval.ms=%d; it joins again with "
            "the next poll. Lower max.poll.records, or raise max.poll.interval.ms",
            self._group,
            self._settings.max_poll_interval_ms,
        )
        self._leaving = _Leaving.IDLE
        self._retry_at_ms = 0
        if not self._is_known:
            self._left()

    def _left(self) -> None:
        is_idle, self._leaving = self._leaving is _Leaving.IDLE, _Leaving.NOT
        self._has_sent_leave = False
        self._forget_membership(ErrorCode.NONE)
        if is_idle:
            self._exclude()
        else:
            self.has_left = True

    @property
    def _is_leaving(self) -> bool:
        return self._leaving is not _Leaving.NOT

    # --- inside -----------------------------------------------------------------------------------------------

    @property
    def _group(self) -> str:
        return self._settings.group_id or ""

    def _exclude(self) -> None:
        self._is_out = True
        self._failures = self._retry_at_ms = 0
        self.ownership.lose()
        self._enter()

    def _fail(self, refusal: Refusal) -> None:
        self.error = _of_group(self._group, refusal)
        self.ownership.lose()

    def _retry(self, now_ms: int, reason: str) -> None:
        self._missed()
        if not self._is_leaving:
            self._failures += 1
            if self._failures == FAILURES_LOGGED:
                log.warning(
                    "group %s: %d requests in a row have failed, the last one: %s", self._group, self._failures, reason
                )
            self._retry_at_ms = now_ms + self._backoff.delay_ms(self._failures)

    # --- of each protocol -------------------------------------------------------------------------------------

    @abstractmethod
    def subscribe(self, topics: frozenset[str], regex: str = "") -> None:
        """Subscribe to topics by name, by a regular expression, or both."""

    @abstractmethod
    def identity(self) -> CommitIdentity | None:
        """Return the identity to commit with; None while this consumer is no member."""

    @property
    @abstractmethod
    def _is_known(self) -> bool:
        """True if the group may know the member, so that it has to be told that the member leaves."""

    @abstractmethod
    def _join(self) -> None:
        """Begin to join."""

    @abstractmethod
    def _due_ms(self) -> int | None:
        """Return when the next request is due; None if something else has to happen first."""

    @abstractmethod
    def _request(self) -> GroupRequest: ...
    @abstractmethod
    def _leave_request(self) -> GroupRequest: ...
    @abstractmethod
    def _take(self, response: GroupResponse, now_ms: int) -> None: ...
    @abstractmethod
    def _take_refusal(self, code: ErrorCode, now_ms: int) -> bool:
        """Act on a refusal that has a meaning of its own in the protocol. Return False if it has none."""

    @abstractmethod
    def _missed(self) -> None:
        """A response was not received."""

    @abstractmethod
    def _forget_membership(self, code: ErrorCode) -> None:
        """The member is no longer in the group; the code says why, NONE that it has left."""

    @abstractmethod
    def _settled(self) -> None:
        """Something may be settled now: a step was done, or a response received."""


def _of_group(group: str, refusal: Refusal) -> Refusal:
    return Refusal(refusal.error_code, f"group {group}: {refusal.message}")
