from __future__ import annotations

from collections.abc import Awaitable

import pytest

from kraft.client import GroupDescription, OffsetAndMetadata
from kraft.client.aio import Admin
from kraft.client.cluster.any_broker import PartMissing
from kraft.client.sans_io.group.consumer_protocol import encode_assignment
from kraft.client.sans_io.group.descriptions import assigned_to
from kraft.metadata.topic_names import OFFSETS_TOPIC
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.schema.join_group import JoinGroupRequest
from kraft.wire.schema.sync_group import SyncGroupRequest
from tests.support.classic_requests import assigning, offered
from tests.support.client.fake_cluster import FakeCluster, tp
from tests.support.client.fake_groups import FakeGroups
from tests.support.server.group_broker import heartbeat
from tests.unit.client.clients import admin_of
from tests.unit.client.members import cluster_with_orders

ALL = encode_assignment([tp("orders", 1), tp("orders", 0)])


async def with_members(cluster: FakeCluster, groups: FakeGroups, assignment: bytes = ALL) -> None:
    """`old` has a static member of the classic protocol, `new` has one of the consumer protocol."""
    broker = groups.coordinator_id
    join = JoinGroupRequest(
        group_id="old",
        member_id="",
        group_instance_id="static",
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=(offered("range", b""),),
    )
    joined = await groups.answer(broker, "join_group", join)
    sync = SyncGroupRequest(
        protocol_type="consumer",
        protocol_name="range",
        group_id="old",
        member_id=joined.member_id,
        generation_id=1,
        assignments=assigning({joined.member_id: assignment}),
    )
    await groups.answer(broker, "sync_group", sync)
    await groups.answer(broker, "consumer_group_heartbeat", heartbeat("new"))
    cluster.calls.clear()


def shown(group: GroupDescription) -> tuple[str, str, str, str, list[tuple[str | None, int | None, list[str]]]]:
    members = [(each.group_instance_id, each.member_epoch, list(map(str, each.assignment))) for each in group.members]
    return group.group_id, group.type, group.state, group.assignor, members


async def test_groups_of_both_protocols_are_listed_and_described() -> None:
    async with cluster_with_orders(2, 0) as (cluster, groups), admin_of(cluster) as admin:
        await with_members(cluster, groups)
        assert [(each.group_id, each.type, each.state) for each in await admin.list_groups()] == [
            ("new", "consumer", "Stable"),
            ("old", "classic", "Stable"),
        ]
        assert [each.group_id for each in await admin.list_groups(types=["classic"])] == ["old"]
        new, old = await admin.describe_consumer_groups(["new", "old"])
        all_partitions = ["orders-0", "orders-1"]
        assert shown(old) == ("old", "classic", "Stable", "range", [("static", None, all_partitions)])
        assert shown(new) == ("new", "consumer", "Stable", "uniform", [(None, 2, all_partitions)])
        assert (old.coordinator.node_id, old.group_epoch, old.members[0].host) == (1, None, "/127.0.0.1")
        assert (new.group_epoch, new.target_assignment_epoch) == (2, 2)
        with pytest.raises(Refusal, match="'none'") as caught:
            await admin.describe_consumer_groups(["none", "old"])
        assert caught.value.error_code is ErrorCode.GROUP_ID_NOT_FOUND
        assert caught.value.message == "there is no group 'none'"


async def test_groups_are_listed_again_while_a_coordinator_is_loading() -> None:
    async with cluster_with_orders(2, 0) as (cluster, groups), admin_of(cluster) as admin:
        await with_members(cluster, groups)
        cluster.brokers[1].refusals["list_groups"] = Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "loading")
        assert len(await admin.list_groups()) == 2


async def test_a_broker_that_hangs_is_named_and_the_others_are_not_blamed() -> None:
    async with cluster_with_orders(2, 0) as (cluster, groups), admin_of(cluster) as admin:
        await with_members(cluster, groups)
        cluster.brokers[2].hangs = True
        with pytest.raises(PartMissing) as caught:
            await admin.list_groups(timeout_ms=5_000)
        reason = "broker-2:9094: no answer within the time allowed"
        said = f"broker 2 did not answer within 5 s ({reason}): the groups that it coordinates are missing"
        assert str(caught.value) == said
        assert [each.group_id for each in caught.value.found] == ["new", "old"]


async def test_members_are_removed_and_groups_deleted() -> None:
    async with cluster_with_orders(2, 0) as (cluster, groups), admin_of(cluster) as admin:
        await with_members(cluster, groups)
        refused = await admin.delete_consumer_groups(["old", "none"])
        assert [each and each.error_code for each in refused.values()] == [
            ErrorCode.NON_EMPTY_GROUP,
            ErrorCode.GROUP_ID_NOT_FOUND,
        ]
        removed = await admin.remove_members_from_consumer_group("old", ["static", "stranger"], reason="moved")
        assert removed["static"] is None
        assert removed["stranger"] is not None
        assert removed["stranger"].error_code is ErrorCode.UNKNOWN_MEMBER_ID
        assert await admin.delete_consumer_groups(["old"]) == {"old": None}
        assert [each.group_id for each in await admin.list_groups()] == ["new"]


async def test_all_members_are_removed() -> None:
    async with cluster_with_orders(2, 0) as (cluster, groups), admin_of(cluster) as admin:
        await with_members(cluster, groups)
        (removed,) = (await admin.remove_members_from_consumer_group("old")).values()
        assert removed is None
        (old,) = await admin.describe_consumer_groups(["old"])
        assert (old.state, old.members) == ("Empty", ())


async def test_offsets_are_altered_listed_and_deleted() -> None:
    async with cluster_with_orders(3, 0) as (cluster, groups), admin_of(cluster) as admin:
        await with_members(cluster, groups)
        altered = await admin.alter_consumer_group_offsets(
            "g", {tp("orders"): 5, tp("orders", 1): OffsetAndMetadata(6, "note", 2), tp("orders", 9): 7}
        )
        outside = altered.pop(tp("orders", 9))
        assert outside is not None
        assert outside.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert outside.message == "the offset of orders-9 was not committed: there is no such partition"
        assert altered == {tp("orders"): None, tp("orders", 1): None}
        committed = {tp("orders"): OffsetAndMetadata(5), tp("orders", 1): OffsetAndMetadata(6, "note", 2)}
        assert await admin.list_consumer_group_offsets("g", require_stable=True) == committed
        asked = [tp("orders", number) for number in (1, 2)]
        assert await admin.list_consumer_group_offsets("g", asked) == {tp("orders", 1): committed[tp("orders", 1)]}
        assert await admin.delete_consumer_group_offsets("g", [tp("orders", 1)]) == {tp("orders", 1): None}
        assert list(await admin.list_consumer_group_offsets("g")) == [tp("orders")]
        assert await admin.list_consumer_group_offsets("none") == {}


async def test_offsets_of_a_group_with_members_are_left_to_them() -> None:
    async with cluster_with_orders(2, 0) as (cluster, groups), admin_of(cluster) as admin:
        await with_members(cluster, groups)
        with pytest.raises(Refusal) as caught:
            await admin.alter_consumer_group_offsets("old", {tp("orders"): 5})
        assert caught.value.error_code is ErrorCode.UNKNOWN_MEMBER_ID
        with pytest.raises(ValueError, match=r"^orders-0: -1 is not an offset: expected a number from 0 to "):
            await admin.alter_consumer_group_offsets("new", {tp("orders"): -1})
        (refused,) = (await admin.delete_consumer_group_offsets("new", [tp("orders")])).values()
        assert str(refused) == (
            "GROUP_SUBSCRIBED_TO_TOPIC: the offset of orders-0 was not deleted: a member of the group is subscribed to "
            "the topic; stop the members first"
        )
        with pytest.raises(Refusal) as caught:
            await admin.delete_consumer_group_offsets("none", [tp("orders")])
        assert caught.value.error_code is ErrorCode.GROUP_ID_NOT_FOUND


async def test_an_assignment_that_cannot_be_read_is_shown_as_empty() -> None:
    async with cluster_with_orders(2, 0) as (cluster, groups), admin_of(cluster) as admin:
        await with_members(cluster, groups, b"\0\1\0\0\0\5")
        (old,) = await admin.describe_consumer_groups(["old"])
        assert old.members[0].assignment == ()


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff\0\0", b"\0\1\0\0\0\5"])
def test_bytes_that_are_no_assignment_have_no_partitions(data: bytes) -> None:
    assert assigned_to(data) == ()


def test_an_assignment_of_a_later_version_is_read_as_far_as_it_is_known() -> None:
    assert assigned_to(b"\0\x09" + encode_assignment([tp("orders", 2)])[2:] + b"more") == (tp("orders", 2),)


async def missing_of(admin: Admin) -> dict[str, object]:
    """Return what each call about a group that is not there returns, or its Refusal's code."""
    calls: dict[str, Awaitable[object]] = {
        "describe": admin.describe_consumer_groups(["nobody"]),
        "describe many": admin.describe_many_groups(["nobody"]),
        "offsets": admin.list_consumer_group_offsets("nobody"),
        "offsets of many": admin.list_offsets_of_many_groups(["nobody"]),
        "delete": admin.delete_consumer_groups(["nobody"]),
        "delete offsets": admin.delete_consumer_group_offsets("nobody", [tp("orders")]),
        "remove members": admin.remove_members_from_consumer_group("nobody"),
    }
    found: dict[str, object] = {}
    for name, call in calls.items():
        try:
            outcome = await call
        except Refusal as refusal:
            outcome = refusal
        of_group = outcome.get("nobody", outcome) if isinstance(outcome, dict) else outcome
        found[name] = of_group.error_code if isinstance(of_group, Refusal) else of_group
    return found


@pytest.mark.parametrize("is_refused", [False, True], ids=["seen", "not seen"])
async def test_whoever_looks_for_a_group_asks_for_no_coordinator_before_there_is_one(is_refused: bool) -> None:
    cluster = FakeCluster()
    cluster.create("orders", 3)
    cluster.refused_topics = {OFFSETS_TOPIC} if is_refused else set()
    # Nobody says to have the group, as if nobody had one: 'nobody' would be on broker 1.
    cluster.brokers[1].kill()
    async with admin_of(cluster) as admin:
        missing = ErrorCode.COORDINATOR_NOT_AVAILABLE if is_refused else ErrorCode.GROUP_ID_NOT_FOUND
        expected: dict[str, object] = dict.fromkeys(
            ("describe", "describe many", "delete", "delete offsets", "remove members"), missing
        )
        of_offsets: object = missing if is_refused else {}
        assert await missing_of(admin) == expected | {"offsets": of_offsets, "offsets of many": of_offsets}
        assert not [each for each in cluster.calls if "find_coordinator" in each]


async def test_that_there_are_groups_is_asked_once() -> None:
    cluster = FakeCluster()
    cluster.create(OFFSETS_TOPIC, 3)
    async with admin_of(cluster) as admin:
        for _ in range(2):
            assert (await missing_of(admin))["describe"] is ErrorCode.GROUP_ID_NOT_FOUND
    assert cluster.described.count(OFFSETS_TOPIC) == 1
