"""Controllers that hold an event loop longest: a start with a long log.

A function prepares its scenario in a directory, scaled by a number of at most 1, and returns what is to be measured.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final
from uuid import UUID

from kraft.metadata.records import MetadataRecord, PartitionCreated, TopicCreated
from kraft.model.ids import BrokerId, LeaderEpoch, PartitionEpoch, TopicId
from kraft.quorum.config import QuorumConfig, VoterAddress
from kraft.quorum.peer_security import PeerSecurity
from kraft.quorum.raft_quorum import RaftQuorum
from kraft.quorum.voter_resources import VoterResources
from kraft.rpc.metadata_codec import encode_records
from kraft.runtime.clock import SystemClock
from kraft.runtime.disk import RealDisk
from kraft.runtime.entropy import SystemEntropy
from kraft.server.controller.state_machine_host import StateMachineHost
from tests.support.no_snapshots import NoSnapshots

Work = Callable[[], Awaitable[object]]

PARTITIONS: Final = 50_000
TOPIC_PARTITIONS: Final = 50
DEADLINE_S: Final = 120.0


async def lone_controller(directory: Path) -> tuple[RaftQuorum, StateMachineHost]:
    """Start the only voter of a quorum, with what is in the directory; return when it leads."""
    leads = asyncio.Event()
    host = StateMachineHost(lambda is_active: leads.set() if is_active else None)
    config = QuorumConfig(
        node_id=1,
        cluster_id="loop holds",
        voters={1: VoterAddress(host="localhost", port=9093)},
        directory=directory,
    )
    quorum = RaftQuorum(
        config=config,
        resources=VoterResources(disk=RealDisk(), clock=SystemClock(), entropy=SystemEntropy()),
        listener=host,
        fatal=sys.exit,
        security=PeerSecurity(),
        snapshots=NoSnapshots(),
    )
    host.attach(quorum)
    await asyncio.to_thread(quorum.open)
    await quorum.start()
    await asyncio.wait_for(leads.wait(), DEADLINE_S)
    return quorum, host


def controller_restart(directory: Path, scale: float) -> Work:
    """A controller starts with the log of many topics and without a snapshot."""
    topics = int(PARTITIONS * scale) // TOPIC_PARTITIONS

    async def fill() -> None:
        quorum, _ = await lone_controller(directory)
        for number in range(topics):
            await quorum.propose(encode_records(_topic(number)), quorum.term, DEADLINE_S)
        await quorum.stop()

    async def work() -> None:
        quorum, host = await lone_controller(directory)
        assert len(host.image.topics) == topics, "it leads with the whole log"
        await quorum.stop()

    directory.mkdir()
    asyncio.run(fill())
    return work


def _topic(number: int) -> list[MetadataRecord]:
    topic_id = TopicId(UUID(int=number + 1))
    return [
        TopicCreated(topic=f"topic-{number}", topic_id=topic_id),
        *(
            PartitionCreated(
                topic_id=topic_id,
                partition=partition,
                replicas=[BrokerId(1)],
                isr=[BrokerId(1)],
                leader=BrokerId(1),
                leader_epoch=LeaderEpoch(0),
                partition_epoch=PartitionEpoch(0),
            )
            for partition in range(TOPIC_PARTITIONS)
        ),
    ]
