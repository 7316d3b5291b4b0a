from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from kraft.metadata.described_topics import DescribeTopicsRequest
from kraft.metadata.features import UnsupportedFeatureLevel
from kraft.metadata.new_topics import new_topic
from kraft.metadata.records import (
    BrokerConfigSet,
    BrokerUnfenced,
    FeatureLevelSet,
    PartitionCreated,
    TopicConfigSet,
    TopicCreated,
)
from kraft.metadata.service_times import SETTLED_AFTER_MS
from kraft.metadata.snapshot_records import snapshot_records
from kraft.model.allocate_producer_ids import AllocateProducerIdsRequest
from kraft.model.alter_partition import AlterPartitionRequest
from kraft.model.brokers import FenceBrokerRequest, UnfenceBrokerRequest
from kraft.model.describe_quorum import QuorumDescriptionRequest
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.heartbeat import BrokerHeartbeatRequest
from kraft.model.ids import NO_BROKER, BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch
from kraft.rpc import calls
from kraft.rpc.client_calls import API_VERSIONS, DESCRIBE_CLIENTS
from kraft.rpc.directory_calls import ALTER_REPLICA_LOG_DIRS
from kraft.server.apis.table import APIS
from kraft.server.controller.quorum_controller import FINISH_S_MAX
from kraft.server.handlers.describe_features import describe_features
from kraft.server.handlers.describe_topics import describe_topics
from tests.support.cluster_images import CLUSTER, ORDERS, cluster, partition, registered, registration, with_topic
from tests.support.declared_calls import DECLARED_CALLS
from tests.unit.server.controller.controlling import SESSION_S, controller


async def test_the_first_active_controller_gives_the_cluster_its_id() -> None:
    async with controller() as parts:
        assert parts.controller.host.image.cluster_id == CLUSTER


async def test_a_controller_that_takes_over_says_so_in_the_log() -> None:
    with capture_logs() as events:
        async with controller(leading=False) as parts:
            parts.quorum.lead(4)
            parts.quorum.lose()
    logged = [(event["event"], event["node"]) for event in events if event["event"].startswith("controller ")]
    assert logged == [("controller activated", 1), ("controller deactivated", 1)]


async def test_a_controller_that_is_not_active_refuses_every_request() -> None:
    async with controller(leading=False) as parts:
        assert (await parts.calls.register_broker(registration(1))).error_code is ErrorCode.NOT_CONTROLLER
        beat = BrokerHeartbeatRequest(
            broker_id=BrokerId(1), broker_epoch=BrokerEpoch(1), metadata_index=1, wants_shutdown=False
        )
        assert (await parts.calls.heartbeat(beat)).error_code is ErrorCode.NOT_CONTROLLER
        ids = AllocateProducerIdsRequest(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(1))
        assert (await parts.calls.allocate_producer_ids(ids)).error_code is ErrorCode.NOT_CONTROLLER
        for refused in (
            parts.create_topics(),
            parts.controller.describe_quorum(QuorumDescriptionRequest()),
        ):
            with pytest.raises(Refusal, match="NOT_CONTROLLER"):
                await refused


# --- topics ------------------------------------------------------------------------------------------------------


async def test_a_topic_is_created_described_and_changed_by_its_leader() -> None:
    async with controller() as parts:
        for broker_id in (1, 2):
            await parts.beat(broker_id, await parts.register(broker_id))
        node = parts.controller
        created = await parts.create_topics(new_topic("orders", replication_factor=2))
        assert [result.error_code for result in created.topics] == [ErrorCode.NONE]
        (described,) = (await describe_topics(node.host.image, DescribeTopicsRequest(topics=[]))).topics
        (partition,) = described.metadata.partitions
        assert sorted(partition.replica_nodes) == [1, 2]
        refused = await parts.calls.alter_partition(
            AlterPartitionRequest(
                broker_id=BrokerId(1),
                broker_epoch=parts.broker(1).broker_epoch,
                topic_id=ORDERS,
                partition=0,
                leader_epoch=LeaderEpoch(0),
                partition_epoch=PartitionEpoch(0),
                new_isr=[],
            )
        )
        assert refused.error_code is ErrorCode.UNKNOWN_TOPIC_ID


async def test_the_quorum_is_described_with_the_brokers_that_only_observe() -> None:
    async with controller() as parts:
        for broker_id in (1, 7):
            await parts.beat(broker_id, await parts.register(broker_id), index=2)
        await asyncio.sleep(1)
        description = await parts.controller.describe_quorum(QuorumDescriptionRequest())
        assert (description.leader_id, description.leader_epoch) == (1, 1)
        assert [voter.node_id for voter in description.voters] == [1]
        (observer,) = description.observers
        assert (observer.node_id, observer.log_end_offset, observer.last_fetch_ms_ago) == (7, 2, 1_000)


async def test_a_voter_that_has_just_stepped_down_does_not_describe_the_quorum() -> None:
    async with controller() as parts:
        parts.quorum.step_down()
        assert parts.controller.host.active
        with pytest.raises(Refusal, match="NOT_CONTROLLER"):
            await parts.controller.describe_quorum(QuorumDescriptionRequest())


async def test_a_voter_that_does_not_lead_says_what_it_knows_when_any_voter_is_asked() -> None:
    async with controller(leading=False) as parts:
        description = await parts.controller.describe_quorum(QuorumDescriptionRequest(from_any_voter=True))
        assert (description.leader_id, description.observers, description.cluster_id) == (-1, [], CLUSTER)
        (voter,) = description.voters
        assert (voter.node_id, voter.last_fetch_ms_ago, voter.lag) == (1, 0, -1)


async def test_a_broker_that_an_operator_fenced_stays_fenced_until_the_operator_takes_that_back() -> None:
    async with controller() as parts:
        epoch = await parts.register(1)
        assert not await parts.beat(1, epoch)
        result = await parts.fence(FenceBrokerRequest(broker_id=1, timeout_ms=1))
        assert result.changed
        assert await parts.beat(1, epoch)
        assert (await parts.unfence(UnfenceBrokerRequest(broker_id=1, timeout_ms=1))).changed
        assert not await parts.beat(1, epoch)


async def test_a_controller_that_stops_first_completes_controlled_shutdowns_that_have_begun() -> None:
    async with controller() as parts:
        epochs = [await parts.register(broker_id) for broker_id in (1, 2)]
        for broker_id, epoch in enumerate(epochs, start=1):
            assert not await parts.beat(broker_id, epoch)
        await parts.controller.finish_shutdowns()
        assert not await parts.beat(2, epochs[1], wants_shutdown=True)
        finishing = asyncio.create_task(parts.controller.finish_shutdowns())
        await asyncio.sleep(FINISH_S_MAX / 2)
        assert not finishing.done()
        assert await parts.beat(2, epochs[1], wants_shutdown=True)
        await finishing


@pytest.mark.parametrize("is_active", [True, False])
async def test_a_controller_that_stops_does_not_wait_long_for_others_and_not_at_all_unless_it_is_active(
    is_active: bool,
) -> None:
    async with controller() as parts:
        assert not await parts.beat(1, await parts.register(1))
        assert not await parts.beat(1, parts.broker(1).broker_epoch, wants_shutdown=True)
        if not is_active:
            parts.controller.host.on_leadership(None)
        began_s = asyncio.get_running_loop().time()
        await parts.controller.finish_shutdowns()
        assert asyncio.get_running_loop().time() - began_s == (FINISH_S_MAX if is_active else 0)


async def test_a_new_controller_knows_who_came_back_a_moment_before_and_lets_it_lead_last() -> None:
    async with controller(leading=False) as parts:
        parts.quorum.tell(*snapshot_records(with_topic(cluster(1, 2, 3), [1, 2, 3])))
        await asyncio.sleep(1)
        parts.quorum.tell(registered(2, epoch=9), BrokerUnfenced(broker_id=BrokerId(2), broker_epoch=BrokerEpoch(9)))
        await asyncio.sleep(1)
        parts.quorum.lead(1)
        await asyncio.sleep(SETTLED_AFTER_MS / 2_000)
        await parts.beat(1, 1, wants_shutdown=True)
        assert partition(parts.controller.host.image).leader == 3


async def test_a_broker_is_forgotten_only_when_its_session_has_ended() -> None:
    async with controller() as parts:
        await parts.beat(1, await parts.register(1))
        with pytest.raises(Refusal, match="broker 1 is running"):
            await parts.unregister(1)
        await asyncio.sleep(SESSION_S + 1)
        await parts.unregister(1)
        assert parts.controller.host.image.brokers == {}
        assert await parts.register(1) == 2


async def test_a_new_cluster_acts_on_the_latest_levels() -> None:
    async with controller() as parts:
        described = describe_features(parts.controller.host.image, 1)
        levels = {each.feature: each.finalized_level for each in described.features}
        assert levels == {
            "eligible.leader.replicas.version": 1,
            "group.version": 1,
            "metadata.version": 5,
            "transaction.version": 2,
        }


async def test_a_controller_that_reads_of_a_level_beyond_its_own_support_goes_no_further() -> None:
    async with controller() as parts:
        with pytest.raises(UnsupportedFeatureLevel, match=r"the cluster is at level 9 of metadata\.version"):
            parts.quorum.tell(FeatureLevelSet(feature="metadata.version", level=9))
        assert parts.controller.host.image.features["metadata.version"] == 5


@pytest.mark.parametrize(
    ("settings", "topics_own", "leader"),
    [
        ({}, None, NO_BROKER),
        ({"": "true"}, None, 2),
        ({"1": "true"}, None, 2),
        ({"": "true", "1": "false"}, None, NO_BROKER),
        ({"": "true"}, "false", NO_BROKER),
        ({"2": "true"}, None, NO_BROKER),
    ],
)
async def test_whether_an_election_may_be_unclean_is_the_topics_then_what_was_set_then_the_files(
    settings: dict[str, str], topics_own: str | None, leader: int
) -> None:
    """Set for broker 1, which shares this controller's process, or for all brokers; Kafka's controllers read both."""
    async with controller() as parts:
        for broker_id in (1, 2):
            await parts.beat(broker_id, await parts.register(broker_id))
        key = "unclean.leader.election.enable"
        own = [] if topics_own is None else [TopicConfigSet(topic_id=ORDERS, key=key, value=topics_own)]
        parts.quorum.tell(
            *[BrokerConfigSet(broker=broker, key=key, value=value) for broker, value in settings.items()],
            TopicCreated(topic="orders", topic_id=ORDERS),
            PartitionCreated(
                topic_id=ORDERS,
                partition=0,
                replicas=[BrokerId(1), BrokerId(2)],
                isr=[BrokerId(1)],
                leader=BrokerId(1),
                leader_epoch=LeaderEpoch(0),
                partition_epoch=PartitionEpoch(0),
            ),
            *own,
        )
        await parts.fence(FenceBrokerRequest(broker_id=1, timeout_ms=1_000, force=True))
        assert parts.controller.host.image.topics[ORDERS].partitions[0].leader == leader


async def test_a_controller_serves_what_operators_and_brokers_ask_it() -> None:
    async with controller() as parts:
        served = {each.call.method for each in parts.calls.calls()}
    served |= {each.call.method for each in APIS if each.call is not None and each.at_controller is not None}
    asked = {row.method for rows in DECLARED_CALLS.values() for row in rows}
    # All other calls need a broker's logs.
    of_brokers = ("kraft.v1.Broker/", "kraft.v1.Groups/", "kraft.v1.Replication/", "kraft.v1.Transactions/")
    of_one_broker = {
        each.method for each in (calls.DESCRIBE_LOG_DIRS, ALTER_REPLICA_LOG_DIRS, DESCRIBE_CLIENTS, API_VERSIONS)
    }
    assert {name for name in asked - served if not name.startswith(of_brokers, 1)} == of_one_broker
    assert served <= asked
