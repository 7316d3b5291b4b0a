from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest
from msgspec.structs import replace

from kraft.metadata.imported_users import ImportedUser, ImportUsersRequest, ImportUsersResult
from kraft.metadata.new_topics import new_topic
from kraft.metadata.records import (
    ClusterInitialised,
)
from kraft.model.allocate_producer_ids import AllocateProducerIdsRequest
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.fail_replicas import FailedReplica, FailReplicasRequest
from kraft.model.follow_metadata import FollowMetadataRequest, MetadataBatch
from kraft.model.ids import BrokerEpoch, BrokerId, LeaderEpoch
from kraft.rpc.metadata_codec import decode_records
from kraft.sasl.scram import ScramCredential
from kraft.server.cluster.metadata_snapshots import decode_image
from tests.support.cluster_images import CLUSTER
from tests.unit.server.controller.controlling import controller


def follow(after_index: int = 0, cluster_id: str = CLUSTER) -> FollowMetadataRequest:
    return FollowMetadataRequest(cluster_id=cluster_id, broker_id=1, after_index=after_index)


async def test_replica_failures_are_taken_from_registered_brokers_only() -> None:
    async with controller() as parts:
        for broker_id in (1, 2):
            await parts.beat(broker_id, await parts.register(broker_id))
        await parts.create_topics(new_topic("orders", replication_factor=2))
        (topic,) = parts.controller.host.image.topics.values()
        leader = topic.partitions[0].leader
        report = FailReplicasRequest(
            broker_id=leader,
            broker_epoch=parts.broker(leader).broker_epoch,
            replicas=[FailedReplica(topic_id=topic.topic_id, partition=0, leader_epoch=LeaderEpoch(0))],
        )
        refused = await parts.calls.fail_replicas(replace(report, broker_epoch=BrokerEpoch(99)))
        assert refused.error_code is ErrorCode.STALE_BROKER_EPOCH
        assert (await parts.calls.fail_replicas(report)).error_code is ErrorCode.NONE
        after = parts.controller.host.image.topics[topic.topic_id].partitions[0]
        assert (after.leader, after.isr) == (3 - leader, (3 - leader,))


async def test_blocks_of_producer_ids_do_not_overlap() -> None:
    async with controller() as parts:
        request = AllocateProducerIdsRequest(broker_id=BrokerId(1), broker_epoch=await parts.register(1))
        first, second = [await parts.calls.allocate_producer_ids(request) for _ in range(2)]
        assert second.first == first.first + first.count


async def test_users_of_a_brokers_file_are_made_once() -> None:
    async with controller() as parts:

        async def imported(name: str, salt: bytes) -> ImportUsersResult:
            credential = ScramCredential(salt=salt, iterations=4_096, stored_key=b"stored", server_key=b"server")
            user = ImportedUser(name=name, sha_256=credential, sha_512=credential)
            return await parts.calls.import_users(ImportUsersRequest(users=[user], unknown_users_key=b"key"))

        both = await asyncio.gather(imported("alice", b"of one broker"), imported("alice", b"of another"))
        assert [result.imported for result in both] == [["alice"], []]
        assert (await imported("", b"salt")).error_code is ErrorCode.UNACCEPTABLE_CREDENTIAL


# --- following the metadata --------------------------------------------------------------------------------------


async def test_a_follower_gets_everything_after_what_it_holds_and_then_each_entry_as_it_is_committed() -> None:
    async with controller() as parts:
        await parts.register(1)
        async with aclosing(parts.calls.follow_metadata(follow(after_index=1))) as batches:
            first = await anext(batches)
            assert (first.index, first.committed_index) == (2, 2)
            await parts.register(2)
            second = await anext(batches)
            assert second.index == 3
            assert decode_records(second.records, second.index)


async def test_a_follower_hears_a_beat_while_nothing_happens_also_of_a_controller_that_is_not_active() -> None:
    async with controller(leading=False) as parts:
        parts.quorum.tell(ClusterInitialised(cluster_id=CLUSTER))
        async with aclosing(parts.calls.follow_metadata(follow(after_index=1))) as batches:
            assert await asyncio.wait_for(anext(batches), 1) == MetadataBatch(
                index=1, term=0, records=b"", committed_index=1
            )


async def test_a_follower_ahead_of_a_slow_controller_gets_the_committed_index() -> None:
    async with controller(leading=False) as parts:
        parts.quorum.tell(ClusterInitialised(cluster_id=CLUSTER))
        async with aclosing(parts.calls.follow_metadata(follow(after_index=50))) as batches:
            beat = await anext(batches)
            assert (beat.records, beat.committed_index) == (b"", 1)


async def test_a_follower_that_asks_for_what_is_no_longer_kept_gets_a_snapshot_and_then_entries() -> None:
    async with controller() as parts:
        await parts.register(1)
        current = parts.controller.host.current_image()
        parts.controller.host.start_from(current)
        async with aclosing(parts.calls.follow_metadata(follow(after_index=1))) as batches:
            snapshot = [await anext(batches)]
            await parts.register(2)
            while not snapshot[-1].ends_snapshot:
                snapshot.append(await anext(batches))
            assert {(part.index, part.in_snapshot) for part in snapshot} == {(current.index, True)}
            assert decode_image([part.records for part in snapshot], current.index) == current.image
            entry = await anext(batches)
            assert (entry.index, entry.in_snapshot) == (current.index + 1, False)
        async with aclosing(parts.calls.follow_metadata(follow(after_index=current.index))) as batches:
            assert not (await anext(batches)).in_snapshot, "it holds all that is no longer kept"


async def test_a_follower_that_falls_behind_what_is_kept_meanwhile_gets_a_snapshot() -> None:
    async with controller() as parts:
        await parts.register(1)
        async with aclosing(parts.calls.follow_metadata(follow())) as batches:
            assert (await anext(batches)).index == 1
            assert (await anext(batches)).index == 2
            await parts.register(2)
            parts.controller.host.start_from(parts.controller.host.current_image())
            assert (await anext(batches)).in_snapshot


async def test_a_follower_of_another_cluster_is_refused() -> None:
    async with controller() as parts:
        with pytest.raises(Refusal, match="INCONSISTENT_CLUSTER_ID"):
            await anext(parts.calls.follow_metadata(follow(cluster_id="another")))
