"""The admin client's calls about partitions, against a cluster that decides as a controller does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from kraft.client.aio.admin import Admin
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition
from kraft.model.partitions import ElectionType
from tests.support.client.fake_cluster import FakeCluster
from tests.support.virtual_time import run_virtually
from tests.unit.client.clients import admin_of

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


def code(refusal: Refusal | None) -> ErrorCode:
    return ErrorCode.NONE if refusal is None else refusal.error_code


def with_admin(scenario: Callable[[FakeCluster, Admin], Awaitable[None]]) -> None:
    async def run() -> None:
        cluster = FakeCluster()
        async with admin_of(cluster) as admin:
            await scenario(cluster, admin)

    run_virtually(run())


def test_partitions_are_added_placed_and_only_checked() -> None:
    async def scenario(cluster: FakeCluster, admin: Admin) -> None:
        cluster.place("orders", [1, 2])
        await admin.create_partitions("orders", 3, validate_only=True)
        await admin.create_partitions("orders", 2, [[3, 1]])
        (described,) = await admin.describe_topics(["orders"])
        assert [each.replica_nodes for each in described.metadata.partitions][1:] == [(3, 1)]
        with pytest.raises(Refusal, match="already has 2 partitions"):
            await admin.create_partitions("orders", 2)
        with pytest.raises(Refusal, match="there is no topic 'ordres'"):
            await admin.create_partitions("ordres", 2)

    with_admin(scenario)


def test_elections_tell_of_each_partition_what_came_of_it() -> None:
    async def scenario(cluster: FakeCluster, admin: Admin) -> None:
        cluster.place("orders", [1, 2], [2, 1], isr=[2, 1])
        outcome = await admin.elect_leaders(ElectionType.PREFERRED, [FIRST, SECOND, TopicPartition("ordres", 0)])
        assert [code(refusal) for refusal in outcome.values()] == [
            ErrorCode.NONE,
            ErrorCode.ELECTION_NOT_NEEDED,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert await admin.elect_leaders(ElectionType.PREFERRED) == {}
        assert await admin.elect_leaders(ElectionType.PREFERRED, []) == {}
        assert code((await admin.elect_leaders(ElectionType.UNCLEAN, [FIRST]))[FIRST]) is ErrorCode.ELECTION_NOT_NEEDED

    with_admin(scenario)


def test_replicas_are_moved_listed_and_left_where_they_were() -> None:
    async def scenario(cluster: FakeCluster, admin: Admin) -> None:
        cluster.place("orders", [1], [2])
        outcome = await admin.alter_partition_reassignments({FIRST: [3], SECOND: [9]})
        assert [code(outcome[each]) for each in (FIRST, SECOND)] == [
            ErrorCode.NONE,
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ]
        under_way = await admin.list_partition_reassignments()
        assert list(under_way) == [FIRST]
        assert (under_way[FIRST].adding_replicas, under_way[FIRST].removing_replicas) == ((3,), (1,))
        assert await admin.list_partition_reassignments([SECOND]) == {}
        assert await admin.alter_partition_reassignments({FIRST: None}) == {FIRST: None}
        assert code((await admin.alter_partition_reassignments({FIRST: None}))[FIRST]) is (
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        )
        kept = await admin.alter_partition_reassignments({FIRST: [1, 2]}, allow_replication_factor_change=False)
        assert code(kept[FIRST]) is ErrorCode.INVALID_REPLICATION_FACTOR

    with_admin(scenario)
