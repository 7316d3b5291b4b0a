"""A member of a group of the classic protocol, in which one member, the leader, assigns.

A rebalance has two requests: JoinGroup waits for all members, SyncGroup for the leader's assignment. Heartbeats show
in between that the member is alive, and their responses that a rebalance has begun. In an eager rebalance every member
gives up what it owns before it joins; in a cooperative one it keeps reading, gives up what is no longer assigned to it,
and joins once more, so that others get that (KIP-429).

The member also asks for the metadata of topics: what a regular expression matches, and, as the leader, how many
partitions there are; if that changes, it has the group rebalance.
"""

from __future__ import annotations

import logging
import re
from enum import Enum, auto
from typing import Final

from kraft.client.model.settings import ConsumerSettings
from kraft.client.sans_io.backoff import Backoff
from kraft.client.sans_io.group.assignors import COOPERATIVE, Counts, assign
from kraft.client.sans_io.group.consumer_protocol import (
    NO_GENERATION,
    MemberSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kraft.client.sans_io.group.member import GroupRequest, GroupResponse, MemberIdentity, MemberMachine
from kraft.client.sans_io.group.ownership import NO_TOPIC_ID, NOWHERE, Place
from kraft.metadata.topic_names import INTERNAL_TOPICS
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition
from kraft.model.metadata import MetadataRequest, MetadataResponse
from kraft.wire.errors import ProtocolError
from kraft.wire.schema import leave_group
from kraft.wire.schema.heartbeat import HeartbeatRequest, HeartbeatResponse
from kraft.wire.schema.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from kraft.wire.schema.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kraft.wire.schema.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

log = logging.getLogger("kraft.client")

_PROTOCOL_TYPE: Final = "consumer"


class _Phase(Enum):
    JOIN = auto()
    """JoinGroup is due, once the steps before it are done."""
    SYNC = auto()
    STABLE = auto()


class ClassicMember(MemberMachine):
    """Joins, synchronises, and sends heartbeats. The coordinator chooses the member id."""

    def __init__(self, settings: ConsumerSettings, backoff: Backoff) -> None:
        super().__init__(settings, "", backoff)
        self._names: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None
        self._topics: frozenset[str] = frozenset()
        """The names, and the topics that match the pattern."""
        self._phase = _Phase.JOIN
        self._asked_topics: frozenset[str] = frozenset()
        """The topics in the last JoinGroup."""
        self._gives_up = False
        """A cooperative rebalance takes partitions from this member: it joins again once it has given them up."""
        self._generation = NO_GENERATION
        self._protocol: str | None = None
        self._leads = False
        self._subscriptions: dict[str, MemberSubscription] = {}
        """As the leader: the subscription of each member, by its id."""
        self._instance_ids: dict[str, str | None] = {}
        self._skips_assignment = False
        self._watched: frozenset[str] = frozenset()
        """As the leader: the topics of all members."""
        self._counts: Counts | None = None
        """As the leader: the partition counts that were assigned by; None until they are known."""
        self._looked_up_ms: int | None = None
        """When metadata was received; None if it has to be asked for at once."""
        self._is_cooperative = settings.partition_assignment_strategy == (COOPERATIVE,)

    def subscribe(self, topics: frozenset[str], regex: str = "") -> None:
        """Subscribe to topics by name, by a regular expression of whole names, or both. Raises re.error."""
        self._names = topics
        self._pattern = re.compile(regex) if regex else None
        if self._pattern is None:
            self._set_topics(topics)
        else:
            self._looked_up_ms = None

    def identity(self) -> MemberIdentity | None:
        if self._generation == NO_GENERATION or self.ownership.is_losing:
            return None
        return MemberIdentity(self._member_id, self._settings.group_instance_id, self._generation)

    def _set_topics(self, topics: frozenset[str]) -> None:
        if topics != self._topics:
            self._topics = topics
            self._rebalance()

    def _rebalance(self) -> None:
        """Join the next generation, once there is nothing left to give up."""
        self._phase = _Phase.JOIN
        self._gives_up = False
        if self._is_cooperative:
            self.ownership.keep()
            self.ownership.aim(place for place in self.ownership.target if place.topic in self._topics)
        else:
            self.ownership.aim(NOWHERE)

    # --- requests ---------------------------------------------------------------------------------------------

    def _due_ms(self) -> int | None:
        if self._is_out:
            return None
        if self._is_leaving or self._needs_metadata:
            return 0
        heartbeat_at_ms = self._sent_ms + self._settings.heartbeat_interval_ms
        match self._phase:
            case _Phase.JOIN:
                return 0 if self.ownership.is_settled else heartbeat_at_ms
            case _Phase.SYNC:
                return 0
            case _Phase.STABLE:
                watch_at_ms = self._watch_at_ms
                return heartbeat_at_ms if watch_at_ms is None else min(heartbeat_at_ms, watch_at_ms)

    def _request(self) -> GroupRequest:
        if self._needs_metadata:
            return self._metadata_request()
        match self._phase:
            case _Phase.JOIN if self.ownership.is_settled:
                return self._join_request()
            case _Phase.SYNC:
                return self._sync_request()
            case _:
                watch_at_ms = self._watch_at_ms
                if watch_at_ms is not None and watch_at_ms < self._sent_ms + self._settings.heartbeat_interval_ms:
                    return self._metadata_request()
                return HeartbeatRequest(
                    group_id=self._group,
                    generation_id=self._generation,
                    member_id=self._member_id,
                    group_instance_id=self._settings.group_instance_id,
                )

    @property
    def _needs_metadata(self) -> bool:
        if self._phase is _Phase.SYNC:
            return self._leads and self._counts is None
        return self._pattern is not None and self._looked_up_ms is None

    @property
    def _watch_at_ms(self) -> int | None:
        """Return when a stable member asks for metadata again; None if nothing depends on it."""
        if self._phase is not _Phase.STABLE or not (self._leads or self._pattern is not None):
            return None
        return (self._looked_up_ms or 0) + self._settings.metadata_max_age_ms

    def _metadata_request(self) -> MetadataRequest:
        if self._pattern is not None:
            return MetadataRequest(topics=[], all_topics=True)
        return MetadataRequest(topics=sorted(self._watched))

    def _join_request(self) -> JoinGroupRequest:
        settings = self._settings
        self._asked_topics = self._topics
        subscription = MemberSubscription(
            topics=self._topics,
            owned=frozenset(TopicPartition(place.topic, place.partition) for place in self.ownership.owned),
            generation=self._generation,
            rack_id=settings.client_rack,
        )
        metadata = encode_subscription(subscription)
        return JoinGroupRequest(
            group_id=self._group,
            member_id=self._member_id,
            group_instance_id=settings.group_instance_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.max_poll_interval_ms,
            protocol_type=_PROTOCOL_TYPE,
            protocols=tuple(
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name in settings.partition_assignment_strategy
            ),
        )

    def _sync_request(self) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=self._group,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self._settings.group_instance_id,
            protocol_type=_PROTOCOL_TYPE,
            protocol_name=self._protocol,
            assignments=self._assignments() if self._leads and not self._skips_assignment else (),
        )

    def _leave_request(self) -> GroupRequest:
        reason = "the consumer is closed, unsubscribed or not polled"
        member = leave_group.MemberIdentity(member_id=self._member_id, reason=reason)
        return LeaveGroupRequest(group_id=self._group, members=(member,))

    # --- responses --------------------------------------------------------------------------------------------

    def _take(self, response: GroupResponse, now_ms: int) -> None:
        match response:
            case JoinGroupResponse():
                self._take_joined(response)
            case SyncGroupResponse():
                self._take_synced(response)
            case MetadataResponse():
                self._take_metadata(response, now_ms)
            case HeartbeatResponse() | LeaveGroupResponse():
                pass
            case _:
                raise AssertionError(f"{type(response).__name__} answers no request of this protocol")

    def _take_joined(self, response: JoinGroupResponse) -> None:
        self._member_id = response.member_id
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            return
        self._generation = response.generation_id
        if self._asked_topics != self._topics:
            # The subscription has changed since: the group has to know before anything is assigned.
            return
        self._phase = _Phase.SYNC
        self._protocol = response.protocol_name
        self._leads = response.leader == self._member_id
        self._skips_assignment = response.skip_assignment
        self._subscriptions = _subscriptions(response.members)
        self._instance_ids = {each.member_id: each.group_instance_id for each in response.members}
        self._watched = self._topics.union(*(each.topics for each in self._subscriptions.values()))
        self._counts = None

    def _take_synced(self, response: SyncGroupResponse) -> None:
        if self._phase is not _Phase.SYNC:
            # The subscription has changed since. What is owned stays the member's until it joins again.
            return
        self._phase = _Phase.STABLE
        try:
            assigned = decode_assignment(response.assignment)
        except ProtocolError as error:
            message = f"the assignment from the group's leader is unreadable: {error}"
            self._fail(Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message))
            return
        target = frozenset(Place(NO_TOPIC_ID, each.topic, each.partition) for each in assigned)
        # What is given up can be assigned to others only after this member has joined without it.
        self._gives_up = self._is_cooperative and not self.ownership.owned <= target
        self.ownership.aim(target)

    def _take_metadata(self, response: MetadataResponse, now_ms: int) -> None:
        self._looked_up_ms = now_ms
        before = self._counts or {}
        found = {
            topic.topic: len(topic.partitions) if topic.error_code is ErrorCode.NONE else before[topic.topic]
            for topic in response.topics
            if topic.error_code is ErrorCode.NONE
            or (topic.error_code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and topic.topic in before)
        }
        if self._leads:
            counts = {topic: found[topic] for topic in self._watched if topic in found}
            is_changed = self._phase is _Phase.STABLE and counts != self._counts
            self._counts = counts
            if is_changed:
                self._rebalance()
        if self._pattern is not None:
            matching = {topic for topic in found if topic not in INTERNAL_TOPICS and self._pattern.fullmatch(topic)}
            self._set_topics(self._names | matching)

    def _assignments(self) -> tuple[SyncGroupRequestAssignment, ...]:
        assert self._protocol is not None
        assert self._counts is not None
        assigned = assign(self._protocol, self._subscriptions, self._instance_ids, self._counts)
        return tuple(
            SyncGroupRequestAssignment(member_id=member_id, assignment=encode_assignment(partitions))
            for member_id, partitions in assigned.items()
        )

    def _take_refusal(self, code: ErrorCode, now_ms: int) -> bool:
        if code is not ErrorCode.REBALANCE_IN_PROGRESS:
            return False
        if self._phase is _Phase.JOIN:
            self._retry(now_ms, code.name)
        else:
            self._rebalance()
        return True

    def _missed(self) -> None:
        """Nothing to do: the same request is due again."""

    # --- joining and leaving ----------------------------------------------------------------------------------

    @property
    def _is_known(self) -> bool:
        # A static member does not leave: it is expected back, and its session ends if it does not come.
        return self._member_id != "" and self._settings.group_instance_id is None

    def _join(self) -> None:
        self._phase = _Phase.JOIN

    def _forget_membership(self, code: ErrorCode) -> None:
        self._generation = NO_GENERATION
        self._leads = self._gives_up = False
        self._phase = _Phase.JOIN
        if code is not ErrorCode.ILLEGAL_GENERATION:
            self._member_id = ""

    def _settled(self) -> None:
        if self._gives_up and self._phase is _Phase.STABLE and self.ownership.is_settled:
            self._rebalance()


def _subscriptions(members: tuple[JoinGroupResponseMember, ...]) -> dict[str, MemberSubscription]:
    """Return the members' subscriptions; one that cannot be read has no topics."""
    subscriptions = {}
    for member in members:
        try:
            subscriptions[member.member_id] = decode_subscription(member.metadata)
        except ProtocolError as error:
            log.warning("the subscription of member %s is unreadable, so it gets nothing: %s", member.member_id, error)
            subscriptions[member.member_id] = MemberSubscription(topics=frozenset())
    return subscriptions
