"""What tools ask of groups: FindCoordinator, ListGroups, DescribeGroups and DeleteGroups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kraft.wire.schema.delete_groups import DeleteGroupsRequest
from kraft.wire.schema.describe_groups import DescribeGroupsRequest
from kraft.wire.schema.find_coordinator import FindCoordinatorRequest
from kraft.wire.schema.list_groups import ListGroupsRequest
from tests.end_to_end.kafka.differences.group_requests import (
    LONGEST,
    commit,
    fetch_offsets,
    first_heartbeat,
    heartbeat,
    join,
    joined,
    leave,
    stable,
    wait_coordinated,
    wait_rebalancing,
)
from tests.end_to_end.kafka.differences.peer import Peer

_FIND_MANY_FROM: Final = 4
_STATES_FROM: Final = 4
_TYPES_FROM: Final = 5
_OPERATIONS_FROM: Final = 3


def find_coordinator(peer: Peer) -> None:
    wait_coordinated(peer, "found")
    for version in range(7):
        for what, key in (("a group", "found"), ("no name", ""), ("the longest id", LONGEST), ("a slash", "a/b")):
            peer.ask(f"v{version} {what}", _find(version, key), version)
        for kind in (2, 3, 9, -1):
            if version:
                peer.ask(f"v{version} kind {kind}", _find(version, "found", kind=kind), version)
        if version >= _FIND_MANY_FROM:
            peer.ask(f"v{version} two", _find(version, "found", "other"), version)
            peer.ask(f"v{version} twice", _find(version, "found", "found"), version)
            peer.ask(f"v{version} none", _find(version), version)
            share = _find(version, "g:AAAAAAAAAAAAAAAAAAAAAQ:x", "g", kind=2)
            peer.ask(f"v{version} keys of share groups that are none", share, version)


def _find(version: int, *keys: str, kind: int = 0) -> FindCoordinatorRequest:
    if version < _FIND_MANY_FROM:
        return FindCoordinatorRequest(key=keys[0], key_type=kind)
    return FindCoordinatorRequest(key_type=kind, coordinator_keys=keys)


def _one_in_each_state(peer: Peer, prefix: str) -> dict[str, str]:
    """Groups by their states, and one of the newer protocol."""
    topic = f"{prefix}-topic"
    peer.create_topic(topic)
    names = {
        state: f"{prefix}-{state.lower()}"
        for state in ("Stable", "Preparing", "Completing", "Empty", "Offsets", "Connect", "Static", "Consumer")
    }
    wait_coordinated(peer, *names.values(), f"{prefix}-nobody")
    stable(peer, names["Stable"])
    waiting = stable(peer, names["Preparing"])
    peer.beside().begin(join(names["Preparing"], protocols={"range": b""}), 3)
    wait_rebalancing(peer, names["Preparing"], waiting)
    joined(peer, names["Completing"])
    gone = stable(peer, names["Empty"])
    peer.call(leave(names["Empty"], gone), 5)
    peer.call(commit(8, names["Offsets"], topic), 8)
    stable(peer, names["Connect"], kind="connect", protocols={"sessioned": b"data"})
    stable(peer, names["Static"], instance="i-1")
    answer = peer.call(first_heartbeat(names["Consumer"], "m-1", [topic]), 1)
    assert answer.error_code == 0, answer
    return names


def list_groups(peer: Peer) -> None:
    prefix = "listed"
    _one_in_each_state(peer, prefix)
    keep = _only(prefix)
    for version in range(6):
        peer.ask(f"v{version} every", ListGroupsRequest(), version, keep=keep)
    for version in range(_STATES_FROM, 6):
        for states in (
            ("Stable",),
            ("stable",),
            ("PREPARINGREBALANCE", "CompletingRebalance"),
            ("Empty",),
            ("Dead",),
            ("Assigning", "Reconciling"),
            ("nonsense",),
            ("nonsense", "Stable"),
            ("",),
        ):
            peer.ask(f"v{version} states {states}", ListGroupsRequest(states_filter=states), version, keep=keep)
    for types in (("classic",), ("Consumer",), ("consumer", "CLASSIC"), ("share",), ("streams",), ("nonsense",), ("",)):
        peer.ask(f"types {types}", ListGroupsRequest(types_filter=types), _TYPES_FROM, keep=keep)
    both = ListGroupsRequest(states_filter=("Stable",), types_filter=("consumer",))
    peer.ask("states and types", both, _TYPES_FROM, keep=keep)


def _only(prefix: str) -> Callable[[Any], Any]:
    """The others are those of other scenarios."""

    def keep(answer: Any) -> Any:
        found = [each for each in answer["groups"] if each["group_id"].startswith(prefix)]
        answer["groups"] = sorted(found, key=lambda each: str(each["group_id"]))
        return answer

    return keep


def describe_groups(peer: Peer) -> None:
    names = _one_in_each_state(peer, "shown")
    for version in range(7):
        for state, name in (*names.items(), ("Nobody", "shown-nobody")):
            request = DescribeGroupsRequest(groups=(name,))
            peer.ask(f"v{version} {state}", request, version, keep=_sorted_members)
        if version >= _OPERATIONS_FROM:
            for name in (names["Stable"], "shown-nobody"):
                request = DescribeGroupsRequest(groups=(name,), include_authorized_operations=True)
                peer.ask(f"v{version} operations of {name}", request, version)
        for what, groups in (
            ("two", (names["Empty"], names["Connect"])),
            ("twice", (names["Empty"], names["Empty"])),
            ("none", ()),
            ("no name", ("",)),
            ("the longest id", (LONGEST,)),
        ):
            peer.ask(f"v{version} {what}", DescribeGroupsRequest(groups=groups), version, keep=_sorted_groups)


def _sorted_members(answer: Any) -> Any:
    for group in answer["groups"]:
        group["members"].sort(key=lambda each: (each["member_metadata"], each["member_assignment"]))
    return answer


def _sorted_groups(answer: Any) -> Any:
    answer["groups"].sort(key=lambda each: str(each["group_id"]))
    return answer


def delete_groups(peer: Peer) -> None:
    for version in range(3):
        names = _one_in_each_state(peer, f"deleted-{version}")

        def ask(what: str, *groups: str, version: int = version) -> None:
            request = DeleteGroupsRequest(groups_names=groups)
            peer.ask(f"v{version} {what}", request, version, keep=_sorted_results)

        for state, name in names.items():
            ask(state, name)
            ask(f"{state} again", name)
        ask("unknown", "nobody")
        ask("no name", "")
        ask("the longest id", LONGEST)
        ask("none")
        ask("one of two", "nobody", names["Stable"])
        again = f"deleted-{version}-again"
        wait_coordinated(peer, again)
        peer.call(commit(8, again, f"deleted-{version}-topic"), 8)
        ask("twice in one request", again, again)
        peer.ask(f"v{version} its offsets", fetch_offsets(8, again, None), 8)
        peer.ask(f"v{version} a heartbeat of what is gone", heartbeat(names["Empty"], "m"), 4)
        shown = DescribeGroupsRequest(groups=(names["Empty"],))
        peer.ask(f"v{version} what is gone", shown, 6)


def _sorted_results(answer: Any) -> Any:
    answer["results"].sort(key=str)
    return answer


SCENARIOS: Final = (find_coordinator, list_groups, describe_groups, delete_groups)
