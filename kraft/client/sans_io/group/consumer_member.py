"""A member of a group of the consumer protocol (KIP-848), in which the coordinator assigns.

Heartbeats are all that it sends. They say what has changed since the last one; after an error or a missing response,
one says everything again, and the coordinator answers with the whole assignment. A new assignment is carried out step
by step, revocations first, and the next heartbeat acknowledges it with the partitions that are owned then.
"""

from __future__ import annotations

from msgspec import Struct

from kraft.client.model.group_offsets import grouped
from kraft.client.model.settings import ConsumerSettings
from kraft.client.sans_io.backoff import Backoff
from kraft.client.sans_io.group.member import CommitIdentity, GroupRequest, GroupResponse, MemberMachine
from kraft.client.sans_io.group.ownership import NOWHERE, Place, Places
from kraft.model.errors import ErrorCode
from kraft.model.ids import TopicId
from kraft.wire.schema.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

_FIRST_PARTITIONS_CHECK_MS = 100
"""First interval of heartbeats of a member that has no partitions yet; it doubles."""

_JOIN_EPOCH = 0
_LEAVE_EPOCH = -1
_LEAVE_STATIC_EPOCH = -2


class _Subscription(Struct, frozen=True):
    topics: frozenset[str]
    regex: str


class ConsumerMember(MemberMachine):
    """Sends heartbeats. `member_id` is unique, and stays the same for as long as the consumer lives (KIP-1082)."""

    def __init__(self, settings: ConsumerSettings, member_id: str, backoff: Backoff) -> None:
        super().__init__(settings, member_id, backoff)
        self._subscription = _Subscription(frozenset(), "")
        self._epoch = _JOIN_EPOCH
        self._is_joining = False
        self._heartbeat_ms = 0
        """Interval of heartbeats, set by the coordinator."""
        self._unassigned_heartbeats = 0
        """Heartbeats answered in a row while the member has subscribed and has no partitions."""
        self._told_subscription: _Subscription | None = None
        """The subscription that the coordinator has; None if the next heartbeat has to say everything."""
        self._sending_subscription = self._subscription
        self._told_owned: Places = NOWHERE
        self._sending_owned: Places | None = None
        """The partitions in the heartbeat in flight, if they are in it."""

    def subscribe(self, topics: frozenset[str], regex: str = "") -> None:
        """Subscribe to topics by name, by a regular expression that the coordinator resolves, or both."""
        self._subscription = _Subscription(topics, regex)

    def identity(self) -> CommitIdentity | None:
        if self._epoch <= _JOIN_EPOCH:
            return None
        return CommitIdentity(self._member_id, self._settings.group_instance_id, self._epoch)

    # --- heartbeats -------------------------------------------------------------------------------------------

    def _due_ms(self) -> int | None:
        if self._is_out:
            return None
        return 0 if self._has_news else self._sent_ms + self._interval_ms

    @property
    def _interval_ms(self) -> int:
        """The coordinator's interval; less at first.

        It resolves a regular expression, and assigns the partitions of a large group, after its response.
        """
        if not self._unassigned_heartbeats:
            return self._heartbeat_ms
        return min(self._heartbeat_ms, _FIRST_PARTITIONS_CHECK_MS << min(self._unassigned_heartbeats - 1, 30))

    @property
    def _has_news(self) -> bool:
        if self._is_leaving or self._told_subscription != self._subscription:
            return True
        return self.ownership.is_settled and self.ownership.owned != self._told_owned

    def _request(self) -> GroupRequest:
        is_joining = self._epoch == _JOIN_EPOCH
        told, subscription = self._told_subscription, self._subscription
        is_full = told is None
        self._is_joining = is_joining
        # Between two steps, what is owned is not yet an answer to the assignment.
        says_owned = is_full or (self.ownership.is_settled and self.ownership.owned != self._told_owned)
        self._sending_owned = self.ownership.owned if says_owned else None
        self._sending_subscription = subscription
        settings = self._settings
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._member_id,
            member_epoch=self._epoch,
            instance_id=settings.group_instance_id,
            rack_id=settings.client_rack or None if is_full else None,
            rebalance_timeout_ms=settings.max_poll_interval_ms if is_full else -1,
            subscribed_topic_names=(
                tuple(sorted(subscription.topics)) if told is None or told.topics != subscription.topics else None
            ),
            subscribed_topic_regex=subscription.regex if _says_regex(told, subscription) else None,
            server_assignor=settings.group_remote_assignor or None if is_full else None,
            topic_partitions=None if self._sending_owned is None else _by_topic(self._sending_owned),
        )

    def _take(self, response: GroupResponse, now_ms: int) -> None:
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        self._epoch = response.member_epoch
        self._member_id = response.member_id or self._member_id
        self._heartbeat_ms = response.heartbeat_interval_ms
        self._told_subscription = self._sending_subscription
        if self._sending_owned is not None:
            self._told_owned = self._sending_owned
        if response.assignment is not None:
            self.ownership.aim(_places(response.assignment))
        waits = self._subscription != _Subscription(frozenset(), "") and not self.ownership.owned
        self._unassigned_heartbeats = self._unassigned_heartbeats + 1 if waits else 0

    def _take_refusal(self, code: ErrorCode, now_ms: int) -> bool:
        return False

    def _missed(self) -> None:
        self._told_subscription = None

    # --- joining and leaving ----------------------------------------------------------------------------------

    @property
    def _is_known(self) -> bool:
        return self._epoch > _JOIN_EPOCH or self._is_joining

    def _join(self) -> None:
        self._epoch = _JOIN_EPOCH
        self._told_subscription = None
        self._told_owned = NOWHERE

    def _leave_request(self) -> GroupRequest:
        instance_id = self._settings.group_instance_id
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._member_id,
            member_epoch=_LEAVE_EPOCH if instance_id is None else _LEAVE_STATIC_EPOCH,
            instance_id=instance_id,
        )

    def _forget_membership(self, code: ErrorCode) -> None:
        self._epoch = _JOIN_EPOCH
        self._is_joining = False

    def _settled(self) -> None:
        """Nothing to do: the next heartbeat says it."""


def _says_regex(told: _Subscription | None, subscription: _Subscription) -> bool:
    # A member that never had a regular expression need not say that it has none.
    return subscription.regex != (told.regex if told is not None else "")


def _by_topic(places: Places) -> tuple[TopicPartitions, ...]:
    by_topic = grouped((place.topic_id, place.partition) for place in sorted(places))
    return tuple(TopicPartitions(topic_id=each, partitions=numbers) for each, numbers in by_topic.items())


def _places(assignment: Assignment) -> Places:
    """Return the partitions, without those of topics that were deleted, which have no name."""
    return frozenset(
        Place(TopicId(topic.topic_id), topic.topic_name, partition)
        for topic in assignment.topic_partitions
        if topic.topic_name
        for partition in topic.partitions
    )
