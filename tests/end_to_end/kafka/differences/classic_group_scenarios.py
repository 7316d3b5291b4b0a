"""Members of classic groups: JoinGroup, SyncGroup, Heartbeat and LeaveGroup."""

from __future__ import annotations

from typing import Any, Final

from kraft.wire.schema.describe_groups import DescribeGroupsRequest
from tests.end_to_end.kafka.differences.group_requests import (
    HEARTBEAT,
    JOIN,
    LEAVE,
    LEAVE_MANY_FROM,
    LONGEST,
    MEMBER_ID_REQUIRED,
    STATIC_FROM,
    SYNC,
    commit,
    heartbeat,
    join,
    joined,
    leave,
    stable,
    subscription,
    sync,
    wait_coordinated,
    wait_rebalancing,
)
from tests.end_to_end.kafka.differences.peer import Peer

MEMBERS_MAX: Final = 4
"""What the brokers are told of `group.max.size`."""


_OTHER: Final = {"range": subscription("subscribed", "and another")}
"""The protocols of a second member: by them it is told from the first."""


def _sorted_members(answer: Any) -> Any:
    """They come in any order; their ids say nothing."""
    answer["members"].sort(key=lambda each: (each.get("group_instance_id") or "", each["metadata"]))
    return answer


def groups_of_each_version(peer: Peer) -> None:
    """One member, then two, then one, then none."""
    for version in JOIN:
        _live_through(peer, version, f"lived-{version}")


def _live_through(peer: Peer, version: int, group: str) -> None:
    wait_coordinated(peer, group)
    of_sync, of_heartbeat, of_leave = min(version, SYNC[-1]), min(version, HEARTBEAT[-1]), min(version, LEAVE[-1])
    named: dict[str, Any] = {"kind": "consumer", "protocol": "range"}
    label = f"v{version}"
    first = _join_twice(peer, f"{label} first", join(group), version)
    peer.ask(f"{label} heartbeat before sync", heartbeat(group, first), of_heartbeat)
    peer.ask(f"{label} sync", sync(group, first, 1, {first: b"all"}, **named), of_sync)
    peer.ask(f"{label} sync again", sync(group, first, 1, {first: b"others"}, **named), of_sync)
    peer.ask(f"{label} heartbeat", heartbeat(group, first), of_heartbeat)

    other = peer.beside()
    second = ""
    if version >= 4:
        second = other.ask(f"{label} second, without id", join(group, protocols=_OTHER), version).member_id
    other.begin(join(group, second, protocols=_OTHER), version)
    wait_rebalancing(peer, group, first)
    peer.ask(f"{label} sync while another joins", sync(group, first, 1, **named), of_sync)
    peer.ask(f"{label} first joins again", join(group, first), version, keep=_sorted_members)
    second = other.end(f"{label} second", keep=_sorted_members).member_id
    other.begin(sync(group, second, 2, **named), of_sync)
    peer.ask(f"{label} sync of two", sync(group, first, 2, {first: b"one", second: b"two"}, **named), of_sync)
    other.end(f"{label} sync of the second")
    peer.ask(f"{label} heartbeat of the old generation", heartbeat(group, first, 1), of_heartbeat)
    peer.ask(f"{label} heartbeat of the second", heartbeat(group, second, 2), of_heartbeat)

    peer.ask(f"{label} second leaves", leave(group, second, version=of_leave), of_leave)
    peer.ask(f"{label} second leaves again", leave(group, second, version=of_leave), of_leave)
    peer.ask(f"{label} heartbeat when one has left", heartbeat(group, first, 2), of_heartbeat)
    peer.ask(f"{label} first joins alone", join(group, first), version)
    peer.ask(f"{label} first leaves before it syncs", leave(group, first, version=of_leave), of_leave)
    peer.ask(f"{label} heartbeat of nobody", heartbeat(group, first, 3), of_heartbeat)


def _join_twice(peer: Peer, label: str, request: Any, version: int) -> str:
    """The id of a new member, which it gets without joining in some versions."""
    answer = peer.ask(label, request, version)
    if answer.error_code == MEMBER_ID_REQUIRED:
        again = join(request.group_id, answer.member_id)
        answer = peer.ask(f"{label} with its id", again, version)
    member_id: str = answer.member_id
    return member_id


def join_refused(peer: Peer) -> None:
    wait_coordinated(peer, "picky", "picky-of-one", "nobody-yet", LONGEST, "", "connectors")
    member = stable(peer, "picky")
    stable(peer, "connectors", kind="connect", protocols={"sessioned": b"data"})
    for version in (0, 3, 4, 5, 9):

        def ask(what: str, request: Any, version: int = version) -> None:
            peer.ask(f"v{version} {what}", request, version)

        ask("empty group id", join(""))
        ask("session of 1 ms", join("nobody-yet", session_ms=1))
        ask("session of a day", join("nobody-yet", session_ms=86_400_000))
        ask("session of 0 ms", join("nobody-yet", session_ms=0))
        ask("negative session", join("nobody-yet", session_ms=-1))
        ask("unknown member of no group", join("nobody-yet", "stranger"))
        ask("unknown member", join("picky", "stranger"))
        ask("no protocol type", join("nobody-yet", kind=""))
        ask("no protocols", join("nobody-yet", protocols={}))
        ask("no protocols in a group", join("picky", protocols={}))
        ask("no protocols of a member", join("picky", member, protocols={}))
        ask("another protocol type", join("picky", kind="connect"))
        ask("another protocol type of a member", join("picky", member, kind="connect"))
        ask("no protocol in common", join("picky", protocols={"sticky": b"s"}))
        ask("consumer among connectors", join("connectors", protocols={"sessioned": b"data"}))
    for version in (5, 9):
        peer.ask(f"v{version} dynamic id as static", join("picky", member, instance="i"), version)
        peer.ask(f"v{version} unknown instance with an id", join("picky", "stranger", instance="i"), version)
        peer.ask(f"v{version} empty instance", join(f"nobody-{version}", instance=""), version)
    peer.ask("the member is still there", heartbeat("picky", member), 4)


def join_with_odd_values(peer: Peer) -> None:
    groups = ("odd-times", "odd-protocol", "odd-metadata", "odd-protocols", "odd-subscription", "ödd ☃", LONGEST)
    wait_coordinated(peer, *groups)
    for what, group, also in (
        ("protocol without a name", "odd-protocol", {"protocols": {"": b"s"}}),
        ("empty metadata", "odd-metadata", {"protocols": {"range": b""}}),
        ("many protocols", "odd-protocols", {"protocols": {f"p{number}": b"s" for number in range(100)}}),
        ("text that is not ASCII", "ödd ☃", {}),
        ("the longest id", LONGEST, {}),
    ):
        member = _join_twice_with(peer, what, group, also)
        peer.ask(f"{what}: sync", sync(group, member, 1, {member: b"all"}), 3)
        peer.ask(f"{what}: heartbeat", heartbeat(group, member), 3)
        peer.ask(f"{what}: leave", leave(group, member), 5)
    peer.ask("the longest id, heartbeat of an old version", heartbeat(LONGEST, "m"), 0)
    member = peer.call(join("odd-times", rebalance_ms=0), 5).member_id
    peer.ask("no time to rebalance", join("odd-times", member, rebalance_ms=0), 5)
    # To Kafka it is a list of a billion topics.
    member = peer.call(join("odd-subscription", protocols={"range": b"subscription"}), 5).member_id
    peer.ask("no subscription", join("odd-subscription", member, protocols={"range": b"subscription"}), 5)


def _join_twice_with(peer: Peer, what: str, group: str, also: dict[str, Any]) -> str:
    member_id: str = peer.ask(f"{what}: id", join(group, **also), 5).member_id
    peer.ask(f"{what}: join", join(group, member_id, **also), 5)
    return member_id


def protocol_chosen_by_all(peer: Peer) -> None:
    """Two members with protocols of which one is in common, though each likes another one best."""
    wait_coordinated(peer, "elective")
    likes = {"roundrobin": b"1", "range": b"2"}, {"sticky": b"3", "range": b"4"}
    first = stable(peer, "elective", protocols=likes[0])
    other = peer.beside()
    second = other.call(join("elective", protocols=likes[1]), 5).member_id
    other.begin(join("elective", second, protocols=likes[1]), 7)
    wait_rebalancing(peer, "elective", first)
    peer.ask("first", join("elective", first, protocols=likes[0]), 7, keep=_sorted_members)
    other.end("second")
    peer.ask("sync with another protocol", sync("elective", first, 2, kind="consumer", protocol="roundrobin"), 5)
    peer.ask("sync with another type", sync("elective", first, 2, kind="connect", protocol="range"), 5)
    for kind, protocol in ((None, "range"), ("consumer", None), (None, None)):
        request = sync("elective", first, 2, {first: b"one", second: b"two"}, kind=kind, protocol=protocol)
        peer.ask(f"sync with {kind} and {protocol}", request, 5)


def group_of_the_largest_size(peer: Peer) -> None:
    wait_coordinated(peer, "crowded")
    leader = stable(peer, "crowded")
    others = [peer.beside() for _ in range(MEMBERS_MAX - 1)]
    for number, other in enumerate(others):
        member_id = other.call(join("crowded"), 4).member_id
        other.begin(join("crowded", member_id), 4)
        if number == 0:
            wait_rebalancing(peer, "crowded", leader)
    described = DescribeGroupsRequest(groups=("crowded",))
    peer.until(described, 0, lambda reply: len(reply.groups[0].members) == MEMBERS_MAX)
    peer.ask("leader joins again when it is full", join("crowded", leader), 4, keep=_only_facts)
    for number, other in enumerate(others):
        other.end(f"number {number + 2}", keep=_only_facts)
    for version in (3, 4, 5, 9):
        peer.ask(f"v{version} one too many", join("crowded"), version)
        if version >= STATIC_FROM:
            peer.ask(f"v{version} one too many, static", join("crowded", instance="late"), version)
    peer.ask("one leaves", leave("crowded", leader), 5)
    peer.ask("another comes", join("crowded"), 4)


def sync_refused(peer: Peer) -> None:
    wait_coordinated(peer, "synced", "nobody", "", LONGEST)
    member = joined(peer, "synced")
    for version in SYNC:
        for what, request in (
            ("empty group id", sync("", member)),
            ("unknown group", sync("nobody", member)),
            ("the longest id", sync(LONGEST, member)),
            ("unknown member", sync("synced", "stranger")),
            ("no member", sync("synced", "")),
            ("generation before", sync("synced", member, 0)),
            ("generation after", sync("synced", member, 2)),
            ("no generation", sync("synced", member, -1)),
        ):
            named = _named(request)
            peer.ask(f"v{version} {what}", named, version)
    peer.ask("assignment of others alone", sync("synced", member, 1, {"stranger": b"all"}), 3)
    peer.ask("assignment too late", sync("synced", member, 1, {member: b"all"}), 3)


def _named(request: Any) -> Any:
    return sync(request.group_id, request.member_id, request.generation_id, kind="consumer", protocol="range")


def heartbeat_refused(peer: Peer) -> None:
    wait_coordinated(peer, "beating", "nobody", "", LONGEST, "left")
    member = stable(peer, "beating")
    gone = stable(peer, "left")
    peer.call(leave("left", gone), 5)
    for version in HEARTBEAT:
        for what, request in (
            ("empty group id", heartbeat("", member)),
            ("unknown group", heartbeat("nobody", member)),
            ("empty group", heartbeat("left", gone)),
            ("the longest id", heartbeat(LONGEST, member)),
            ("unknown member", heartbeat("beating", "stranger")),
            ("no member", heartbeat("beating", "")),
            ("generation before", heartbeat("beating", member, 0)),
            ("generation after", heartbeat("beating", member, 2)),
            ("no generation", heartbeat("beating", member, -1)),
            ("good", heartbeat("beating", member)),
        ):
            peer.ask(f"v{version} {what}", request, version)


def leave_refused(peer: Peer) -> None:
    wait_coordinated(peer, "left-behind", "nobody", "", LONGEST)
    member = stable(peer, "left-behind")
    for version in LEAVE:
        for what, group, member_id in (
            ("empty group id", "", member),
            ("unknown group", "nobody", member),
            ("the longest id", LONGEST, member),
            ("unknown member", "left-behind", "stranger"),
            ("no member", "left-behind", ""),
        ):
            peer.ask(f"v{version} {what}", leave(group, member_id, version=version), version)
        if version >= LEAVE_MANY_FROM:
            peer.ask(f"v{version} two", leave("left-behind", "stranger", ("", "nobody")), version)
            peer.ask(f"v{version} none", leave("left-behind"), version)
            peer.ask(f"v{version} dynamic id with an instance", leave("left-behind", (member, "i")), version)
    peer.ask("still there", heartbeat("left-behind", member), 4)


# --- static members --------------------------------------------------------------------------------------------------


def static_members(peer: Peer) -> None:
    peer.create_topic("static-topic")
    for version in (5, 6, 7, 8, 9):
        _replace_static_member(peer, version, f"static-{version}")


def _replace_static_member(peer: Peer, version: int, group: str) -> None:
    wait_coordinated(peer, group)
    label = f"v{version}"
    named: dict[str, Any] = {"kind": "consumer", "protocol": "range", "instance": "i-1"}
    first = peer.ask(f"{label} first", join(group, instance="i-1"), version).member_id
    peer.ask(f"{label} sync", sync(group, first, 1, {first: b"all"}, **named), 5)
    peer.ask(f"{label} heartbeat", heartbeat(group, first, 1, "i-1"), 4)
    peer.ask(f"{label} heartbeat without its instance", heartbeat(group, first, 1), 4)
    peer.ask(f"{label} heartbeat of another instance", heartbeat(group, first, 1, "i-2"), 4)
    second = peer.ask(f"{label} comes back", join(group, instance="i-1"), version).member_id
    peer.ask(f"{label} the former id: heartbeat", heartbeat(group, first, 1, "i-1"), 4)
    peer.ask(f"{label} the former id: heartbeat without its instance", heartbeat(group, first, 1), 4)
    peer.ask(f"{label} the former id: join", join(group, first, instance="i-1"), version)
    peer.ask(f"{label} the former id: join without its instance", join(group, first), version)
    peer.ask(f"{label} the former id: sync", sync(group, first, 1, **named), 5)
    for of_commit in (7, 9):
        late = commit(of_commit, group, "static-topic", member=(first, 1), instance="i-1")
        peer.ask(f"{label} the former id: commit v{of_commit}", late, of_commit)
    peer.ask(f"{label} the former id: leave", leave(group, (first, "i-1")), 5)
    peer.ask(f"{label} sync of the new id", sync(group, second, 1, {second: b"other"}, **named), 5)
    peer.ask(f"{label} heartbeat of the new id", heartbeat(group, second, 1, "i-1"), 4)
    peer.ask(f"{label} joins again with its id", join(group, second, instance="i-1"), version)
    peer.ask(f"{label} sync of generation 2", sync(group, second, 2, {second: b"new"}, **named), 5)
    other = {"range": subscription("other")}
    third = peer.ask(
        f"{label} comes back with another subscription", join(group, instance="i-1", protocols=other), version
    ).member_id
    peer.ask(f"{label} leave by an instance that is none", leave(group, ("", "i-2")), 5)
    peer.ask(f"{label} leave by instance", leave(group, ("", "i-1")), 5)
    peer.ask(f"{label} leave by instance again", leave(group, ("", "i-1")), 5)
    peer.ask(f"{label} heartbeat when it has left", heartbeat(group, third, 2, "i-1"), 4)


def static_members_beside_others(peer: Peer) -> None:
    """A follower comes back, and nobody has to join again; then one who waits is replaced."""
    group = "static-pair"
    wait_coordinated(peer, group)
    leader = stable(peer, group, instance="leader")
    other = peer.beside()
    other.begin(join(group, instance="follower"), 9)
    wait_rebalancing(peer, group, leader)
    peer.ask("leader joins again", join(group, leader, instance="leader"), 9, keep=_sorted_members)
    follower = other.end("follower").member_id
    assigned = {leader: b"one", follower: b"two"}
    peer.ask("leader syncs", sync(group, leader, 2, assigned, instance="leader"), 3)
    other.ask("follower syncs", sync(group, follower, 2, instance="follower"), 3)
    again = other.ask("follower comes back", join(group, instance="follower"), 9, keep=_sorted_members).member_id
    peer.ask("leader goes on", heartbeat(group, leader, 2, "leader"), 4)
    other.ask("follower gets its assignment", sync(group, again, 2, instance="follower"), 3)

    # A third waits for the two others; another process takes its place.
    third = peer.beside()
    third.begin(join(group, instance="third"), 9)
    wait_rebalancing(peer, group, leader, 2)
    usurper = peer.beside()
    usurper.begin(join(group, instance="third"), 9)
    third.end("third is replaced while it waits")
    other.begin(join(group, again, instance="follower"), 9)
    peer.ask("leader joins once more", join(group, leader, instance="leader"), 9, keep=_only_facts)
    other.end("follower joins once more", keep=_only_facts)
    usurper.end("who replaced the third", keep=_only_facts)


def _only_facts(answer: Any) -> Any:
    return {name: answer.get(name) for name in ("error_code", "generation_id", "protocol_name", "skip_assignment")} | {
        "members": len(answer["members"])
    }


def leave_in_batches(peer: Peer) -> None:
    for version in range(LEAVE_MANY_FROM, LEAVE[-1] + 1):
        group = f"leaving-{version}"
        wait_coordinated(peer, group)
        member = stable(peer, group, instance="one")
        request = leave(group, "stranger", ("", "one"), ("", "one"), ("other", "one"), (member, "one"))
        peer.ask(f"v{version} in one request", request, version)
        peer.ask(f"v{version} heartbeat", heartbeat(group, member, 1, "one"), 4)


SCENARIOS: Final = (
    groups_of_each_version,
    join_refused,
    join_with_odd_values,
    protocol_chosen_by_all,
    group_of_the_largest_size,
    sync_refused,
    heartbeat_refused,
    leave_refused,
    static_members,
    static_members_beside_others,
    leave_in_batches,
)
