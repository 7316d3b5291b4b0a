"""The controller role of a node: a voter of the metadata quorum, its snapshots, and the controller on top."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from kraft.metadata.features import UnsupportedFeatureLevel
from kraft.model.callbacks import AsyncCallback
from kraft.model.errors import Corruption
from kraft.model.refused_for import RefusedFor
from kraft.quorum.counts import QuorumCounts
from kraft.quorum.membership import MembershipRefused
from kraft.quorum.peer_security import PeerSecurity
from kraft.quorum.port import Quorum
from kraft.quorum.raft_quorum import RaftQuorum
from kraft.quorum.service import RaftService
from kraft.quorum.snapshots import SnapshotStore
from kraft.quorum.voter_resources import VoterResources
from kraft.rpc.call import ServedCall
from kraft.rpc.services import Service
from kraft.server.access.asker import askers_of
from kraft.server.apis.serving import controller_calls
from kraft.server.apis.sides import ControllerSide
from kraft.server.cluster.metadata_snapshots import SnapshotPolicy
from kraft.server.config.node_config import NodeConfig
from kraft.server.controller import bootstrap
from kraft.server.controller.quorum_controller import ControllerConfig, QuorumController
from kraft.server.controller.state_machine_host import StateMachineHost
from kraft.server.controller.voter_config import voter_config
from kraft.server.controller.voter_features import VoterFeatures
from kraft.server.controller.voter_snapshots import VoterSnapshots
from kraft.server.identity.credentials import NodeCredentials
from kraft.server.identity.storage import NodeStorage
from kraft.server.identity.world import NodeWorld

CONTROLLER_SNAPSHOTS: Final = "__cluster_metadata/controller"
"""Directory in `metadata.log.dir`; a broker in the same process has its own."""


class MetadataUnusable(Exception):
    """This voter cannot start from the metadata on its disk. The message is one line, with the remedy."""


class ControllerNode:
    def __init__(self, config: NodeConfig, storage: NodeStorage, world: NodeWorld) -> None:
        self._config = config
        self._controller = QuorumController(_controller_config(config, storage.cluster_id), world.clock)
        host = self._controller.host
        self._snapshots = VoterSnapshots(
            SnapshotStore(world.disk, str(config.metadata_log_dir / CONTROLLER_SNAPSHOTS)),
            host,
            policy=SnapshotPolicy(
                entry_bytes_between=config.quorum.snapshot_entry_bytes_between,
                interval_ms=config.quorum.snapshot_interval_ms,
            ),
            cluster_id=storage.cluster_id,
            monotonic_ms=world.clock.monotonic_ms,
            failed=world.fatal,
        )
        self._quorum = RaftQuorum(
            config=voter_config(config, storage.cluster_id),
            resources=VoterResources(disk=world.disk, clock=world.clock, entropy=world.entropy),
            listener=host,
            fatal=world.fatal,
            security=_peer_security(world.credentials),
            snapshots=self._snapshots,
        )
        self._controller.attach(self._quorum)
        self._snapshots.attach(self._quorum)
        voters = VoterFeatures(config.quorum.voters, config.node_id, world.credentials.dial_controller)
        side = ControllerSide(
            config=config,
            topic_defaults=self._controller.topic_defaults,
            image=lambda: host.image,
            index=lambda: host.committed_index,
            decisions=host,
            entropy=world.entropy,
            askers=askers_of(config.access, lambda: host.image),
            features_of_others=voters.of_controllers_only,
            has_live_session=self._controller.watch.has_live_session,
            describe_quorum=self._controller.describe_quorum,
        )
        self.calls: list[ServedCall] = [*self._controller.cluster_calls.calls(), *controller_calls(side)]

    async def start(self, listen: AsyncCallback) -> None:
        """Load the latest snapshot, listen, and join the quorum. Raises MetadataUnusable and OSError."""
        try:
            await self._snapshots.load()
        except Corruption as corruption:
            raise MetadataUnusable(
                f"metadata snapshots are corrupt: {corruption}: restore them from another voter"
            ) from corruption
        except UnsupportedFeatureLevel as error:
            raise MetadataUnusable(str(error)) from error
        await self._read_bootstrap(self._config.metadata_log_dir)
        await listen()
        try:
            # In a thread: the other roles of this node are at work.
            await asyncio.to_thread(self._quorum.open)
            await self._quorum.start()
        except Corruption as corruption:
            raise MetadataUnusable(
                f"metadata log is corrupt: {corruption}: {_how_to_replace_the_log(self._config)}"
            ) from corruption
        except MembershipRefused as refused:
            raise MetadataUnusable(str(refused)) from refused

    async def _read_bootstrap(self, directory: Path) -> None:
        if self._controller.host.image.cluster_id:
            # The users are in the metadata now, perhaps with other passwords.
            await asyncio.to_thread(bootstrap.remove, directory)
            return
        try:
            self._controller.first_records = await asyncio.to_thread(bootstrap.read, directory)
        except Corruption as corruption:
            raise MetadataUnusable(
                f"the users that a new cluster begins with are corrupt: {corruption}: format a new directory, or remove"
                " the file if the cluster exists already"
            ) from corruption

    def why_not_ready(self) -> str | None:
        """Return why this controller is of no use now, in words; None if it knows the active controller."""
        return None if self._quorum.leader_id is not None else "its controller knows no active controller"

    @property
    def host(self) -> StateMachineHost:
        """The committed metadata, and whether this controller is the active one."""
        return self._controller.host

    @property
    def quorum(self) -> Quorum:
        """This voter."""
        return self._quorum

    @property
    def quorum_counts(self) -> QuorumCounts:
        """What this voter has done."""
        return self._quorum.counts

    def grpc_services(self) -> list[RaftService | Service]:
        """Return the services of the CONTROLLER listener."""
        return [self._quorum.service, Service(*self.calls)]

    async def run(self) -> None:
        """Decide while this voter leads. Runs until cancelled."""
        await self._controller.run()

    async def write_snapshots(self) -> None:
        """Write a snapshot whenever one is due. Runs until cancelled."""
        await self._snapshots.run()

    async def finish_shutdowns(self) -> None:
        """Complete controlled shutdowns that have begun, so that their brokers need not wait for the next leader."""
        await self._controller.finish_shutdowns()

    async def close(self) -> None:
        """Write a last snapshot and leave the quorum. Call after the other tasks were cancelled."""
        await self._snapshots.write()
        self._snapshots.close()
        await self._quorum.stop()


def _how_to_replace_the_log(config: NodeConfig) -> str:
    if len(config.quorum.voters) == 1:
        return "restore it from a backup"
    directory = config.metadata_log_dir / "__cluster_metadata"
    return f"move {directory} away and start the node again, and it gets the log from the other controllers"


def _controller_config(config: NodeConfig, cluster_id: str) -> ControllerConfig:
    return ControllerConfig(
        cluster_id=cluster_id,
        node_id=config.node_id,
        broker_session_timeout_ms=config.broker.session_timeout_ms,
        topic_defaults=config.topic_defaults(),
        elections=config.elections,
    )


def _peer_security(credentials: NodeCredentials) -> PeerSecurity:
    return PeerSecurity(
        dial=credentials.dial_controller,
        objection=credentials.objection_to_voter,
        handshake_failure=credentials.handshake_failure,
        refused=lambda peer, reason: credentials.refusals.log(peer, reason, RefusedFor.NOT_A_NODE),
    )
