from __future__ import annotations

from typing import Any

import pytest

from kraft.client.sans_io.group.classic_member import ClassicMember
from kraft.client.sans_io.group.consumer_protocol import (
    MemberSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kraft.client.sans_io.group.member import CommitIdentity
from kraft.client.sans_io.group.ownership import NO_TOPIC_ID, Assign, Lose, Place, Places, Revoke
from kraft.metadata.metadata_requests import metadata_of
from kraft.model.errors import ErrorCode
from kraft.wire.declaration import replace
from kraft.wire.schema.heartbeat import HeartbeatRequest, HeartbeatResponse
from kraft.wire.schema.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from kraft.wire.schema.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kraft.wire.schema.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kraft.wire.schema.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.support.client.fake_cluster import tp
from tests.unit.client.sans_io.group.members import BACKOFF, exchange, refuse, sent, settings, steps

COOPERATIVE: dict[str, Any] = {"partition_assignment_strategy": "cooperative-sticky"}


def places(*partitions: int) -> Places:
    return frozenset(Place(NO_TOPIC_ID, "orders", partition) for partition in partitions)


def joined(
    generation: int = 1, *, leads: bool = False, protocol: str = "range", skips: bool = False
) -> JoinGroupResponse:
    metadata = encode_subscription(MemberSubscription(topics=frozenset({"orders"})))
    members: tuple[JoinGroupResponseMember, ...] = ()
    if leads:
        members = tuple(
            JoinGroupResponseMember(member_id=each, group_instance_id=None, metadata=metadata) for each in ("m1", "m2")
        )
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        member_id="m1",
        generation_id=generation,
        protocol_type="consumer",
        protocol_name=protocol,
        leader="m1" if leads else "m2",
        members=members,
        skip_assignment=skips,
    )


def synced(*partitions: int) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type="consumer",
        protocol_name="range",
        assignment=encode_assignment(tp("orders", partition) for partition in partitions),
    )


def metadata(**counts: int) -> MetadataResponse:
    return MetadataResponse(
        brokers=(),
        topics=tuple(
            MetadataResponseTopic(
                error_code=ErrorCode.NONE,
                name=topic,
                partitions=tuple(
                    MetadataResponsePartition(
                        error_code=ErrorCode.NONE, partition_index=number, leader_id=1, replica_nodes=(), isr_nodes=()
                    )
                    for number in range(count)
                ),
            )
            for topic, count in counts.items()
        ),
    )


def subscribed(**given: Any) -> ClassicMember:
    member = ClassicMember(settings(**{"group_protocol": "classic", **given}), BACKOFF)
    member.subscribe(frozenset({"orders"}))
    member.poll_began()
    return member


def member_with(*partitions: int, leads: bool = False, **given: Any) -> ClassicMember:
    """Return a stable member of generation 1 that owns these partitions; its last request was sent at 0 ms."""
    member = subscribed(**given)
    exchange(member, joined(leads=leads))
    if leads:
        exchange(member, metadata(orders=4))
    exchange(member, synced(*partitions))
    steps(member)
    assert member.next_request(0) is None
    return member


def subscription_of(request: object) -> MemberSubscription:
    assert isinstance(request, JoinGroupRequest)
    return decode_subscription(request.protocols[0].metadata)


# --- joining ---------------------------------------------------------------------------------------------------------


def test_a_member_joins_with_the_id_that_the_coordinator_gives_to_it() -> None:
    member = subscribed(session_timeout_ms=10_000, max_poll_interval_ms=60_000, client_id="app")
    request = sent(member)
    assert isinstance(request, JoinGroupRequest)
    assert (request.member_id, request.session_timeout_ms, request.rebalance_timeout_ms) == ("", 10_000, 60_000)
    assert [each.name for each in request.protocols] == ["range", "roundrobin", "cooperative-sticky"]
    assert subscription_of(request) == MemberSubscription(topics=frozenset({"orders"}))
    assert member.waits_for_others
    required = JoinGroupResponse(
        error_code=ErrorCode.MEMBER_ID_REQUIRED,
        member_id="m1",
        protocol_name=None,
        leader="",
        members=(),
    )
    member.answered(required, 1)
    again = sent(member, 1)
    assert isinstance(again, JoinGroupRequest)
    assert again.member_id == "m1"
    assert member.identity() is None


def test_a_follower_gets_its_assignment_from_the_leader() -> None:
    member = subscribed()
    exchange(member, joined(generation=3))
    request = exchange(member, synced(0, 2))
    assert request == SyncGroupRequest(
        assignments=(),
        group_id="billing",
        generation_id=3,
        member_id="m1",
        protocol_type="consumer",
        protocol_name="range",
    )
    assert steps(member) == [Assign(places(0, 2))]
    assert member.identity() == CommitIdentity("m1", None, 3)


def test_the_leader_asks_for_metadata_and_assigns() -> None:
    member = subscribed()
    exchange(member, joined(leads=True))
    assert exchange(member, metadata(orders=4)) == metadata_of(["orders"])
    request = sent(member)
    assert isinstance(request, SyncGroupRequest)
    assert {each.member_id: decode_assignment(each.assignment) for each in request.assignments} == {
        "m1": {tp("orders", 0), tp("orders", 1)},
        "m2": {tp("orders", 2), tp("orders", 3)},
    }


def test_a_leader_that_is_to_skip_the_assignment_sends_none() -> None:
    member = subscribed(group_instance_id="i")
    exchange(member, joined(leads=True, skips=True))
    exchange(member, metadata(orders=4))
    request = sent(member)
    assert isinstance(request, SyncGroupRequest)
    assert request.assignments == ()


def test_a_member_of_another_client_with_an_unreadable_subscription_gets_nothing() -> None:
    member = subscribed()
    sent(member)
    broken = JoinGroupResponseMember(member_id="m2", group_instance_id=None, metadata=b"\xff\xff")
    (own, _) = joined(leads=True).members
    member.answered(
        replace(joined(leads=True), members=(own, broken)),
        1,
    )
    exchange(member, metadata(orders=1))
    request = sent(member)
    assert isinstance(request, SyncGroupRequest)
    assert [len(decode_assignment(each.assignment)) for each in request.assignments] == [1, 0]


def test_an_unreadable_assignment_ends_the_membership() -> None:
    member = subscribed()
    exchange(member, joined())
    exchange(member, replace(synced(), assignment=b"\xff\xff"))
    assert member.error is not None
    assert "the assignment from the group's leader is unreadable" in str(member.error)


# --- heartbeats and rebalances ---------------------------------------------------------------------------------------


def test_a_stable_member_sends_heartbeats() -> None:
    member = member_with(0)
    assert member.next_wake_ms() == 3_000
    request = exchange(member, HeartbeatResponse(error_code=0), 3_000)
    assert request == HeartbeatRequest(group_id="billing", generation_id=1, member_id="m1")
    assert member.next_wake_ms() == 6_000


def test_in_an_eager_rebalance_everything_is_given_up_before_the_member_joins() -> None:
    member = member_with(0, 1)
    refuse(member, ErrorCode.REBALANCE_IN_PROGRESS, 3_000)
    assert member.next_request(3_100) is None
    assert member.identity() == CommitIdentity("m1", None, 1), "it may still commit"
    assert isinstance(sent(member, 6_000), HeartbeatRequest), "its session goes on until the user polls"
    member.answered(HeartbeatResponse(error_code=0), 6_001)
    assert steps(member) == [Revoke(places(0, 1))]
    assert subscription_of(sent(member, 6_002)).owned == frozenset()


def test_in_a_cooperative_rebalance_a_member_joins_with_what_it_owns_and_again_without_what_moves() -> None:
    member = member_with(0, 1, **COOPERATIVE)
    refuse(member, ErrorCode.REBALANCE_IN_PROGRESS, 3_000)
    assert steps(member) == []
    first = subscription_of(exchange(member, joined(generation=2), 3_001))
    assert (first.owned, first.generation) == (frozenset({tp("orders", 0), tp("orders", 1)}), 1)
    exchange(member, synced(0), 3_002)
    assert member.next_request(3_003) is None
    assert steps(member) == [Revoke(places(1))]
    second = subscription_of(exchange(member, joined(generation=3), 3_004))
    assert (second.owned, second.generation) == (frozenset({tp("orders", 0)}), 2)
    exchange(member, synced(0), 3_005)
    assert (steps(member), member.next_request(3_006)) == ([], None)


def test_a_cooperative_member_that_only_gains_does_not_join_again() -> None:
    member = member_with(0, **COOPERATIVE)
    refuse(member, ErrorCode.REBALANCE_IN_PROGRESS, 3_000)
    exchange(member, joined(generation=2), 3_001)
    exchange(member, synced(0, 1), 3_002)
    assert steps(member) == [Assign(places(1))]
    assert member.next_request(3_003) is None


def test_a_cooperative_member_gives_up_topics_that_it_no_longer_subscribes_to_before_it_joins() -> None:
    member = member_with(0, **COOPERATIVE)
    member.subscribe(frozenset({"returns"}))
    assert member.next_request(1) is None
    assert steps(member) == [Revoke(places(0))]
    assert subscription_of(sent(member, 2)) == MemberSubscription(topics=frozenset({"returns"}), generation=1)


def test_a_subscription_that_changes_while_the_member_joins_is_joined_with() -> None:
    member = subscribed()
    sent(member)
    member.subscribe(frozenset({"returns"}))
    member.answered(joined(), 1)
    assert subscription_of(sent(member, 2)).topics == {"returns"}


def test_a_subscription_that_changes_while_the_member_joins_again_is_joined_with() -> None:
    member = member_with()
    refuse(member, ErrorCode.REBALANCE_IN_PROGRESS, 3_000)
    sent(member, 3_001)
    member.subscribe(frozenset({"returns"}))
    member.answered(joined(generation=2), 3_002)
    assert subscription_of(sent(member, 3_003)) == MemberSubscription(topics=frozenset({"returns"}), generation=2)


def test_a_rebalance_during_a_sync_begins_it_again() -> None:
    member = subscribed()
    exchange(member, joined())
    assert isinstance(refuse(member, ErrorCode.REBALANCE_IN_PROGRESS), SyncGroupRequest)
    assert isinstance(sent(member), JoinGroupRequest)


def test_a_follower_does_not_ask_for_metadata() -> None:
    member = member_with(0, metadata_max_age_ms=2_000)
    assert isinstance(sent(member, 3_000), HeartbeatRequest)


def test_a_leader_has_the_group_rebalance_when_topics_grow() -> None:
    member = member_with(0, leads=True, metadata_max_age_ms=2_000)
    assert isinstance(exchange(member, metadata(orders=4), 2_000), MetadataRequest)
    assert member.next_request(2_001) is None
    exchange(member, metadata(orders=5), 4_000)
    assert steps(member) == [Revoke(places(0))]
    assert isinstance(sent(member, 4_001), JoinGroupRequest)


def test_a_pattern_is_matched_by_the_member_before_it_joins_and_while_it_is_stable() -> None:
    member = ClassicMember(settings(group_protocol="classic", metadata_max_age_ms=2_000), BACKOFF)
    member.subscribe(frozenset(), "ord.*|__.*")
    member.poll_began()
    found = metadata(orders=1, returns=1, __consumer_offsets=50)
    assert exchange(member, found) == metadata_of(None)
    assert subscription_of(exchange(member, joined())).topics == {"orders"}
    exchange(member, synced(0))
    steps(member)
    exchange(member, metadata(orders=1, ordinary=1), 2_000)
    steps(member)
    assert subscription_of(sent(member, 2_001)).topics == {"orders", "ordinary"}


# --- errors and leaving ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "member_id"), [(ErrorCode.UNKNOWN_MEMBER_ID, ""), (ErrorCode.ILLEGAL_GENERATION, "m1")]
)
def test_an_excluded_member_loses_its_partitions_before_it_joins_again(code: ErrorCode, member_id: str) -> None:
    member = member_with(0, **COOPERATIVE)
    refuse(member, code, 3_000)
    assert (member.identity(), member.next_request(60_000)) == (None, None)
    assert steps(member) == [Lose(places(0))]
    request = sent(member, 60_001)
    assert isinstance(request, JoinGroupRequest)
    assert request.member_id == member_id
    assert subscription_of(request).owned == frozenset()


def test_a_lost_response_is_asked_for_again() -> None:
    member = subscribed()
    first = sent(member)
    member.lost(10)
    assert sent(member, 110) == first
    member.answered(joined(), 111)
    second = sent(member, 112)
    member.lost(113)
    assert sent(member, 213) == second


def test_a_member_leaves_and_a_static_one_does_not() -> None:
    member = member_with(0)
    member.leave()
    request = exchange(member, LeaveGroupResponse(error_code=0), 1)
    assert isinstance(request, LeaveGroupRequest)
    assert [each.member_id for each in request.members] == ["m1"]
    assert member.has_left
    static = member_with(0, group_instance_id="i")
    static.leave()
    assert (static.has_left, static.next_request(1)) == (True, None)


def test_a_consumer_that_is_not_polled_leaves_until_it_is() -> None:
    member = member_with(0, max_poll_interval_ms=1_000)
    member.poll_ended(0)
    assert isinstance(exchange(member, LeaveGroupResponse(error_code=0), 1_000), LeaveGroupRequest)
    assert member.next_request(60_000) is None
    member.poll_began()
    assert steps(member) == [Lose(places(0))]
    assert isinstance(sent(member, 60_001), JoinGroupRequest)
