"""Committed offsets: OffsetCommit, OffsetFetch and OffsetDelete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from kraft.wire.declaration import ZERO_UUID, Message
from kraft.wire.schema.offset_commit import OffsetCommitRequest
from kraft.wire.schema.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kraft.wire.schema.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tests.end_to_end.kafka.differences.group_requests import (
    COMMIT,
    FETCH,
    FETCH_MANY_FROM,
    LONGEST,
    TOPIC_IDS_FROM,
    commit,
    fetch_offsets,
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
from tests.end_to_end.kafka.differences.produce_scenarios import UNKNOWN_ID

_MEMBER_FROM: Final = 9
"""Versions of OffsetFetch, and of OffsetCommit for the newer protocol, that name the member."""

_METADATA_BYTES_MAX: Final = 4_096
"""Kafka's default of `offset.metadata.max.bytes`."""


def _sorted_topics(answer: Any) -> Any:
    """Topics and partitions in their order: a broker's maps have another one."""
    for group in answer.get("groups", (answer,)):
        for topic in group.get("topics", []):
            topic["partitions"].sort(key=lambda each: int(each["partition_index"]))
        # A broker's ids are in no order.
        group.get("topics", []).sort(key=lambda each: (each.get("name", ""), str(each["partitions"])))
    return answer


def commit_and_fetch(peer: Peer) -> None:
    """Without members, as tools and consumers do that choose their partitions."""
    topic_id = peer.create_topic("noted", 2)
    ids = {"noted": topic_id}
    for version in COMMIT:
        group = f"alone-{version}"
        wait_coordinated(peer, group)
        label = f"v{version}"
        for what, also in (
            ("first", {}),
            ("again", {"offset": 3}),
            ("both partitions", {"partitions": (0, 1), "offset": 7}),
            ("epoch", {"leader_epoch": 4, "offset": 8}),
            ("null metadata", {"metadata": None, "offset": 9}),
            ("empty metadata", {"metadata": "", "offset": 10}),
            ("retention", {"offset": 11}),
            ("offset 0", {"offset": 0}),
            ("largest offset", {"offset": (1 << 63) - 1}),
        ):
            peer.ask(f"{label} {what}", commit(version, group, "noted", topic_id, **also), version)
            read = fetch_offsets(8, group, {"noted": (0, 1)})
            peer.ask(f"{label} {what}: fetched", read, 8, keep=_sorted_topics)
    for version in FETCH:
        for what, topics in (
            ("one", {"noted": (1,)}),
            ("two", {"noted": (0, 1)}),
            ("all", None),
            ("no topics", {}),
            ("no partitions", {"noted": ()}),
            ("partition", {"noted": (9, -1)}),
            ("twice", {"noted": (0, 0)}),
        ):
            if topics is None and version < 2:
                continue
            for group in ("alone-6", "nobody"):
                request = fetch_offsets(version, group, topics, ids)
                peer.ask(f"v{version} {what} of {group}", request, version, keep=_sorted_topics)
    for version in range(7, FETCH[-1] + 1):
        request = fetch_offsets(version, "alone-6", {"noted": (0,)}, ids, require_stable=True)
        peer.ask(f"v{version} stable", request, version)


def fetch_of_unknown_topics(peer: Peer) -> None:
    topic_id = peer.create_topic("there")
    wait_coordinated(peer, "asker", "", LONGEST)
    peer.call(commit(8, "asker", "there"), 8)
    for version in FETCH:
        topics = {"nowhere": (0,), "there": (0,)}
        ids = {"there": topic_id, "nowhere": UNKNOWN_ID}
        for group in ("asker", "nobody", ""):
            request = fetch_offsets(version, group, topics, ids)
            peer.ask(f"v{version} of {group or 'no name'}", request, version, keep=_sorted_topics)
        request = fetch_offsets(version, "asker", {"a/b": (0,)})
        peer.ask(f"v{version} invalid name or no id", request, version)
        request = fetch_offsets(version, LONGEST, {"there": (0,)}, ids)
        peer.ask(f"v{version} the longest id", request, version)
    _fetch_of_many_groups(peer, topic_id)


def _fetch_of_many_groups(peer: Peer, topic_id: UUID) -> None:
    for version in range(FETCH_MANY_FROM, FETCH[-1] + 1):
        by_id = version >= TOPIC_IDS_FROM
        topic = OffsetFetchRequestTopics(
            name="" if by_id else "there", topic_id=topic_id if by_id else ZERO_UUID, partition_indexes=(0,)
        )
        some = OffsetFetchRequestGroup(group_id="asker", topics=(topic,))
        every = OffsetFetchRequestGroup(group_id="asker", topics=None)
        nobody = OffsetFetchRequestGroup(group_id="nobody", topics=(topic,))
        for what, groups in (
            ("two groups", (nobody, some)),
            ("one group twice", (some, some)),
            ("one group in two ways", (some, every)),
            ("no groups", ()),
        ):
            peer.ask(f"v{version} {what}", OffsetFetchRequest(groups=groups), version, keep=_sorted_groups)
        if version >= _MEMBER_FROM:
            for what, member in (("epoch", (None, 1)), ("member", ("stranger", 1)), ("no epoch", ("stranger", -1))):
                request = fetch_offsets(version, "asker", {"there": (0,)}, {"there": topic_id}, member=member)
                peer.ask(f"v{version} {what}", request, version)


def _sorted_groups(answer: Any) -> Any:
    answer.get("groups", []).sort(key=str)
    return _sorted_topics(answer)


def commit_refused(peer: Peer) -> None:
    topic_id = peer.create_topic("refusing")
    wait_coordinated(peer, "committer", "", LONGEST, *(f"unused-{version}" for version in COMMIT))
    long = "m" * _METADATA_BYTES_MAX
    for version in COMMIT:

        def ask(what: str, name: str = "refusing", topic: UUID = topic_id, version: int = version, **also: Any) -> None:
            group = also.pop("group", "committer")
            request = commit(version, group, name, topic, **also)
            peer.ask(f"v{version} {what}", request, version, keep=_sorted_topics)

        ask("topic", "nowhere", UNKNOWN_ID)
        ask("no name or id", "", ZERO_UUID)
        ask("invalid name", "a/b", UNKNOWN_ID)
        ask("partition", partitions=(9,))
        ask("negative partition", partitions=(-1,))
        ask("one of two partitions", partitions=(0, 9))
        ask("the same partition twice", partitions=(0, 0))
        ask("no partitions", partitions=())
        ask("metadata as long as may be", metadata=long)
        ask("metadata too long", metadata=f"{long}m")
        ask("metadata in bytes too long", metadata="ö" * (_METADATA_BYTES_MAX // 2 + 1))
        ask("negative offset", offset=-1)
        ask("very negative offset", offset=-10)
        ask("negative epoch", leader_epoch=-7)
        ask("no group id", group="")
        ask("the longest id", group=LONGEST)
        ask("generation without a group", group=f"unused-{version}", member=("stranger", 1))
        ask("generation without a member", group=f"unused-{version}", member=("", 1))
        ask("member without a generation", group=f"unused-{version}", member=("stranger", -1))
        ask("generation in a group without members", member=("stranger", 1))
        ask("member in a group without members", member=("stranger", -1))
        none = OffsetCommitRequest(group_id="committer", member_id="", topics=())
        peer.ask(f"v{version} no topics", none, version)
        two = _two_topics(version, topic_id)
        peer.ask(f"v{version} one of two topics", two, version, keep=_sorted_topics)
    peer.ask("what is left", fetch_offsets(9, "committer", None), 9, keep=_sorted_topics)


def _two_topics(version: int, topic_id: UUID) -> OffsetCommitRequest:
    good, bad = commit(version, "committer", "refusing", topic_id), commit(version, "", "nowhere", UNKNOWN_ID)
    return OffsetCommitRequest(group_id="committer", member_id="", topics=(*bad.topics, *good.topics))


def commit_as_member(peer: Peer) -> None:
    topic_id = peer.create_topic("owned")
    for version in COMMIT:
        _commit_as_member(peer, version, topic_id)


def _commit_as_member(peer: Peer, version: int, topic_id: UUID) -> None:
    group = f"members-{version}"
    wait_coordinated(peer, group)
    label = f"v{version}"

    def ask(what: str, member: str, generation: int, also: Any = None) -> None:
        request = commit(version, group, "owned", topic_id, member=(member, generation), **(also or {}))
        peer.ask(f"{label} {what}", request, version)

    first = joined(peer, group)
    ask("before it syncs", first, 1)
    peer.call(sync(group, first, 1, {first: b"all"}), 3)
    ask("good", first, 1)
    ask("old generation", first, 0)
    ask("later generation", first, 2)
    ask("no generation", first, -1)
    ask("stranger", "stranger", 1)
    ask("no member", "", 1)
    ask("outside of the group", "", -1)
    if version >= 7:
        ask("as an instance", first, 1, {"instance": "i"})
    other = peer.beside()
    other.begin(join(group), 3)
    wait_rebalancing(peer, group, first)
    ask("while another joins", first, 1)
    peer.call(join(group, first), 3)
    second = other.end(f"{label} another").member_id
    ask("with the old generation", first, 1)
    ask("before they sync", first, 2)
    for member in (first, second):
        peer.call(leave(group, member), 5)
    ask("when it has left", first, 2)
    ask("when all have left, from outside", "", -1)
    read = fetch_offsets(9, group, {"owned": (0,)})
    peer.ask(f"{label} fetched", read, 9)


def _delete(group: str, *topics: tuple[str, tuple[int, ...]]) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        group_id=group,
        topics=tuple(
            OffsetDeleteRequestTopic(
                name=name, partitions=tuple(OffsetDeleteRequestPartition(partition_index=each) for each in partitions)
            )
            for name, partitions in topics
        ),
    )


def delete_offsets(peer: Peer) -> None:
    for topic in ("forgotten", "subscribed-to", "spare"):
        peer.create_topic(topic, 2)
    wait_coordinated(peer, "forgetful", "nobody", "", LONGEST, "reader", "workers", "joining")
    for topic in ("forgotten", "spare"):
        peer.call(commit(8, "forgetful", topic, partitions=(0, 1)), 8)

    def ask(what: str, request: Message, keep: Callable[[Any], Any] = _sorted_topics) -> None:
        peer.ask(what, request, 0, keep=keep)

    ask("one", _delete("forgetful", ("forgotten", (0,))))
    ask("again", _delete("forgetful", ("forgotten", (0,))))
    ask("partition", _delete("forgetful", ("forgotten", (9,))))
    ask("topic", _delete("forgetful", ("nowhere", (0,))))
    ask("one of two topics", _delete("forgetful", ("nowhere", (0,)), ("spare", (0,))))
    ask("twice", _delete("forgetful", ("forgotten", (1, 1))))
    ask("no topics", _delete("forgetful"))
    ask("no partitions", _delete("forgetful", ("forgotten", ())))
    peer.ask("what is left", fetch_offsets(8, "forgetful", None), 8, keep=_sorted_topics)
    ask("the last", _delete("forgetful", ("spare", (1,))))
    peer.ask("nothing is left", fetch_offsets(8, "forgetful", None), 8)
    ask("of the group that has none", _delete("forgetful", ("spare", (1,))))
    ask("unknown group", _delete("nobody", ("forgotten", (0,))))
    ask("no group id", _delete("", ("forgotten", (0,))))
    ask("the longest id", _delete(LONGEST, ("forgotten", (0,))))

    member = stable(peer, "reader", protocols={"range": subscription("subscribed-to")})
    for topic in ("subscribed-to", "forgotten"):
        peer.call(commit(8, "reader", topic, member=(member, 1)), 8)
    ask("subscribed", _delete("reader", ("subscribed-to", (0,))))
    ask("not subscribed any more", _delete("reader", ("forgotten", (0,))))
    ask("of each one", _delete("reader", ("subscribed-to", (0,)), ("forgotten", (1,))))
    stable(peer, "workers", kind="connect", protocols={"sessioned": b"data"})
    ask("of members that are no consumers", _delete("workers", ("forgotten", (0,))))
    joined(peer, "joining", protocols={"range": subscription("subscribed-to")})
    ask("while members join", _delete("joining", ("subscribed-to", (0,)), ("forgotten", (1,))))


SCENARIOS: Final = (commit_and_fetch, fetch_of_unknown_topics, commit_refused, commit_as_member, delete_offsets)
