"""Moves between log directories, as the admin client asks for them."""

from __future__ import annotations

from kraft.model.errors import ErrorCode, KraftError, Refusal
from kraft.model.ids import TopicPartitionReplica
from kraft.rpc.peers import Unreachable
from tests.support.client.fake_cluster import FakeCluster
from tests.support.virtual_time import run_virtually
from tests.unit.client.clients import admin_of


def code(error: KraftError | None) -> ErrorCode:
    assert error is None or isinstance(error, Refusal)
    return ErrorCode.NONE if error is None else error.error_code


def test_each_broker_is_asked_for_its_replicas_and_each_replica_has_its_outcome() -> None:
    async def scenario() -> None:
        cluster = FakeCluster()
        moved, there, new, unknown, away = (
            TopicPartitionReplica("orders", number, broker)
            for number, broker in ((0, 1), (1, 1), (2, 1), (0, 2), (0, 7))
        )
        cluster.places = {moved: "/a", there: "/b", unknown: "/a"}
        async with admin_of(cluster) as admin:
            outcome = await admin.alter_replica_log_directories(
                {moved: "/b", there: "/b", new: "/b", unknown: "/c", away: "/a"}
            )
            assert {replica: code(error) for replica, error in outcome.items()} == {
                moved: ErrorCode.NONE,
                there: ErrorCode.NONE,
                new: ErrorCode.REPLICA_NOT_AVAILABLE,
                unknown: ErrorCode.LOG_DIR_NOT_FOUND,
                away: ErrorCode.BROKER_NOT_AVAILABLE,
            }
            assert cluster.copies == {moved: "/b"}
            assert len([call for call in cluster.calls if call.endswith("alter_replica_log_dirs")]) == 2
            cluster.brokers[2].lost_answers["alter_replica_log_dirs"] = 1
            outcome = await admin.alter_replica_log_directories({moved: "/a", unknown: "/b"})
            assert outcome[moved] is None
            assert isinstance(outcome[unknown], Unreachable)

    run_virtually(scenario())
