"""A member of a group of the classic protocol, in which one member, the leader, assigns.

A rebalance has two requests: JoinGroup waits for all members, SyncGroup for the leader's assignment. Heartbeats show
in between that the member is alive, and their responses that a rebalance has begun. In an eager rebalance every member
gives up what it owns before it joins; in a cooperative one it keeps reading, gives up what is no longer assigned to it,
and joins once more, so that others get that (KIP-429).

The member also asks for the metadata of topics: what a regular expression matches, and, as the leader, how many
partitions there are; if that changes, it has the group rebalance.
"""

from __future__ import annotations

import re
from typing import Final

from kraft.client.model.settings import ConsumerSettings
from kraft.client.sans_io.backoff import Backoff
from kraft.client.sans_io.group.assignors import COOPERATIVE
from kraft.client.sans_io.group.classic_states import ClassicMemberState, MemberEvent, after
from kraft.client.sans_io.group.consumer_protocol import (
    NO_GENERATION,
    MemberSubscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from kraft.client.sans_io.group.leadership import Leadership
from kraft.client.sans_io.group.member import CommitIdentity, GroupRequest, GroupResponse, MemberMachine
from kraft.client.sans_io.group.ownership import NO_TOPIC_ID, NOWHERE, Place
from kraft.metadata.metadata_requests import metadata_of
from kraft.metadata.topic_names import INTERNAL_TOPICS
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition
from kraft.wire.errors import ProtocolError
from kraft.wire.schema import leave_group
from kraft.wire.schema.heartbeat import HeartbeatRequest, HeartbeatResponse
from kraft.wire.schema.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kraft.wire.schema.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kraft.wire.schema.metadata import MetadataRequest, MetadataResponse
from kraft.wire.schema.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

_PROTOCOL_TYPE: Final = "consumer"


class ClassicMember(MemberMachine):
    """Joins, synchronises, and sends heartbeats. The coordinator chooses the member id."""

    def __init__(self, settings: ConsumerSettings, backoff: Backoff) -> None:
        super().__init__(settings, "", backoff)
        self._names: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None
        self._topics: frozenset[str] = frozenset()
        """The names, and the topics that match the pattern."""
        self._state = ClassicMemberState.UNJOINED
        self._asked_topics: frozenset[str] = frozenset()
        """The topics in the last JoinGroup."""
        self._generation = NO_GENERATION
        self._protocol: str | None = None
        self._skips_assignment = False
        self._leadership: Leadership | None = None
        """Of the generation that it has joined last, if it leads that one."""
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

    def identity(self) -> CommitIdentity | None:
        if self._state is ClassicMemberState.UNJOINED or self.ownership.is_losing:
            return None
        return CommitIdentity(self._member_id, self._settings.group_instance_id, self._generation)

    def _set_topics(self, topics: frozenset[str]) -> None:
        if topics != self._topics:
            self._topics = topics
            self._rebalance()

    def _rebalance(self) -> None:
        """Join the next generation, once there is nothing left to give up."""
        self._state = after(self._state, MemberEvent.REBALANCE)
        if self._is_cooperative:
            self.ownership.keep()
            self.ownership.aim(place for place in self.ownership.target if place.topic in self._topics)
        else:
            self.ownership.aim(NOWHERE)

    # --- requests ---------------------------------------------------------------------------------------------

    def _due_ms(self) -> int | None:
        if self._is_out:
            return None
        if self._is_leaving:
            return 0
        metadata_at_ms, heartbeat_at_ms = self._metadata_at_ms, self._sent_ms + self._settings.heartbeat_interval_ms
        is_joining = self._state in (ClassicMemberState.UNJOINED, ClassicMemberState.REJOINING)
        if self._state is ClassicMemberState.SYNCING or (is_joining and self.ownership.is_settled):
            return 0
        return heartbeat_at_ms if metadata_at_ms is None else min(heartbeat_at_ms, metadata_at_ms)

    def _request(self) -> GroupRequest:
        metadata_at_ms, heartbeat_at_ms = self._metadata_at_ms, self._sent_ms + self._settings.heartbeat_interval_ms
        match self._state:
            case _ if metadata_at_ms is not None and metadata_at_ms < heartbeat_at_ms:
                return self._metadata_request()
            case ClassicMemberState.UNJOINED | ClassicMemberState.REJOINING if self.ownership.is_settled:
                return self._join_request()
            case ClassicMemberState.SYNCING:
                return self._sync_request()
            case _:
                return HeartbeatRequest(
                    group_id=self._group,
                    generation_id=self._generation,
                    member_id=self._member_id,
                    group_instance_id=self._settings.group_instance_id,
                )

    @property
    def _metadata_at_ms(self) -> int | None:
        """Return when metadata is due, 0 for at once; None if nothing depends on it in this state."""
        is_unmatched = self._pattern is not None and self._looked_up_ms is None
        match self._state:
            case ClassicMemberState.SYNCING:
                return None
            case ClassicMemberState.COUNTING:
                return 0
            case _ if is_unmatched:
                return 0
            case ClassicMemberState.STABLE | ClassicMemberState.GIVING_UP if self._leadership or self._pattern:
                return (self._looked_up_ms or 0) + self._settings.metadata_max_age_ms
            case _:
                return None

    def _metadata_request(self) -> MetadataRequest:
        if self._pattern is not None:
            return metadata_of(None)
        assert self._leadership is not None, "without a pattern only the leader asks for metadata"
        return metadata_of(sorted(self._leadership.topics))

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
        leadership = None if self._skips_assignment else self._leadership
        assigned = {} if leadership is None else leadership.assignments()
        assignments = tuple(
            SyncGroupRequestAssignment(member_id=member_id, assignment=encode_assignment(partitions))
            for member_id, partitions in assigned.items()
        )
        return SyncGroupRequest(
            group_id=self._group,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self._settings.group_instance_id,
            protocol_type=_PROTOCOL_TYPE,
            protocol_name=self._protocol,
            assignments=assignments,
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
            self._state = after(self._state, MemberEvent.JOINED_OUTDATED)
            return
        self._protocol = response.protocol_name
        self._skips_assignment = response.skip_assignment
        if response.leader == self._member_id:
            self._state = after(self._state, MemberEvent.JOINED_AS_LEADER)
            self._leadership = Leadership(response.protocol_name or "", response.members, self._topics)
        else:
            self._state = after(self._state, MemberEvent.JOINED)
            self._leadership = None

    def _take_synced(self, response: SyncGroupResponse) -> None:
        if self._state is not ClassicMemberState.SYNCING:
            # The subscription has changed since. What is owned stays the member's until it joins again.
            return
        try:
            assigned = decode_assignment(response.assignment)
        except ProtocolError as error:
            message = f"the assignment from the group's leader is unreadable: {error}"
            self._fail(Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message))
            return
        target = frozenset(Place(NO_TOPIC_ID, each.topic, each.partition) for each in assigned)
        # What is given up can be assigned to others only after this member has joined without it.
        gives_up = self._is_cooperative and not self.ownership.owned <= target
        self._state = after(self._state, MemberEvent.ASSIGNED_LESS if gives_up else MemberEvent.ASSIGNED)
        self.ownership.aim(target)

    def _take_metadata(self, response: MetadataResponse, now_ms: int) -> None:
        self._looked_up_ms = now_ms
        before = {} if self._leadership is None else self._leadership.counts
        found = {
            name: len(topic.partitions) if topic.error_code == ErrorCode.NONE else before[name]
            for topic in response.topics
            if (name := topic.name)
            and (
                topic.error_code == ErrorCode.NONE
                or (topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and name in before)
            )
        }
        is_changed = self._leadership is not None and self._leadership.count(found)
        if self._state is ClassicMemberState.COUNTING:
            self._state = after(self._state, MemberEvent.COUNTED)
        elif is_changed and self._state in (ClassicMemberState.STABLE, ClassicMemberState.GIVING_UP):
            self._rebalance()
        if self._pattern is not None:
            matching = {topic for topic in found if topic not in INTERNAL_TOPICS and self._pattern.fullmatch(topic)}
            self._set_topics(self._names | matching)

    def _take_refusal(self, code: ErrorCode, now_ms: int) -> bool:
        if code is not ErrorCode.REBALANCE_IN_PROGRESS:
            return False
        if self._state in (ClassicMemberState.UNJOINED, ClassicMemberState.REJOINING):
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
        assert self._state is ClassicMemberState.UNJOINED, "it has left the group, or was excluded"

    def _forget_membership(self, code: ErrorCode) -> None:
        self._generation = NO_GENERATION
        self._leadership = None
        self._state = after(self._state, MemberEvent.GONE)
        if code is not ErrorCode.ILLEGAL_GENERATION:
            self._member_id = ""

    def _settled(self) -> None:
        if self._state is ClassicMemberState.GIVING_UP and self.ownership.is_settled:
            self._rebalance()
