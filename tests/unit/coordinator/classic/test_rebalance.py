"""A rebalance: the initial delay, who is waited for, which protocol and which leader the next generation has."""

from __future__ import annotations

from kraft.coordinator.classic.group import ClassicGroupState
from kraft.coordinator.classic.messages import JoinedGroup, MemberIdRequired
from kraft.model.errors import ErrorCode
from tests.unit.coordinator.classic.coordinator import REBALANCE_MS, SESSION_MS, Coordinator, protocols


def test_the_first_rebalance_of_an_empty_group_waits_for_the_initial_delay() -> None:
    coordinator = Coordinator(initial_rebalance_delay_ms=3_000)
    _, ticket = coordinator.join_with_id()
    coordinator.advance(2_999)
    assert coordinator.waits(ticket)
    coordinator.advance(1)
    assert coordinator.answer(ticket, JoinedGroup).generation == 1


def test_each_further_member_extends_the_initial_delay_once() -> None:
    coordinator = Coordinator(initial_rebalance_delay_ms=3_000)
    _, ticket = coordinator.join_with_id()
    coordinator.advance(2_000)
    coordinator.join_with_id()
    coordinator.advance(3_999)
    assert coordinator.waits(ticket)
    coordinator.advance(1)
    assert len(coordinator.answer(ticket, JoinedGroup).members) == 2


def test_the_initial_delay_is_extended_up_to_the_rebalance_timeout() -> None:
    coordinator = Coordinator(initial_rebalance_delay_ms=3_000)
    tickets = [coordinator.join_with_id(rebalance_timeout_ms=7_000)[1]]
    for _ in range(7):
        coordinator.advance(1_000 - 1)
        assert coordinator.waits(tickets[0])
        tickets.append(coordinator.join_with_id(rebalance_timeout_ms=7_000)[1])
        coordinator.advance(1)
    # 3 s, 3 s more of the 4 s that remained, then the last second.
    assert [coordinator.answer(ticket, JoinedGroup).generation for ticket in tickets] == [1] * 8


def test_without_an_initial_delay_the_rebalance_goes_on_at_once() -> None:
    coordinator = Coordinator(initial_rebalance_delay_ms=0)
    _, ticket = coordinator.join_with_id()
    coordinator.advance(0)
    assert coordinator.answer(ticket, JoinedGroup).generation == 1


def test_the_next_generation_begins_as_soon_as_all_members_have_joined() -> None:
    coordinator = Coordinator()
    members = coordinator.stable(3)
    tickets = [coordinator.join(member_id) for member_id in members]
    assert coordinator.state is ClassicGroupState.COMPLETING_REBALANCE
    assert {coordinator.answer(ticket, JoinedGroup).generation for ticket in tickets} == {2}


def test_a_rebalance_waits_for_ids_that_were_given_out() -> None:
    coordinator = Coordinator()
    members = coordinator.stable(1)
    pending = coordinator.answer(coordinator.join(), MemberIdRequired).member_id
    ticket = coordinator.join(members[0])
    assert coordinator.waits(ticket)
    coordinator.join(pending)
    assert coordinator.answer(ticket, JoinedGroup).generation == 2
    assert len(coordinator.live.members) == 2


def test_members_that_do_not_join_within_the_rebalance_timeout_are_removed() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.stable(session_timeout_ms=REBALANCE_MS * 2)
    ticket = coordinator.join(follower, protocols=protocols("range", topics="payments"))
    coordinator.advance(REBALANCE_MS)
    joined = coordinator.answer(ticket, JoinedGroup)
    assert (joined.leader, len(joined.members)) == (follower, 1)
    assert coordinator.refusal(coordinator.join(leader)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_rebalance_timeout_is_the_longest_of_all_members() -> None:
    coordinator = Coordinator()
    long, short = (coordinator.join_with_id(rebalance_timeout_ms=each)[0] for each in (90_000, 30_000))
    coordinator.advance(6_000)
    coordinator.settle([long, short])
    assert coordinator.live.rebalance_timeout_ms == 90_000


def test_a_rebalance_goes_on_once_the_id_that_it_waits_for_is_forgotten() -> None:
    coordinator = Coordinator()
    members = coordinator.stable(1)
    coordinator.join()
    ticket = coordinator.join(members[0])
    coordinator.advance(SESSION_MS)
    assert coordinator.answer(ticket, JoinedGroup).generation == 2


def test_the_leader_stays_the_leader_if_it_joins_again() -> None:
    coordinator = Coordinator()
    other = coordinator.answer(coordinator.join(), MemberIdRequired).member_id
    leader, _ = coordinator.join_with_id()
    coordinator.join(other)
    coordinator.advance(6_000)
    assert coordinator.settle([other, leader]) == [leader, other]
    coordinator.join(leader)
    ticket = coordinator.join(other)
    assert coordinator.answer(ticket, JoinedGroup).leader == leader


def test_assignments_of_an_earlier_generation_end_with_the_next_one_that_is_given_up() -> None:
    coordinator = Coordinator()
    members = coordinator.stable()
    for member_id in members:
        coordinator.join(member_id)
    assert coordinator.state is ClassicGroupState.COMPLETING_REBALANCE
    coordinator.join(members[1], protocols=protocols("range", topics="payments"))
    assert [member.assignment for member in coordinator.live.members.values()] == [b"", b""]


def test_only_the_leader_gets_the_members_and_their_metadata() -> None:
    coordinator = Coordinator()
    joins = [coordinator.join_with_id(protocols=protocols("range", topics=topic)) for topic in ("a", "b")]
    coordinator.advance(6_000)
    responses = [coordinator.answer(ticket, JoinedGroup) for _, ticket in joins]
    leader = next(each for each in responses if each.member_id == each.leader)
    follower = next(each for each in responses if each.member_id != each.leader)
    assert {member.metadata for member in leader.members} == {b"range:a", b"range:b"}
    assert follower.members == ()


def test_the_protocol_with_the_most_votes_among_those_that_all_support_is_selected() -> None:
    coordinator = Coordinator()
    for names in (("sticky", "range", "mine"), ("range", "sticky"), ("sticky", "range")):
        coordinator.join_with_id(protocols=protocols(*names))
    coordinator.advance(6_000)
    assert coordinator.live.protocol == "sticky"


def test_a_protocol_that_one_member_lacks_is_not_selected() -> None:
    coordinator = Coordinator()
    for names in (("mine", "range"), ("mine", "range"), ("range",)):
        coordinator.join_with_id(protocols=protocols(*names))
    coordinator.advance(6_000)
    assert coordinator.live.protocol == "range"


def test_a_protocol_that_is_offered_twice_counts_once() -> None:
    coordinator = Coordinator()
    coordinator.join_with_id(protocols=protocols("range", "range"))
    refused = coordinator.join(protocols=protocols("sticky"))
    assert coordinator.refusal(refused) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    coordinator.join_with_id(protocols=protocols("range"))
    assert dict(coordinator.live.supporters) == {"range": 2}


def test_if_all_members_leave_during_the_initial_delay_the_group_is_empty_after_it() -> None:
    coordinator = Coordinator(new_member_join_timeout_ms=1_000)
    _, ticket = coordinator.join_with_id()
    coordinator.advance(1_000)
    assert coordinator.refusal(ticket) is ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.state is ClassicGroupState.EMPTY
    assert coordinator.recorded is not None
    assert (coordinator.recorded.generation, coordinator.recorded.members) == (1, ())


def test_generations_begin_again_after_the_largest_number() -> None:
    coordinator = Coordinator()
    coordinator.stable(1)
    assert coordinator.recorded is not None
    coordinator.recorded.generation = 0x7FFFFFFF  # type: ignore[misc]  # A record of another program.
    coordinator.load()
    ticket = coordinator.join(next(iter(coordinator.live.members)))
    assert coordinator.answer(ticket, JoinedGroup).generation == 0
