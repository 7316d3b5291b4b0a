"""Assembly: the replicas of a broker, as the metadata assigns them."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from kraft.metadata.broker_configs import dynamic_configs, with_dynamic
from kraft.metadata.image import MetadataImage
from kraft.model.ids import BrokerId, LogDirectory
from kraft.server.broker.logs import BrokerLogs
from kraft.server.broker.metadata import BrokerMetadata
from kraft.server.broker.other_brokers import OtherBrokers
from kraft.server.cluster.leader_checks import LeaderChecks
from kraft.server.config.node_config import NodeConfig
from kraft.server.config.values import Durability
from kraft.server.identity.world import NodeWorld
from kraft.server.loop.periods import period_end
from kraft.server.loop.threads import shut_down
from kraft.server.replica.directory_remover import DirectoryRemover
from kraft.server.replica.failures import ReplicaFailures
from kraft.server.replica.fetcher import ReplicaFetcher
from kraft.server.replica.isr_proposals import IsrProposals
from kraft.server.replica.lagging_followers import LaggingFollowers
from kraft.server.replica.log_directories import as_log_directory
from kraft.server.replica.partition_services import OnPartition, PartitionServices
from kraft.server.replica.publisher import ReplicaPublisher
from kraft.server.replica.replica_mover import ReplicaMover
from kraft.server.replica.replication_throttles import ReplicationThrottles

REPLICATION_TICK_S: Final = 0.25


class BrokerReplicas:
    def __init__(
        self,
        config: NodeConfig,
        world: NodeWorld,
        metadata: BrokerMetadata,
        logs: BrokerLogs,
        *,
        role_changed: OnPartition,
    ) -> None:
        """`role_changed` is called when this broker begins to lead a partition, and when it no longer does."""
        self._config = config
        self._role_changed = role_changed
        self._metadata = metadata
        self._logs = logs
        self._topic_defaults = config.topic_defaults()
        self.throttles = ReplicationThrottles(config.replication, config.node_id, world.clock.monotonic_ms)
        self.brokers = OtherBrokers(world, metadata.image)
        self.leader_checks = LeaderChecks(metadata.image, config.node_id, self.brokers.ask, metadata.lost_leaders)
        self._removal_thread = ThreadPoolExecutor(1, thread_name_prefix="log-removal")
        # Copies replicas that move from one log directory to another.
        self._move_thread = ThreadPoolExecutor(1, thread_name_prefix="log-move")
        self._isr_proposals = IsrProposals(metadata.registration, metadata.controllers, world.fatal)
        self.failures = ReplicaFailures(
            registration=metadata.registration,
            partitions=logs.partitions,
            storage=logs.storage,
            indispensable=as_log_directory(config.metadata_log_dir) if config.is_controller else None,
            controllers=metadata.controllers,
            fatal=world.fatal,
        )
        self.remover = DirectoryRemover(
            disk=world.disk,
            directories=logs.directories,
            thread=self._removal_thread,
            directory_failed=self.failures.directory_failed,
        )
        self.publisher = ReplicaPublisher(
            registration=metadata.registration,
            partitions=logs.partitions,
            storage=logs.storage,
            failures=self.failures,
            remover=self.remover,
            defaults=config.topics.configs,
            services=self._partition_services(world),
            make_fetcher=self._make_fetcher,
            fatal=world.fatal,
        )
        self.mover = self._make_mover(world)

        self.lagging_followers = LaggingFollowers(
            logs.partitions, metadata.is_active, self.brokers.log_directories, world.clock
        )

    async def publish(self, before: MetadataImage, after: MetadataImage) -> None:
        if after.broker_configs is not before.broker_configs:
            self.publisher.use_defaults(self._topic_defaults(after))
            dynamic = dynamic_configs(after, str(self._config.node_id))
            self.throttles.reconfigure(with_dynamic(self._config.replication, dynamic))
            self.publisher.look_at_held_back()
        # Before the roles in it are taken: a replica in the ISR fetches at once, whatever the throttle.
        self.throttles.follower.image = after
        await self.publisher.publish(before, after)

    async def tick(self) -> None:
        """Call every partition's `tick` periodically, until cancelled."""
        while True:
            await period_end(REPLICATION_TICK_S)
            await self._logs.partitions.tick()

    async def checkpoint(self) -> None:
        """Write the high watermark checkpoints periodically, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for directory in self._logs.directories.online:
                tasks.create_task(self._checkpoint(directory))

    async def _checkpoint(self, directory: LogDirectory) -> None:
        while True:
            await asyncio.sleep(self._config.replication.high_watermark_checkpoint_interval_ms / 1_000)
            await self.publisher.checkpoint(directory)

    async def close_logs(self) -> None:
        """Close every log durably, after all tasks were cancelled. Raises OSError."""
        await self._isr_proposals.close()
        # Before the logs are closed: a running sync may fail, and then its log is not closed cleanly. The syncer runs
        # the steps of a change; the remaining ones are made when the log is closed.
        await self._logs.syncer.close()
        await self.publisher.close()
        await self.publisher.checkpoint()

    async def close_threads(self) -> None:
        """End the threads, after that of the store has ended."""
        await shut_down(self._removal_thread, self._move_thread)
        self.mover.close()

    def _partition_services(self, world: NodeWorld) -> PartitionServices:
        return PartitionServices(
            broker_id=self._config.node_id,
            replica_lag_time_max_ms=self._config.replication.lag_time_max_ms,
            sync_before_ack=self._config.log.durability is Durability.FSYNC,
            monotonic_ms=world.clock.monotonic_ms,
            wall_ms=world.clock.wall_ms,
            request_sync=self._logs.syncer.request,
            holds_writes=self._logs.syncer.holds_writes,
            admit=self._logs.disk_space.admit,
            propose_isr=self._isr_proposals.propose,
            directory_failed=self.failures.partition_directory_failed,
            replica_is_corrupt=self.failures.replica_is_corrupt,
            is_active=self._metadata.is_active,
            role_changed=self._role_changed,
        )

    def _make_mover(self, world: NodeWorld) -> ReplicaMover:
        return ReplicaMover(
            partitions=self._logs.partitions,
            storage=self._logs.storage,
            copy_thread=self._move_thread,
            admit=self._logs.disk_space.admit,
            directory_failed=self.failures.directory_failed,
            moved=self.publisher.checkpoint,
            draw_move_id=lambda: world.entropy.bytes(16).hex(),
            throttle=self.throttles.directory_moves,
            monotonic_ms=world.clock.monotonic_ms,
        )

    def _make_fetcher(self, leader_id: BrokerId) -> ReplicaFetcher:
        return ReplicaFetcher(
            registration=self._metadata.registration,
            leader_id=leader_id,
            link=lambda: self.brokers.link_to(leader_id),
            partitions=self._logs.partitions,
            config=self._config.replication,
            throttle=self.throttles.follower,
            lost_leaders=self._metadata.lost_leaders,
        )
