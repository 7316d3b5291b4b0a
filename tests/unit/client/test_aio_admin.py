from __future__ import annotations

import inspect
from types import ModuleType

import pytest
from msgspec.structs import replace

from kraft.client.aio import admin as admin_module
from kraft.client.aio.admin import Admin
from kraft.client.cluster.any_broker import NoBrokerReachable
from kraft.client.model.errors import ClientClosed, NoActiveController
from kraft.client.model.values import NewTopic
from kraft.model.client_quotas import QuotaMatch
from kraft.model.configs import ConfigOperation, ConfigResourceType, ConfigSource
from kraft.model.describe_quorum import QuorumDescriptionRequest
from kraft.model.errors import ErrorCode, KraftError, Refusal
from tests.support.client.fake_admin import FakeAdmin
from tests.support.client.fake_cluster import FakeCluster
from tests.unit.client.clients import admin_of


def test_every_call_is_a_method_under_its_own_name() -> None:
    parts = [
        part for name, part in vars(admin_module).items() if name.endswith("_admin") or name == "transaction_commits"
    ]
    calls = {name: call for part in parts for name, call in vars(part).items() if _is_call_of(part, name, call)}
    assert len(parts) >= 8
    assert {name: call for name, call in vars(Admin).items() if inspect.isfunction(call) and name in calls} == calls


def _is_call_of(part: ModuleType, name: str, value: object) -> bool:
    return inspect.iscoroutinefunction(value) and value.__module__ == part.__name__ and not name.startswith("_")


async def test_topics_are_created_listed_described_and_deleted() -> None:
    cluster = FakeCluster()
    async with admin_of(cluster) as admin:
        await admin.create_topic("orders", 3, 2, {"retention.ms": "1000"})
        await admin.create_topics([NewTopic(topic="payments")])
        assert await admin.list_topics() == ["orders", "payments"]
        (orders,) = await admin.describe_topics(["orders"])
        assert len(orders.metadata.partitions) == 3
        assert orders.configs == {"retention.ms": "1000"}
        assert [each.topic for each in await admin.describe_topics()] == ["orders", "payments"]
        await admin.delete_topics(["orders"])
        assert await admin.list_topics() == ["payments"]


async def test_topics_are_found_with_their_ids_and_missing_ones_are_left_out() -> None:
    cluster = FakeCluster()
    cluster.create("orders", partitions=2)
    cluster.create("payments")
    async with admin_of(cluster) as admin:
        found = await admin.find_topics(["orders", "ordres"])
        assert {name: len(topic.partitions) for name, topic in found.items()} == {"orders": 2}
        assert found["orders"].topic_id == cluster.topic_id("orders")
        assert sorted(await admin.find_topics()) == ["orders", "payments"]
        assert await admin.find_topics([]) == {}


async def test_a_check_creates_nothing() -> None:
    cluster = FakeCluster()
    async with admin_of(cluster) as admin:
        await admin.create_topics([NewTopic(topic="orders")], validate_only=True)
    assert cluster.topics == {}


async def test_a_topic_that_exists_or_does_not_is_a_refusal_that_names_it() -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    async with admin_of(cluster) as admin:
        with pytest.raises(Refusal, match="'orders'") as caught:
            await admin.create_topic("orders")
        assert caught.value.error_code is ErrorCode.TOPIC_ALREADY_EXISTS
        for call in (admin.delete_topics(["ordres"]), admin.describe_topics(["ordres"])):
            with pytest.raises(Refusal, match="'ordres'"):
                await call


async def test_topics_are_described_page_by_page() -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    cluster.create("payments")
    async with admin_of(cluster) as admin:
        first = await admin.describe_topic_partitions(["orders", "payments"])
        last = await admin.describe_topic_partitions(["orders", "payments"], cursor=first.next_cursor)
    assert [topic.name for topic in (*first.topics, *last.topics)] == ["orders", "payments"]
    assert last.next_cursor is None


async def test_configs_of_a_topic_are_altered_and_described() -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    async with admin_of(cluster) as admin:
        await admin.alter_topic_configs("orders", {"retention.ms": "5"}, delete=["segment.ms"])
        entries = {entry.name: entry for entry in await admin.describe_topic_configs("orders")}
        assert entries["retention.ms"].value == "5"
        assert entries["retention.ms"].config_source == ConfigSource.DYNAMIC_TOPIC_CONFIG
        assert entries["segment.bytes"].config_source == ConfigSource.DEFAULT_CONFIG
        await admin.alter_topic_configs("orders", append={"a": "1"}, subtract={"b": "2"}, validate_only=True)
    (resource,) = cluster.alterations[-1].resources
    assert [(each.config_operation, each.name, each.value) for each in resource.configs] == [
        (ConfigOperation.APPEND, "a", "1"),
        (ConfigOperation.SUBTRACT, "b", "2"),
    ]
    assert cluster.alterations[-1].validate_only
    assert cluster.configs["orders"] == {"retention.ms": "5"}


async def test_configs_of_a_topic_that_does_not_exist_are_a_refusal() -> None:
    async with admin_of(FakeCluster()) as admin:
        for call in (
            admin.describe_topic_configs("ordres"),
            admin.alter_topic_configs("ordres", {"retention.ms": "5"}),
        ):
            with pytest.raises(Refusal, match="'ordres'"):
                await call


async def test_the_resources_that_have_configs_are_listed_by_type() -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    async with admin_of(cluster) as admin:
        (found,) = await admin.list_config_resources([ConfigResourceType.TOPIC])
    assert (found.resource_name, found.resource_type) == ("orders", ConfigResourceType.TOPIC)


async def test_a_broker_is_asked_for_its_own_configs() -> None:
    cluster = FakeCluster()
    async with admin_of(cluster) as admin:
        (entry,) = await admin.describe_broker_configs(3)
        assert (entry.name, entry.value) == ("node.id", "3")
        assert "broker-3:9094 describe_configs" in cluster.calls
        with pytest.raises(Refusal, match="broker 9 is not in service; in service are: 1, 2, 3"):
            await admin.describe_broker_configs(9)


async def test_the_quorum_and_the_cluster_are_described() -> None:
    cluster = FakeCluster()
    async with admin_of(cluster) as admin:
        quorum = await admin.describe_quorum()
        assert quorum == FakeAdmin(cluster, 1).describe_quorum(QuorumDescriptionRequest())
        assert (quorum.leader_id, quorum.leader_epoch, quorum.high_watermark) == (2, 5, 41)
        assert [(each.node_id, each.log_end_offset, each.lag) for each in quorum.voters] == [
            (1, 40, 1),
            (2, 41, 0),
            (3, -1, -1),
        ]
        assert [(each.node_id, each.log_end_offset) for each in quorum.observers] == [(7, 41)]
        described = await admin.describe_cluster()
        assert [(broker.node_id, broker.host, broker.port) for broker in described.brokers] == [
            (1, "broker-1", 9094),
            (2, "broker-2", 9094),
            (3, "broker-3", 9094),
        ]


async def test_another_node_is_asked_when_the_first_is_down() -> None:
    cluster = FakeCluster()
    cluster.brokers[1].is_up = False
    async with admin_of(cluster) as admin:
        assert (await admin.describe_quorum()).leader_id == 2


async def test_a_change_without_an_active_controller_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster()
    leaderless = replace(
        FakeAdmin(cluster, 1).describe_quorum(QuorumDescriptionRequest()),
        error_code=ErrorCode.NOT_CONTROLLER,
        leader_id=-1,
    )

    def refuse(_self: FakeAdmin, _request: object) -> None:
        raise Refusal(ErrorCode.NOT_CONTROLLER, "there is no active controller")

    monkeypatch.setattr(FakeAdmin, "unfence_broker", refuse)
    monkeypatch.setattr(FakeAdmin, "describe_quorum", lambda _self, _request: leaderless)
    async with admin_of(cluster, default_api_timeout_ms=5_000) as admin:
        with pytest.raises(NoActiveController):
            await admin.unfence_broker(1)


async def test_when_no_node_answers_all_are_named() -> None:
    cluster = FakeCluster(brokers=2)
    for broker in cluster.brokers.values():
        broker.is_up = False
    async with admin_of(cluster, default_api_timeout_ms=10_000) as admin:
        with pytest.raises(NoBrokerReachable, match=r"within 10 s \(broker-1:9094: .*; broker-2:9094: "):
            await admin.list_topics()


async def test_a_closed_admin_client_stays_closed() -> None:
    admin = admin_of(FakeCluster())
    await admin.list_topics()
    await admin.close()
    await admin.close()
    with pytest.raises(ClientClosed):
        await admin.list_topics()


async def test_brokers_features_and_quotas_are_described_and_changed() -> None:
    cluster = FakeCluster()
    async with admin_of(cluster) as admin:
        assert [each.broker_id for each in await admin.describe_brokers()] == [1, 2, 3]
        clients = await admin.describe_clients((2, 3, 9))
        named = {
            broker_id: found[0].client_id for broker_id, found in clients.items() if not isinstance(found, KraftError)
        }
        assert named == {2: "of broker 2", 3: "of broker 3"}
        assert (await admin.describe_clients()).keys() == {1, 2, 3}
        assert (await admin.fence_broker(1)).changed
        assert [each.fenced for each in await admin.describe_brokers([1])] == [True]
        with pytest.raises(Refusal, match="without a leader"):
            await admin.fence_broker(2)
        assert cluster.fenced == {1}
        assert (await admin.fence_broker(2, force=True)).leaderless == ["orders-0"]
        assert cluster.fenced == {1, 2}
        assert (await admin.unfence_broker(1)).changed
        assert not (await admin.unfence_broker(1)).changed
        assert cluster.fenced == {2}
        await admin.unregister_broker(1)
        assert [each.broker_id for each in await admin.describe_brokers()] == [2, 3]
        assert await admin.update_features({"metadata.version": 2}, validate_only=True) == {"metadata.version": 2}
        assert [each.finalized_level for each in (await admin.describe_features()).features] == [1]
        assert await admin.update_features({"metadata.version": 2}) == {"metadata.version": 2}
        assert [each.finalized_level for each in (await admin.describe_features()).features] == [2]
        await admin.alter_client_quotas({"user": "anna"}, {"producer_byte_rate": 7})
        await admin.alter_client_quotas({"user": None}, {"producer_byte_rate": 8})
        with pytest.raises(Refusal, match="there is no quota 'no_such_quota'"):
            await admin.alter_client_quotas({"user": "anna"}, {"no_such_quota": 7})
        for name, values in (("anna", [7]), (None, [8]), (QuotaMatch.ANY, [8, 7])):
            described = await admin.describe_client_quotas({"user": name}, strict=True)
            assert [quota.value for each in described for quota in each.values] == values
