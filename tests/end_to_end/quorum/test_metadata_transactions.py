"""A decision about very many partitions needs many entries of the metadata log; its controller is killed meanwhile."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from pathlib import Path

import pytest

from benchmarks.metadata_cluster import CLUSTER_ID, ScaleCluster, followed, scale_cluster
from kraft.local.node_process import NodeProcess
from kraft.metadata.new_topics import new_topic
from kraft.metadata.records import MetadataTransactionBegun, PartitionChanged, RegisterBroker
from kraft.model.follow_metadata import FollowMetadataRequest
from kraft.model.ids import BrokerId
from kraft.rpc.cluster_calls import FOLLOW_METADATA
from kraft.rpc.metadata_codec import decode_records
from kraft.rpc.topic_calls import CREATE_TOPICS
from kraft.wire.schema.create_topics import CreateTopicsRequest

TOPICS = 5
PARTITIONS = 1_000
DEADLINE_S = 60.0


async def create_topics(cluster: ScaleCluster) -> None:
    for number in range(TOPICS):
        topic = new_topic(f"topic-{number}", partitions=PARTITIONS, replication_factor=3)
        await create(cluster, CreateTopicsRequest(topics=(topic,), timeout_ms=int(DEADLINE_S * 1_000)))


async def create(cluster: ScaleCluster, request: CreateTopicsRequest) -> None:
    await cluster.brokers[0].controllers.call(CREATE_TOPICS, request, DEADLINE_S, attempt_timeout_s=DEADLINE_S)


async def transaction_seen(cluster: ScaleCluster, active: NodeProcess, entries: int) -> None:
    """Wait until the active controller has committed that many entries of a transaction, or all of it."""
    address = next(str(voter.address) for voter in cluster.voters if voter.node_id == active.node_id)
    peer = cluster.connections.peer(address)
    seen = 0
    request = FollowMetadataRequest(cluster_id=CLUSTER_ID, broker_id=BrokerId(9), after_index=0)
    async with aclosing(peer.follow(FOLLOW_METADATA, request)) as batches:
        async for batch in batches:
            records = [] if batch.in_snapshot else decode_records(batch.records, batch.index)
            of_broker = any(isinstance(record, RegisterBroker | PartitionChanged) for record in records)
            begins = bool(records) and isinstance(records[0], MetadataTransactionBegun) and of_broker
            seen += begins or (seen > 0 and of_broker)
            if seen >= entries:
                return


@pytest.mark.slow
@pytest.mark.parametrize("entries", [2])
async def test_of_a_decision_whose_controller_is_killed_all_counts_or_nothing(tmp_path: Path, entries: int) -> None:
    async with scale_cluster(tmp_path) as cluster:
        await create_topics(cluster)
        broker = cluster.brokers[0]
        earlier = broker.epoch
        active = await cluster.active()
        # A broker's new process leaves every in-sync set: thousands of changes.
        registering = asyncio.create_task(broker.register())
        async with asyncio.timeout(DEADLINE_S):
            await transaction_seen(cluster, active, entries)
        active.kill()
        registering.cancel()
        with suppress(asyncio.CancelledError):
            await registering
        broker.epoch = earlier
        # Another controller decides by now, so the unfinished transaction is aborted.
        watching = cluster.brokers[1]
        await watching.beat()
        await watching.register()
        image = (await followed(cluster, watching)).image
        registration = image.brokers[broker.broker_id]
        is_new = registration.broker_epoch > earlier
        partitions = [state for topic in image.topics.values() for state in topic.partitions.values()]
        assert len(partitions) == TOPICS * PARTITIONS
        assert registration.fenced == is_new
        assert {broker.broker_id in state.isr for state in partitions} == {not is_new}
