from __future__ import annotations

import logging
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest

from kraft.client.sans_io.group.consumer_member import ConsumerMember
from kraft.client.sans_io.group.member import FAILURES_LOGGED, CommitIdentity
from kraft.client.sans_io.group.ownership import Assign, Lose, Place, Places, Revoke, Step
from kraft.model.errors import ErrorCode
from kraft.model.ids import TopicId
from kraft.wire.schema.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.unit.client.sans_io.group.members import BACKOFF, exchange, refuse, sent, settings, steps

ORDERS = TopicId(UUID(int=1))

EXCLUDED = [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND]


def assignment(*partitions: int, topic: str = "orders") -> Assignment:
    return Assignment(topic_partitions=(TopicPartitions(topic_id=ORDERS, topic_name=topic, partitions=partitions),))


def places(*partitions: int) -> Places:
    return frozenset(Place(ORDERS, "orders", partition) for partition in partitions)


def response(epoch: int, assigned: Assignment | None = None) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=0, member_id="m1", member_epoch=epoch, heartbeat_interval_ms=5_000, assignment=assigned
    )


def heartbeat(member: ConsumerMember, now_ms: int = 0) -> ConsumerGroupHeartbeatRequest:
    request = sent(member, now_ms)
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    return request


def owned(request: object) -> list[int] | None:
    """Return the partitions of `orders` that a heartbeat says are owned; None if it says nothing."""
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    if request.topic_partitions is None:
        return None
    return [partition for topic in request.topic_partitions for partition in topic.partitions]


def subscribed(**given: Any) -> ConsumerMember:
    member = ConsumerMember(settings(**given), "m1", BACKOFF)
    member.subscribe(frozenset({"orders"}))
    return member


def member_with(*partitions: int, **given: Any) -> ConsumerMember:
    """Return a member in epoch 1 that owns these partitions, and has said so at 0 ms."""
    member = subscribed(**given)
    member.poll_began()
    exchange(member, response(1, assignment(*partitions)))
    steps(member)
    if partitions:
        exchange(member, response(1))
    assert member.next_request(0) is None
    return member


# --- joining ---------------------------------------------------------------------------------------------------------


def test_a_member_joins_with_everything_that_the_coordinator_has_to_know() -> None:
    member = subscribed(client_rack="a", group_remote_assignor="range", max_poll_interval_ms=60_000)
    member.poll_began()
    assert heartbeat(member) == ConsumerGroupHeartbeatRequest(
        group_id="billing",
        member_id="m1",
        member_epoch=0,
        rack_id="a",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=("orders",),
        server_assignor="range",
        topic_partitions=(),
    )


def test_a_consumer_that_is_not_polled_does_not_join() -> None:
    member = subscribed()
    assert (member.next_request(0), member.next_wake_ms(), member.identity()) == (None, None, None)


def test_an_assignment_is_acknowledged_at_once_with_what_is_owned_then() -> None:
    member = subscribed()
    member.poll_began()
    exchange(member, response(1, assignment(0, 1)))
    assert member.next_request(1) is None
    assert steps(member) == [Assign(places(0, 1))]
    request = exchange(member, response(1), 2)
    assert owned(request) == [0, 1]
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    assert (request.member_epoch, request.subscribed_topic_names, request.rebalance_timeout_ms) == (1, None, -1)
    assert member.identity() == CommitIdentity("m1", None, 1)


@pytest.mark.parametrize(("names", "regex"), [((), "orders-.*"), (("orders", "bills"), "")])
def test_the_first_partitions_are_asked_for_soon(names: tuple[str, ...], regex: str) -> None:
    """The coordinator resolves the expression, or assigns a large group, after its response."""
    member = ConsumerMember(settings(), "m1", BACKOFF)
    member.subscribe(frozenset(names), regex)
    member.poll_began()
    now_ms, sent_ms = 0, []
    for _ in range(9):
        exchange(member, response(1), now_ms)
        sent_ms.append(now_ms)
        now_ms = member.next_wake_ms() or 0
    pauses = [later - earlier for earlier, later in pairwise(sent_ms)]
    assert pauses == [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]
    exchange(member, response(2, assignment(0)), now_ms)
    steps(member)
    exchange(member, response(2), now_ms)
    assert member.next_wake_ms() == now_ms + 5_000


def test_heartbeats_come_at_the_interval_of_the_coordinator_and_say_only_what_has_changed() -> None:
    member = member_with(0)
    assert (member.next_wake_ms(), member.next_request(4_999)) == (5_000, None)
    assert heartbeat(member, 5_000) == ConsumerGroupHeartbeatRequest(group_id="billing", member_id="m1", member_epoch=1)
    assert member.next_request(20_000) is None


# --- reconciliation --------------------------------------------------------------------------------------------------


def test_revoked_partitions_are_acknowledged_before_others_come() -> None:
    member = member_with(0, 1)
    exchange(member, response(1, assignment(0)), 5_000)
    assert member.ownership.next_step() == Revoke(places(1))
    # The step runs: heartbeats go on and do not say that the partition is free.
    assert owned(exchange(member, response(1), 10_000)) is None
    member.step_done()
    assert owned(exchange(member, response(2, assignment(0, 2)), 10_001)) == [0]
    assert steps(member) == [Assign(places(2))]
    assert owned(exchange(member, response(2), 10_002)) == [0, 2]


def test_a_heartbeat_between_two_steps_does_not_acknowledge() -> None:
    member = member_with(0)
    exchange(member, response(2, assignment(1)), 5_000)
    assert member.ownership.next_step() == Revoke(places(0))
    member.step_done()
    assert owned(exchange(member, response(2), 10_000)) is None
    assert steps(member) == [Assign(places(1))]
    assert owned(heartbeat(member, 10_001)) == [1]


def test_an_assignment_that_changes_nothing_is_not_acknowledged() -> None:
    member = member_with(0)
    exchange(member, response(2, assignment(0)), 5_000)
    assert (steps(member), member.next_request(5_001)) == ([], None)
    identity = member.identity()
    assert identity is not None
    assert identity.epoch == 2


def test_partitions_of_a_deleted_topic_have_no_name_and_are_given_up() -> None:
    member = member_with(0)
    exchange(member, response(2, assignment(0, topic="")), 5_000)
    assert steps(member) == [Revoke(places(0))]


def test_a_new_subscription_is_sent_at_once() -> None:
    member = member_with(0)
    member.subscribe(frozenset({"orders", "returns"}))
    request = heartbeat(member, 1)
    assert request.subscribed_topic_names == ("orders", "returns")
    assert (request.subscribed_topic_regex, request.topic_partitions) == (None, None)
    member.subscribe(frozenset(), "ord.*")
    member.answered(response(1), 2)
    request = heartbeat(member, 2)
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == ((), "ord.*")
    member.answered(response(1), 3)
    member.subscribe(frozenset({"orders"}))
    assert heartbeat(member, 3).subscribed_topic_regex == ""


# --- errors ----------------------------------------------------------------------------------------------------------


def test_after_a_lost_response_everything_is_said_again() -> None:
    member = member_with(0)
    sent(member, 5_000)
    member.lost(5_100)
    assert (member.next_wake_ms(), member.next_request(5_199)) == (5_200, None)
    request = heartbeat(member, 5_200)
    assert (request.subscribed_topic_names, owned(request), request.rebalance_timeout_ms) == (
        ("orders",),
        [0],
        300_000,
    )


def test_a_retriable_refusal_is_retried_after_the_backoff() -> None:
    member = member_with(0)
    refuse(member, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 5_000)
    assert member.next_wake_ms() == 5_100
    refuse(member, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 5_100)
    assert member.next_wake_ms() == 5_300
    exchange(member, response(1), 5_300)
    assert member.next_wake_ms() == 10_300


def test_requests_that_keep_failing_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    member = member_with(0)
    for number in range(2 * FAILURES_LOGGED):
        sent(member, 10_000 * (number + 1))
        member.lost(10_000 * (number + 1), "connection refused")
    assert caplog.messages == ["group billing: 5 requests in a row have failed, the last one: connection refused"]


@pytest.mark.parametrize("code", EXCLUDED)
def test_an_excluded_member_loses_its_partitions_before_it_joins_again(code: ErrorCode) -> None:
    member = member_with(0, 1)
    refuse(member, code, 5_000)
    assert (member.identity(), member.next_request(60_000)) == (None, None)
    assert steps(member) == [Lose(places(0, 1))]
    request = heartbeat(member, 60_001)
    assert (request.member_epoch, owned(request), request.member_id) == (0, [], "m1")


def test_an_excluded_member_that_owns_nothing_joins_again_at_once() -> None:
    member = member_with()
    refuse(member, ErrorCode.FENCED_MEMBER_EPOCH, 5_000)
    assert heartbeat(member, 5_001).member_epoch == 0


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.INVALID_REQUEST,
    ],
)
def test_another_refusal_ends_the_membership_and_is_kept(code: ErrorCode, caplog: pytest.LogCaptureFixture) -> None:
    member = member_with(0)
    refuse(member, code, 5_000)
    assert member.error is not None
    assert str(member.error) == f"{code.name}: group billing: because"
    assert caplog.records == [], "the next poll raises it"
    assert steps(member) == [Lose(places(0))]
    assert (member.next_request(60_000), member.next_wake_ms()) == (None, None)


@pytest.mark.parametrize("code", [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED])
def test_a_member_without_the_right_goes_on_trying_until_it_has_it(code: ErrorCode) -> None:
    member = member_with(0)
    for now_ms in (5_000, 10_000):
        refuse(member, code, now_ms)
        assert str(member.misfit) == f"{code.name}: group billing: because"
        member.misfit = None
    assert (member.error, steps(member)) == (None, []), "the group may still know it"
    assert heartbeat(member, 20_000).member_epoch == 1
    assert member.misfit is None


# --- leaving ---------------------------------------------------------------------------------------------------------


def test_a_member_leaves_with_epoch_minus_one_and_a_static_one_with_minus_two() -> None:
    for given, epoch, instance_id in (({}, -1, None), ({"group_instance_id": "i1"}, -2, "i1")):
        member = member_with(0, **given)
        member.leave()
        request = exchange(member, response(epoch), 1)
        assert isinstance(request, ConsumerGroupHeartbeatRequest)
        assert (request.member_epoch, request.instance_id, request.topic_partitions) == (epoch, instance_id, None)
        assert member.has_left
        assert member.next_request(60_000) is None


def test_a_member_leaves_after_the_response_to_its_heartbeat() -> None:
    member = member_with(0)
    sent(member, 5_000)
    member.leave()
    assert member.next_request(5_001) is None
    member.lost(5_002)
    assert heartbeat(member, 5_002).member_epoch == -1


def test_one_attempt_to_leave_is_enough() -> None:
    member = member_with(0)
    member.leave()
    sent(member, 1)
    member.lost(2)
    assert member.has_left
    refused = member_with(0)
    refused.leave()
    refuse(refused, ErrorCode.UNKNOWN_MEMBER_ID, 1)
    assert refused.has_left


def test_a_member_whose_join_is_not_answered_leaves_too() -> None:
    member = subscribed()
    member.poll_began()
    sent(member)
    member.leave()
    assert not member.has_left
    member.lost(1)
    assert heartbeat(member, 1).member_epoch == -1


def test_a_member_that_never_joined_has_nothing_to_leave() -> None:
    member = subscribed()
    member.leave()
    assert member.has_left


# --- idle consumers --------------------------------------------------------------------------------------------------


def test_a_consumer_that_is_not_polled_leaves_until_it_is(caplog: pytest.LogCaptureFixture) -> None:
    member = member_with(0, max_poll_interval_ms=60_000)
    member.poll_ended(1_000)
    exchange(member, response(1), 60_999)
    assert member.next_wake_ms() == 61_000
    with caplog.at_level(logging.WARNING, "kraft.client"):
        assert heartbeat(member, 61_000).member_epoch == -1
    assert "it was not polled for max.poll.interval.ms=60000" in caplog.text
    member.answered(response(-1), 61_001)
    assert (member.next_request(100_000), member.has_left) == (None, False)
    member.poll_began()
    assert steps(member) == [Lose(places(0))]
    assert heartbeat(member, 100_001).member_epoch == 0


def test_a_poll_that_waits_long_is_not_idle() -> None:
    member = member_with(0, max_poll_interval_ms=60_000)
    member.poll_ended(1_000)
    member.poll_began()
    assert heartbeat(member, 200_000).member_epoch == 1


def test_the_steps_of_a_member_are_those_of_its_last_assignment() -> None:
    member = member_with(0)
    exchange(member, response(2, assignment(1)), 5_000)
    exchange(member, response(3, assignment(0, 2)), 10_000)
    expected: list[Step] = [Assign(places(2))]
    assert steps(member) == expected
