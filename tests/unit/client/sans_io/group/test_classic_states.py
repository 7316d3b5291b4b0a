from __future__ import annotations

import pytest

from kraft.client.sans_io.group.classic_states import _NEXT, ClassicMemberState, MemberEvent, after


def test_each_state_follows_from_the_first_one() -> None:
    reached, found = {ClassicMemberState.UNJOINED}, {ClassicMemberState.UNJOINED}
    while found:
        found = {after(state, event) for state in found for event in _NEXT[state]} - reached
        reached |= found
    assert reached == set(ClassicMemberState)


@pytest.mark.parametrize("state", ClassicMemberState)
def test_a_member_that_is_gone_has_to_join(state: ClassicMemberState) -> None:
    assert after(state, MemberEvent.GONE) is ClassicMemberState.UNJOINED


@pytest.mark.parametrize("state", [state for state in ClassicMemberState if state is not ClassicMemberState.UNJOINED])
def test_a_member_of_a_generation_joins_the_next_one_in_a_rebalance(state: ClassicMemberState) -> None:
    assert after(state, MemberEvent.REBALANCE) is ClassicMemberState.REJOINING


def test_an_event_that_cannot_come_is_our_mistake() -> None:
    with pytest.raises(AssertionError, match="ASSIGNED cannot come in state COUNTING"):
        after(ClassicMemberState.COUNTING, MemberEvent.ASSIGNED)
