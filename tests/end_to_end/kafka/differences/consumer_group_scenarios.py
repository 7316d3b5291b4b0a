"""Groups of the newer protocol (KIP-848): ConsumerGroupHeartbeat and ConsumerGroupDescribe; and both kinds in one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from kraft.wire.declaration import ZERO_UUID
from kraft.wire.schema.consumer_group_describe import ConsumerGroupDescribeRequest
from kraft.wire.schema.delete_groups import DeleteGroupsRequest
from kraft.wire.schema.describe_groups import DescribeGroupsRequest
from kraft.wire.schema.list_groups import ListGroupsRequest
from kraft.wire.schema.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.end_to_end.kafka.differences.group_requests import (
    COMMIT,
    LONGEST,
    commit,
    consumer_heartbeat,
    fetch_offsets,
    first_heartbeat,
    heartbeat,
    join,
    leave,
    stable,
    subscription,
    sync,
    wait_coordinated,
)
from tests.end_to_end.kafka.differences.peer import Peer
from tests.end_to_end.kafka.differences.produce_scenarios import UNKNOWN_ID

_VERSIONS: Final = (0, 1)
_LEAVE: Final = -1
_LEAVE_FOR_A_WHILE: Final = -2

_UNORDERED: Final = ("members", "partitions", "topic_partitions", "groups", "subscribed_topic_names")


def _sorted(answer: Any) -> Any:
    """Topics of an assignment by their names where it has them; the rest as it is printed."""
    if isinstance(answer, dict):
        for key, value in answer.items():
            _sorted(value)
            if key in _UNORDERED and isinstance(value, list):
                value.sort(key=_order)
    elif isinstance(answer, list):
        for each in answer:
            _sorted(each)
    return answer


def _order(each: Any) -> str:
    return str({**each, "topic_id": ""} if isinstance(each, dict) and "topic_name" in each else each)


def _describe(*groups: str, operations: bool = False) -> ConsumerGroupDescribeRequest:
    return ConsumerGroupDescribeRequest(group_ids=groups, include_authorized_operations=operations)


class _Member:
    """A member that sends what it is told, with the epoch that it was given last."""

    def __init__(self, peer: Peer, group: str, member_id: str, label: str = "", version: int = 1) -> None:
        self._peer = peer
        self._group = group
        self._label = label
        self._version = version
        self.member_id = member_id
        self.epoch = 0
        self.owned: dict[UUID, tuple[int, ...]] = {}
        """The assignment that came last."""

    def join(self, what: str, topics: Sequence[str], **also: Any) -> None:
        self._ask(what, first_heartbeat(self._group, self.member_id, topics, **also))

    def ask(self, what: str, *, later: int = 0, epoch: int | None = None, **also: Any) -> None:
        """`later` is added to the member's epoch; `epoch` stands in its place."""
        sent = self.epoch + later if epoch is None else epoch
        self._ask(what, consumer_heartbeat(self._group, self.member_id, sent, **also))

    def _ask(self, what: str, request: Any) -> None:
        answer = self._peer.ask(f"{self._label}{what}", request, self._version, keep=_sorted)
        shown = _describe(self._group)
        self._peer.ask(f"{self._label}{what}: described", shown, self._version, keep=_sorted)
        if answer.error_code != 0:
            return
        self.member_id = answer.member_id or self.member_id
        self.epoch = max(answer.member_epoch, 0)
        if answer.assignment is not None:
            self.owned = {each.topic_id: each.partitions for each in answer.assignment.topic_partitions}


def consumer_group_of_one(peer: Peer) -> None:
    topic_id = peer.create_topic("followed", 3)
    for version in _VERSIONS:
        group = f"followers-{version}"
        wait_coordinated(peer, group)
        member = _Member(peer, group, "" if version == 0 else "m-1", f"v{version} ", version)
        member.join("joins", ["followed"])
        member.ask("nothing new")
        member.ask("owns all", owned=member.owned)
        member.ask("sends everything", topics=("followed",), rebalance_timeout_ms=60_000, owned=member.owned)
        member.ask("owns less", owned={topic_id: (0,)})
        member.ask("subscribes to nothing", topics=())
        member.ask("releases", owned={})
        member.ask("subscribes to one that there is not", topics=("nowhere", "followed"))
        member.ask("the epoch before", later=-1)
        member.join("joins again", ["followed"])
        member.ask("another assignor", server_assignor="range")
        member.ask("another rack", rack_id="r-1")
        member.ask("another time to rebalance", rebalance_timeout_ms=30_000)
        member.ask("a topic twice", topics=("followed", "followed"))
        member.ask("leaves", epoch=_LEAVE)
        member.ask("leaves again", epoch=_LEAVE)
        member.ask("heartbeat when it has left", epoch=1)
        member.join("comes back", ["followed"])


def consumer_group_of_two(peer: Peer) -> None:
    """Partitions go from one to the other when the first has released them."""
    peer.create_topic("shared", 4)
    for assignor in ("range", "uniform"):
        group = f"sharers-{assignor}"
        wait_coordinated(peer, group)
        first, second = (_Member(peer, group, name, f"{assignor}: {name} ") for name in ("m-1", "m-2"))
        first.join("joins", ["shared"], server_assignor=assignor)
        every = first.owned
        first.ask("owns all", owned=every)
        second.join("joins", ["shared"], server_assignor=assignor)
        second.ask("waits", owned={})
        first.ask("is to release")
        first.ask("has not released", owned=every)
        first.ask("releases", owned=first.owned)
        first.ask("with the epoch before", later=-1)
        first.ask("with the epoch before, and what it owns", later=-1, owned=first.owned)
        second.ask("gets")
        second.ask("owns", owned=second.owned)
        second.ask("leaves", epoch=_LEAVE)
        first.ask("gets all back")
        first.ask("has a wrong epoch", later=7)
        first.ask("has an epoch long past", later=-2)


def consumer_heartbeat_refused(peer: Peer) -> None:
    topic_id = peer.create_topic("guarded")
    wait_coordinated(peer, "guard", "nobody", "", LONGEST, "guards")
    epoch = peer.call(first_heartbeat("guard", "m-1", ["guarded"]), 1).member_epoch
    for version in _VERSIONS:

        def ask(what: str, request: Any, version: int = version) -> None:
            peer.ask(f"v{version} {what}", request, version, keep=_sorted)

        ask("no group id", first_heartbeat("", "m-1", ["guarded"]))
        ask("a group id of blanks", first_heartbeat(" ", "m-1", ["guarded"]))
        ask("no member id", consumer_heartbeat("guard", "", 1))
        ask("no rebalance timeout", first_heartbeat("guard", "m-9", ["guarded"], rebalance_timeout_ms=-1))
        for rebalance_ms in (0, -5):
            group = f"hurried{rebalance_ms}-{version}"
            wait_coordinated(peer, group)
            hurried = first_heartbeat(group, "m-9", ["guarded"], rebalance_timeout_ms=rebalance_ms)
            ask(f"{rebalance_ms} ms to rebalance", hurried)
        ask("null partitions", first_heartbeat("guard", "m-9", ["guarded"], owned=None))
        ask("owns at once", first_heartbeat("guard", "m-9", ["guarded"], owned={topic_id: (0,)}))
        ask("null topics", first_heartbeat("guard", "m-9", None))
        ask("epoch -3", consumer_heartbeat("guard", "m-1", -3))
        ask("unknown member", consumer_heartbeat("guard", "stranger", 1))
        ask("unknown member leaves", consumer_heartbeat("guard", "stranger", _LEAVE))
        ask("unknown member leaves for a while", consumer_heartbeat("guard", "stranger", _LEAVE_FOR_A_WHILE))
        ask("leaves for a while without instance", consumer_heartbeat("guard", "m-1", _LEAVE_FOR_A_WHILE))
        ask("unknown group", consumer_heartbeat("nobody", "m-1", 1))
        ask("unknown group, leaves", consumer_heartbeat("nobody", "m-1", _LEAVE))
        ask("epoch after", consumer_heartbeat("guard", "m-1", epoch + 1))
        ask("much later epoch", consumer_heartbeat("guard", "m-1", 200))
        ask("unknown assignor", consumer_heartbeat("guard", "m-1", epoch, server_assignor="sticky"))
        ask("empty assignor", consumer_heartbeat("guard", "m-1", epoch, server_assignor=""))
        ask("empty instance", consumer_heartbeat("guard", "m-1", epoch, instance_id=""))
        ask("another instance", consumer_heartbeat("guard", "m-1", epoch, instance_id="i-1"))
        ask("empty rack", consumer_heartbeat("guard", "m-1", epoch, rack_id=""))
        ask("owns a topic that there is not", consumer_heartbeat("guard", "m-1", epoch, owned={UNKNOWN_ID: (0,)}))
        ask("owns a partition that there is not", consumer_heartbeat("guard", "m-1", epoch, owned={topic_id: (0, 9)}))
        ask("owns no topic", consumer_heartbeat("guard", "m-1", epoch, owned={ZERO_UUID: (0,)}))
        ask("good", consumer_heartbeat("guard", "m-1", epoch))
        ask("the longest id", consumer_heartbeat(LONGEST, "m-1", 1))
    peer.ask("regex that is none", first_heartbeat("guards", "m-1", None, subscribed_topic_regex="*["), 1)
    peer.ask("empty regex", first_heartbeat("guards", "m-1", None, subscribed_topic_regex=""), 1)
    peer.ask("described", _describe("guard", "guards"), 1, keep=_sorted)


def consumer_group_of_the_largest_size(peer: Peer) -> None:
    """`group.consumer.max.size` is that of classic groups in these brokers."""
    peer.create_topic("in-demand", 8)
    wait_coordinated(peer, "crowd")
    for number in range(5):
        request = first_heartbeat("crowd", f"m-{number}", ["in-demand"])
        peer.ask(f"number {number + 1}", request, 1, keep=lambda answer: answer["error_code"])


def consumer_group_by_regex(peer: Peer) -> None:
    first = peer.create_topic("matched-1")
    peer.create_topic("other-1")
    wait_coordinated(peer, "matchers")
    peer.ask("joins", first_heartbeat("matchers", "m-1", None, subscribed_topic_regex="matched-.*"), 1)
    again = first_heartbeat("matchers", "m-1", (), subscribed_topic_regex="matched-.*")
    first_seen = peer.until(again, 1, _has_partitions)
    epoch = first_seen.member_epoch
    assert [each.topic_id for each in first_seen.assignment.topic_partitions] == [first]
    peer.ask("described", _describe("matchers"), 1, keep=_without_epochs)
    both = consumer_heartbeat("matchers", "m-1", epoch, topics=("other-1",))
    peer.until(both, 1, lambda answer: answer.assignment is not None)
    peer.ask("a regex and a name", _describe("matchers"), 1, keep=_without_epochs)


def _has_partitions(answer: Any) -> bool:
    return answer.assignment is not None and len(answer.assignment.topic_partitions) > 0


def _without_epochs(answer: Any) -> Any:
    """How many there are depends on when the broker finds the topics of an expression."""
    for group in answer["groups"]:
        group["group_epoch"] = group["assignment_epoch"] = "<epoch>"
        for member in group["members"]:
            member["member_epoch"] = "<epoch>"
    return _sorted(answer)


def static_consumer_members(peer: Peer) -> None:
    topic_id = peer.create_topic("static-shared", 2)
    wait_coordinated(peer, "statics")

    first, other, late = (_Member(peer, "statics", name, f"{name} ") for name in ("m-1", "m-2", "m-3"))
    first.join("joins", ["static-shared"], instance_id="i-1")
    first.ask("owns", instance_id="i-1", owned={topic_id: (0, 1)})
    first.ask("without instance")
    first.ask("unknown instance", instance_id="i-9")
    other.join("joins while it lives", ["static-shared"], instance_id="i-1")
    other.ask("the epoch of the first", epoch=first.epoch, instance_id="i-1")
    other.ask("leaves instead of the first", epoch=_LEAVE, instance_id="i-1")
    first.ask("leaves for a while", epoch=_LEAVE_FOR_A_WHILE, instance_id="i-1")
    first.ask("after that", epoch=2, instance_id="i-1")
    late.join("comes back under another id", ["static-shared"], instance_id="i-1")
    first.ask("the former id", epoch=late.epoch, instance_id="i-1")
    first.ask("the former id, without instance", epoch=late.epoch)
    late.ask("goes on", instance_id="i-1")
    late.ask("leaves for good", epoch=_LEAVE, instance_id="i-1")


def consumer_offsets(peer: Peer) -> None:
    topic_id = peer.create_topic("consumed")
    wait_coordinated(peer, "committers")
    epoch = peer.call(first_heartbeat("committers", "m-1", ["consumed"]), 1).member_epoch
    peer.call(consumer_heartbeat("committers", "m-1", epoch, owned={topic_id: (0,)}), 1)
    for version in COMMIT:
        for what, member in (
            ("good", ("m-1", epoch)),
            ("epoch before", ("m-1", epoch - 1)),
            ("epoch after", ("m-1", epoch + 1)),
            ("no epoch", ("m-1", -1)),
            ("stranger", ("stranger", 1)),
            ("outside of the group", ("", -1)),
            ("no member", ("", 1)),
        ):
            committed = commit(version, "committers", "consumed", topic_id, member=member)
            peer.ask(f"commit v{version} {what}", committed, version)
    for version in (8, 9, 10):
        members: dict[str, tuple[str | None, int]] = {"tool": (None, -1)}
        if version >= 9:
            members |= {
                "good": ("m-1", epoch),
                "epoch before": ("m-1", epoch - 1),
                "epoch after": ("m-1", epoch + 1),
                "stranger": ("stranger", 1),
                "empty member": ("", 1),
                "no member": (None, 1),
                "no epoch": ("m-1", -1),
            }
        for what, who in members.items():
            fetched = fetch_offsets(version, "committers", {"consumed": (0,)}, {"consumed": topic_id}, member=who)
            peer.ask(f"fetch v{version} {what}", fetched, version)
    for name in ("consumed", "nowhere"):
        partition = OffsetDeleteRequestPartition(partition_index=0)
        topics = (OffsetDeleteRequestTopic(name=name, partitions=(partition,)),)
        peer.ask(f"delete {name}", OffsetDeleteRequest(group_id="committers", topics=topics), 0)


def describe_consumer_groups(peer: Peer) -> None:
    peer.create_topic("shown")
    wait_coordinated(peer, "classic-one", "newer-one", "nobody", "no-longer", LONGEST, "")
    stable(peer, "classic-one")
    for group in ("newer-one", "no-longer"):
        peer.call(first_heartbeat(group, "m-1", ["shown"], rack_id="r-1"), 1)
    peer.call(consumer_heartbeat("no-longer", "m-1", _LEAVE), 1)
    for version in _VERSIONS:
        for groups in (
            ("newer-one",),
            ("no-longer",),
            ("classic-one",),
            ("nobody",),
            ("",),
            (LONGEST,),
            (),
            ("newer-one", "nobody"),
            ("newer-one", "newer-one"),
        ):
            label = f"v{version} {[each[:20] for each in groups]}"
            peer.ask(label, _describe(*groups), version, keep=_sorted)
            operations = _describe(*groups, operations=True)
            peer.ask(f"{label} operations", operations, version, keep=_sorted)
    for version in (0, 5, 6):
        peer.ask(f"classic v{version}", DescribeGroupsRequest(groups=("newer-one",)), version)
    deleted = DeleteGroupsRequest(groups_names=("newer-one", "no-longer"))
    peer.ask("deleted", deleted, 2, keep=_sorted_results)
    peer.ask("deleted again", deleted, 2, keep=_sorted_results)


def _sorted_results(answer: Any) -> Any:
    answer["results"].sort(key=str)
    return answer


def one_protocol_in_a_group_of_the_other(peer: Peer) -> None:
    topic_id = peer.create_topic("mixed", 2)
    wait_coordinated(peer, "newer", "older", "connectors-2", "left-over", "notes")
    peer.call(first_heartbeat("newer", "m-1", ["mixed"]), 1)
    for what, request, version in (
        ("heartbeat", heartbeat("newer", "m-1", 1), 4),
        ("sync", sync("newer", "m-1", 1), 5),
        ("leave of an instance", leave("newer", ("", "i-1")), 5),
        ("join of connectors", join("newer", kind="connect", protocols={"sessioned": b"data"}), 5),
        ("join with no subscription", join("newer", protocols={"range": b""}), 3),
        ("join of another protocol", join("newer", protocols={"range": subscription("mixed")}, kind=""), 3),
        ("leave", leave("newer", "m-1"), 5),
        ("heartbeat of who has left", heartbeat("newer", "m-1", 1), 4),
    ):
        peer.ask(f"classic {what}", request, version)
    stable(peer, "connectors-2", kind="connect", protocols={"sessioned": b"data"})
    peer.ask("newer member among connectors", first_heartbeat("connectors-2", "m-1", ["mixed"]), 1)
    peer.ask("heartbeat among connectors", consumer_heartbeat("connectors-2", "m-1", 1), 1)
    member = stable(peer, "older", protocols={"range": subscription("mixed")})
    peer.ask("heartbeat among consumers", consumer_heartbeat("older", "m-1", 1), 1)
    peer.ask("leave of consumers", consumer_heartbeat("older", member, _LEAVE), 1)

    gone = stable(peer, "left-over")
    peer.call(commit(8, "left-over", "mixed", member=(gone, 1)), 8)
    peer.call(leave("left-over", gone), 5)
    peer.ask("newer member of a group that was left", first_heartbeat("left-over", "m-1", ["mixed"]), 1)
    peer.ask("it is another type", ListGroupsRequest(), 5, keep=_only_left_over)
    peer.ask("its offsets", fetch_offsets(8, "left-over", {"mixed": (0,)}), 8)
    peer.ask("it leaves", consumer_heartbeat("left-over", "m-1", _LEAVE), 1)
    back = peer.ask("classic member of it", join("left-over"), 3)
    peer.ask("it is the former type", ListGroupsRequest(), 5, keep=_only_left_over)
    peer.ask("its offsets again", fetch_offsets(8, "left-over", {"mixed": (0,)}), 8)
    peer.ask("it goes on", heartbeat("left-over", back.member_id, 1), 3)

    peer.call(commit(10, "notes", "", topic_id), 10)
    peer.ask("newer member of a group of offsets", first_heartbeat("notes", "m-1", ["mixed"]), 1)
    peer.ask("its offsets, too", fetch_offsets(8, "notes", {"mixed": (0,)}), 8)


def _only_left_over(answer: Any) -> Any:
    return [each for each in answer["groups"] if each["group_id"] == "left-over"]


SCENARIOS: Final = (
    consumer_group_of_one,
    consumer_group_of_two,
    consumer_heartbeat_refused,
    consumer_group_of_the_largest_size,
    consumer_group_by_regex,
    static_consumer_members,
    consumer_offsets,
    describe_consumer_groups,
    one_protocol_in_a_group_of_the_other,
)
