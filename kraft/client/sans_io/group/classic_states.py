"""States of a member of a classic group, and the events that lead from one to the next."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final


class ClassicMemberState(Enum):
    """What a member is about to do."""

    UNJOINED = auto()
    """Join: the group does not have it. The coordinator may give it an id first, to join with."""

    REJOINING = auto()
    """Join the next generation, once it has given up what the rebalance takes; heartbeats until then."""

    COUNTING = auto()
    """As the leader: ask how many partitions the topics of all members have."""

    SYNCING = auto()
    """Ask for its assignment; as the leader, with the assignments of all members."""

    STABLE = auto()
    """Send heartbeats."""

    GIVING_UP = auto()
    """Send heartbeats, and join again once it has given up what a cooperative rebalance takes from it."""


class MemberEvent(Enum):
    """What happens to a member."""

    REBALANCE = auto()
    """The group, or what this member subscribes to, has changed."""

    JOINED = auto()
    JOINED_AS_LEADER = auto()
    JOINED_OUTDATED = auto()
    """It has joined with a subscription that has changed since."""

    COUNTED = auto()
    ASSIGNED = auto()
    ASSIGNED_LESS = auto()
    """What it keeps reading in a cooperative rebalance is more than its assignment."""

    GONE = auto()
    """It has left the group, or was excluded."""


_NEXT: Final[Mapping[ClassicMemberState, Mapping[MemberEvent, ClassicMemberState]]] = {
    ClassicMemberState.UNJOINED: {
        MemberEvent.REBALANCE: ClassicMemberState.UNJOINED,
        MemberEvent.JOINED: ClassicMemberState.SYNCING,
        MemberEvent.JOINED_AS_LEADER: ClassicMemberState.COUNTING,
        MemberEvent.JOINED_OUTDATED: ClassicMemberState.REJOINING,
        MemberEvent.GONE: ClassicMemberState.UNJOINED,
    },
    ClassicMemberState.REJOINING: {
        MemberEvent.REBALANCE: ClassicMemberState.REJOINING,
        MemberEvent.JOINED: ClassicMemberState.SYNCING,
        MemberEvent.JOINED_AS_LEADER: ClassicMemberState.COUNTING,
        MemberEvent.JOINED_OUTDATED: ClassicMemberState.REJOINING,
        MemberEvent.GONE: ClassicMemberState.UNJOINED,
    },
    ClassicMemberState.COUNTING: {
        MemberEvent.COUNTED: ClassicMemberState.SYNCING,
        MemberEvent.REBALANCE: ClassicMemberState.REJOINING,
        MemberEvent.GONE: ClassicMemberState.UNJOINED,
    },
    ClassicMemberState.SYNCING: {
        MemberEvent.ASSIGNED: ClassicMemberState.STABLE,
        MemberEvent.ASSIGNED_LESS: ClassicMemberState.GIVING_UP,
        MemberEvent.REBALANCE: ClassicMemberState.REJOINING,
        MemberEvent.GONE: ClassicMemberState.UNJOINED,
    },
    ClassicMemberState.STABLE: {
        MemberEvent.REBALANCE: ClassicMemberState.REJOINING,
        MemberEvent.GONE: ClassicMemberState.UNJOINED,
    },
    ClassicMemberState.GIVING_UP: {
        MemberEvent.REBALANCE: ClassicMemberState.REJOINING,
        MemberEvent.GONE: ClassicMemberState.UNJOINED,
    },
}
"""For each state, the events that may come in it, and the state after each."""


def after(state: ClassicMemberState, event: MemberEvent) -> ClassicMemberState:
    """Return the state after the event."""
    following = _NEXT[state].get(event)
    assert following is not None, f"{event.name} cannot come in state {state.name}"
    return following
