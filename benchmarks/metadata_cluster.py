"""Three real controllers as processes, and brokers that are no more than what a controller sees of them.

The brokers register, beat, and follow the metadata with the code of real ones; there is no log behind them.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

from kraft.local import cluster_files
from kraft.local.cluster_files import HOST, NodePlan
from kraft.local.free_ports import ReservedPorts
from kraft.local.node_process import NodeProcess, stop_all
from kraft.metadata.delta import delta
from kraft.metadata.features import SUPPORTED_FEATURES
from kraft.metadata.image import MetadataImage
from kraft.model.allocate_producer_ids import AllocateProducerIdsRequest
from kraft.model.describe_quorum import QuorumDescriptionRequest
from kraft.model.endpoint import Endpoint
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.heartbeat import BrokerHeartbeatRequest
from kraft.model.ids import BrokerEpoch, BrokerId, DirectoryId
from kraft.model.register_broker import RegisterBrokerRequest
from kraft.rpc.calls import DESCRIBE_QUORUM
from kraft.rpc.cluster_calls import ALLOCATE_PRODUCER_IDS, HEARTBEAT, REGISTER_BROKER
from kraft.rpc.peers import PeerConnections, Unreachable
from kraft.rpc.refusal_log import RefusalLog
from kraft.server.cluster.controller_client import ControllerClient, NoController
from kraft.server.cluster.metadata_loader import MetadataLoader
from kraft.server.cluster.metadata_snapshots import LoadedImage
from kraft.server.config.loading import load
from kraft.server.config.values import Voter
from kraft.server.identity.credentials import NodeCredentials

CONTROLLERS: Final = 3
BROKERS: Final = 3
CLUSTER_ID: Final = "kJ2Yk0mVT0ma0wV2Yk0mVQ"
CALL_DEADLINE_S: Final = 120.0
ACTIVE_DEADLINE_S: Final = 60.0
BEAT_INTERVAL_S: Final = 0.01
"""Far more often than a real broker beats: the wait for an answer tells how long the controller was busy."""

_FIRST_CONTROLLER: Final = 101
_PROBE_DEADLINE_S: Final = 0.3
_POLL_S: Final = 0.01
_SNAPSHOT_ENTRY_BYTES: Final = 1 << 20
_SESSION_TIMEOUT_MS: Final = 60_000


class ScaleBroker:
    """A broker without logs."""

    def __init__(self, broker_id: int, controllers: ControllerClient) -> None:
        self.broker_id = BrokerId(broker_id)
        self.epoch = BrokerEpoch(-1)
        self.controllers = controllers
        self.is_fenced = True
        self.metadata_index = 0
        """Index up to which it reports to have applied metadata."""
        # Where nobody listens, nobody lives: the controller dials those that do not attend.
        self._listener = socket.create_server((HOST, 0))

    def close(self) -> None:
        self._listener.close()

    async def register(self) -> None:
        """Register as a new process with the directories of the one before."""
        request = RegisterBrokerRequest(
            cluster_id=CLUSTER_ID,
            broker_id=self.broker_id,
            incarnation_id=uuid4(),
            endpoints=[Endpoint(listener="GRPC", host=HOST, port=self._listener.getsockname()[1])],
            rack="",
            directory_ids=[DirectoryId(UUID(int=1_000 + self.broker_id))],
            features=list(SUPPORTED_FEATURES.values()),
        )
        deadline_s = time.monotonic() + CALL_DEADLINE_S
        while True:
            result = await self.controllers.call(
                REGISTER_BROKER, request, CALL_DEADLINE_S, attempt_timeout_s=CALL_DEADLINE_S
            )
            if result.error_code is ErrorCode.NONE:
                self.epoch = result.broker_epoch
                return
            if time.monotonic() > deadline_s:
                raise Refusal(result.error_code, result.error_message)
            await asyncio.sleep(_POLL_S)

    async def beat(self) -> float:
        """Milliseconds to the answer of the active controller."""
        request = BrokerHeartbeatRequest(
            broker_id=self.broker_id,
            broker_epoch=self.epoch,
            metadata_index=self.metadata_index,
            wants_shutdown=False,
        )
        began_s = time.perf_counter()
        result = await self.controllers.call(HEARTBEAT, request, CALL_DEADLINE_S, attempt_timeout_s=CALL_DEADLINE_S)
        if result.error_code is not ErrorCode.NONE:
            raise Refusal(result.error_code, result.error_message)
        self.is_fenced = result.is_fenced
        # With no logs to open there is nothing to act on: it always has.
        self.metadata_index = result.committed_index
        return (time.perf_counter() - began_s) * 1_000

    async def come_into_service(self) -> None:
        deadline_s = time.monotonic() + CALL_DEADLINE_S
        while self.is_fenced:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"broker {self.broker_id} stays fenced")
            await self.beat()
            await asyncio.sleep(_POLL_S)


class Waits:
    """Latencies of the answers that broker `broker` got meanwhile."""

    def __init__(self, broker: ScaleBroker) -> None:
        self._broker = broker
        self.latencies_ms: list[float] = []

    @property
    def longest_ms(self) -> float:
        return max(self.latencies_ms, default=0.0)

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[Waits]:
        self.latencies_ms = []
        task = asyncio.create_task(self._beat())
        try:
            yield self
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _beat(self) -> None:
        while True:
            self.latencies_ms.append(await self._broker.beat())
            await asyncio.sleep(BEAT_INTERVAL_S)


class ScaleCluster:
    """Controllers that run until `close`."""

    def __init__(self, directory: Path) -> None:
        self._reserved = ReservedPorts(CONTROLLERS)
        settings = {
            "broker.session.timeout.ms": str(_SESSION_TIMEOUT_MS),
            "metadata.log.max.record.bytes.between.snapshots": str(_SNAPSHOT_ENTRY_BYTES),
        }
        plans = [
            NodePlan(node_id=_FIRST_CONTROLLER + place, grpc_port=None, controller_port=port, settings=settings)
            for place, port in enumerate(self._reserved.ports)
        ]
        cluster_files.write(directory, plans, CLUSTER_ID)
        self.nodes = {plan.node_id: NodeProcess(directory, plan) for plan in plans}
        self.voters = [Voter(BrokerId(plan.node_id), HOST, plan.controller_port or 0) for plan in plans]
        # As a node of the cluster: controllers answer nobody else.
        known = load(cluster_files.config_file(directory, _FIRST_CONTROLLER))
        credentials = NodeCredentials(known, CLUSTER_ID, RefusalLog(lambda: 0))
        self.connections = PeerConnections(credentials.dial_controller)
        self.brokers = [ScaleBroker(broker_id, self.client(broker_id)) for broker_id in range(1, BROKERS + 1)]

    def client(self, own_id: int) -> ControllerClient:
        return ControllerClient(self.voters, BrokerId(own_id), self.connections, ())

    async def start(self) -> None:
        for node in self.nodes.values():
            node.start()
        for broker in self.brokers:
            await broker.register()
            await broker.come_into_service()

    async def close(self) -> None:
        await self.connections.close()
        await asyncio.to_thread(stop_all, self.nodes.values())
        for broker in self.brokers:
            broker.close()
        self._reserved.release()

    async def active(self) -> NodeProcess:
        """The controller that decides. Raises TimeoutError."""
        deadline_s = time.monotonic() + ACTIVE_DEADLINE_S
        while time.monotonic() < deadline_s:
            for voter in self.voters:
                if self.nodes[voter.node_id].is_running and await self._decides(voter):
                    return self.nodes[voter.node_id]
            await asyncio.sleep(_POLL_S)
        raise TimeoutError("no controller is active")

    async def caught_up(self) -> None:
        """Until every controller has the log of the active one. Raises TimeoutError."""
        deadline_s = time.monotonic() + ACTIVE_DEADLINE_S
        while time.monotonic() < deadline_s:
            with suppress(NoController):
                quorum = await self.brokers[0].controllers.call(
                    DESCRIBE_QUORUM, QuorumDescriptionRequest(), ACTIVE_DEADLINE_S
                )
                if all(0 <= voter.lag <= 1 and voter.last_fetch_ms_ago < 1_000 for voter in quorum.voters):
                    return
            await asyncio.sleep(_POLL_S)
        raise TimeoutError("a controller does not catch up")

    async def _decides(self, voter: Voter) -> bool:
        """Return True if it commits something."""
        broker = self.brokers[0]
        request = AllocateProducerIdsRequest(broker_id=broker.broker_id, broker_epoch=broker.epoch)
        peer = self.connections.peer(voter.address)
        try:
            result = await peer.call(ALLOCATE_PRODUCER_IDS, request, _PROBE_DEADLINE_S)
        except (Unreachable, Refusal):
            return False
        return result.error_code is ErrorCode.NONE


@asynccontextmanager
async def scale_cluster(directory: Path) -> AsyncIterator[ScaleCluster]:
    cluster = ScaleCluster(directory)
    try:
        await cluster.start()
        yield cluster
    finally:
        await cluster.close()


def knows(image: MetadataImage, broker: ScaleBroker) -> bool:
    """Return True if the image has this registration of the broker."""
    registration = image.broker(broker.broker_id)
    return registration is not None and registration.broker_epoch >= broker.epoch


async def followed(cluster: ScaleCluster, broker: ScaleBroker, loaded: LoadedImage | None = None) -> MetadataLoader:
    """The metadata as the broker follows it, when it acts on all that is committed."""

    async def publish(before: MetadataImage, after: MetadataImage) -> None:
        delta(before, after, broker.broker_id)

    loader = MetadataLoader(
        CLUSTER_ID,
        broker.broker_id,
        cluster.client(broker.broker_id),
        publish,
        is_current=lambda image: knows(image, broker),
    )
    if loaded is not None:
        loader.start_from(loaded)
    following = asyncio.create_task(loader.run())
    try:
        async with asyncio.timeout(ACTIVE_DEADLINE_S):
            await loader.first_image_applied.wait()
    finally:
        following.cancel()
        await asyncio.wait([following])
    return loader
