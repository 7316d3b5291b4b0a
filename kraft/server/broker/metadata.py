"""Assembly: a broker's view of its cluster - registration, metadata, connections to the controllers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kraft.metadata.features import SUPPORTED_FEATURES
from kraft.metadata.image import MetadataImage
from kraft.model.callbacks import OnFailure
from kraft.model.endpoint import Endpoint
from kraft.model.ids import BrokerId, TopicPartition
from kraft.model.register_broker import RegisterBrokerRequest
from kraft.quorum.snapshots import SnapshotStore
from kraft.rpc.call import ServedCall
from kraft.rpc.peers import PeerConnections
from kraft.runtime.entropy import random_uuid
from kraft.server.broker.lifecycle import BrokerLifecycle
from kraft.server.cluster.controller_client import ControllerClient
from kraft.server.cluster.fenced_lately import FencedLately
from kraft.server.cluster.lost_leaders import LostLeaders
from kraft.server.cluster.metadata_loader import MetadataLoader, Publish
from kraft.server.cluster.metadata_snapshots import MetadataSnapshots, SnapshotPolicy
from kraft.server.config.node_config import NodeConfig
from kraft.server.config.values import Durability
from kraft.server.identity.storage import NodeStorage
from kraft.server.identity.world import NodeWorld

BROKER_SNAPSHOTS: Final = "__cluster_metadata/broker"
"""Directory in `metadata.log.dir`; a controller in the same process has its own."""


class BrokerMetadata:
    def __init__(
        self,
        config: NodeConfig,
        storage: NodeStorage,
        world: NodeWorld,
        *,
        own_controller: Sequence[ServedCall],
        publish: Publish,
        directory_failed: OnFailure,
    ) -> None:
        """`directory_failed` is called with the reason when the disk with the metadata snapshots fails."""
        self.connections = PeerConnections(world.credentials.dial_controller)
        self.controllers = ControllerClient(config.quorum.voters, config.node_id, self.connections, own_controller)
        self.lifecycle = BrokerLifecycle(
            _identity(config, storage, world),
            self.controllers,
            heartbeat_interval_s=config.broker.heartbeat_interval_ms / 1_000,
            session_timeout_s=config.broker.session_timeout_ms / 1_000,
        )
        self.registration = self.lifecycle.registration
        self.loader = MetadataLoader(
            storage.cluster_id,
            config.node_id,
            self.controllers,
            publish,
            is_current=self.lifecycle.is_registered_in,
        )
        self.lost_leaders = LostLeaders(
            world.clock.monotonic_ms, self.loader.until, self.lifecycle.without_controller_ms
        )
        self.fenced_lately = FencedLately(world.clock.monotonic_ms)
        self.snapshots: MetadataSnapshots | None = None
        """None if their directory could not be used at the start: then all metadata is fetched again."""
        if config.metadata_log_dir not in storage.unusable:
            self.snapshots = _snapshots(config, storage.cluster_id, world, self.loader, directory_failed)

    async def load(self) -> None:
        """Load the metadata snapshot of an earlier process of this broker."""
        if self.snapshots is not None:
            self.loader.start_from(await self.snapshots.load_or_start_empty())

    async def close_snapshots(self) -> None:
        if self.snapshots is not None:
            await self.snapshots.write()
            self.snapshots.close()

    def image(self) -> MetadataImage:
        """Return the image that this broker has applied."""
        return self.loader.image

    def published_index(self) -> int:
        return self.loader.published_index

    def exists(self, partition: TopicPartition) -> bool:
        return self.loader.image.partition(partition) is not None

    def is_active(self, broker_id: BrokerId) -> bool:
        return self.loader.image.is_active(broker_id)


def _identity(config: NodeConfig, storage: NodeStorage, world: NodeWorld) -> RegisterBrokerRequest:
    return RegisterBrokerRequest(
        cluster_id=storage.cluster_id,
        broker_id=config.node_id,
        incarnation_id=random_uuid(world.entropy),
        endpoints=[
            Endpoint(listener=listener.name, host=listener.host, port=listener.port)
            for listener in config.advertised_listeners
        ],
        rack=config.rack,
        directory_ids=[directory.directory_id for directory in storage.directories],
        features=list(SUPPORTED_FEATURES.values()),
        # A killed process alone loses nothing, but the whole machine may have failed.
        may_have_lost_records=config.log.durability is Durability.PAGE_CACHE
        and not all(directory.closed_cleanly for directory in storage.directories),
    )


def _snapshots(
    config: NodeConfig, cluster_id: str, world: NodeWorld, loader: MetadataLoader, failed: OnFailure
) -> MetadataSnapshots:
    return MetadataSnapshots(
        SnapshotStore(world.disk, str(config.metadata_log_dir / BROKER_SNAPSHOTS)),
        loader,
        policy=SnapshotPolicy(
            entry_bytes_between=config.quorum.snapshot_entry_bytes_between,
            interval_ms=config.quorum.snapshot_interval_ms,
        ),
        cluster_id=cluster_id,
        monotonic_ms=world.clock.monotonic_ms,
        failed=failed,
    )
