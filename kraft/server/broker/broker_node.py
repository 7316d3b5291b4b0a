"""The broker role of a node: connects, runs and closes its parts in order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kraft.metadata.image import MetadataImage
from kraft.model.callbacks import AsyncCallback
from kraft.model.ids import LogDirectory
from kraft.rpc.call import ServedCall
from kraft.server.broker.apis import BrokerApis
from kraft.server.broker.audit_log import check_audit_file
from kraft.server.broker.cluster_lags import ClusterLags
from kraft.server.broker.coordinator_services import CoordinatorServices
from kraft.server.broker.coordinators import BrokerCoordinators
from kraft.server.broker.logs import BrokerLogs
from kraft.server.broker.metadata import BrokerMetadata
from kraft.server.broker.readiness import BrokerStanding, CatchingUp, why_not_ready
from kraft.server.broker.replicas import BrokerReplicas
from kraft.server.config.node_config import NodeConfig
from kraft.server.identity.storage import NodeStorage
from kraft.server.identity.world import NodeWorld
from kraft.server.loop.periods import loop_time_s
from kraft.server.loop.threads import shut_down
from kraft.server.replica.log_directories import as_log_directory
from kraft.server.replica.waiting_appends import WaitingAppends


class BrokerNode:
    """The broker role of a node."""

    def __init__(
        self, config: NodeConfig, storage: NodeStorage, world: NodeWorld, *, own_controller: Sequence[ServedCall]
    ) -> None:
        """`own_controller` has the calls of the controller in this process, if there is one."""
        self._config = config
        self._world = world
        self.metadata = BrokerMetadata(
            config,
            storage,
            world,
            own_controller=own_controller,
            publish=self._publish,
            directory_failed=self._metadata_directory_failed,
        )
        self.logs = BrokerLogs(config, storage, world, self.metadata.exists)
        self.waiting_appends = WaitingAppends()
        self._catching_up = CatchingUp()
        self._is_listening = False
        self.coordinators = BrokerCoordinators(
            CoordinatorServices(config, world, self.metadata, self.logs, self.waiting_appends)
        )
        self.replicas = BrokerReplicas(
            config, world, self.metadata, self.logs, role_changed=self.coordinators.role_changed
        )
        self.apis = BrokerApis(
            config, world, self.coordinators, self.metadata, self.logs, self.replicas, self.waiting_appends
        )

    @staticmethod
    def check(config: NodeConfig) -> None:
        """Raise ConfigError if this machine does not give what the configuration asks for. Call it before any start."""
        check_audit_file(config.audit.of_node(config.node_id))

    async def run(self, listen: AsyncCallback) -> None:
        """Serve until cancelled. Raises BrokerRefused and StorageError.

        Calls `listen` when the broker has caught up with the metadata and opened its logs: clients get answers only
        after that, and then the controller unfences the broker. So a listener knows the users when it opens: clients
        take the refusal of a login for final.
        """
        metadata, logs, replicas = self.metadata, self.logs, self.replicas
        await metadata.load()
        await replicas.mover.finish_interrupted()
        async with asyncio.TaskGroup() as tasks:
            # The longest part of a start needs no controller.
            tasks.create_task(replicas.publisher.log_preloading.open(metadata.loader.current_image().image))
            await metadata.lifecycle.register()
            if metadata.snapshots is not None:
                tasks.create_task(metadata.snapshots.run())
            tasks.create_task(logs.syncer.run())
            tasks.create_task(replicas.failures.run())
            tasks.create_task(replicas.remover.run())
            tasks.create_task(metadata.loader.run())
            tasks.create_task(logs.maintenance.run())
            tasks.create_task(replicas.tick())
            tasks.create_task(replicas.checkpoint())
            tasks.create_task(replicas.lagging_followers.run())
            await metadata.loader.first_image_applied.wait()
            tasks.create_task(replicas.publisher.create_delayed())
            tasks.create_task(replicas.mover.run())
            tasks.create_task(self.coordinators.lags.run())
            tasks.create_task(self.apis.logins.run())
            tasks.create_task(self.apis.audit.run())
            importing = self.apis.user_import()
            tasks.create_task(importing.run())
            tasks.create_task(self.apis.quota_import().run())
            await importing.until_tried()
            await listen()
            self._is_listening = True
            tasks.create_task(metadata.lifecycle.keep_alive(metadata.loader))
            tasks.create_task(metadata.lifecycle.hold_liveness_stream())

    @property
    def cluster_lags(self) -> ClusterLags | None:
        """How far groups are behind; None before the first metadata."""
        return self.coordinators.cluster_lags if self.metadata.loader.first_image_applied.is_set() else None

    def why_not_ready(self) -> str | None:
        """Return what is missing before clients should be sent to this broker, in words; None if nothing is."""
        lifecycle, loader = self.metadata.lifecycle, self.metadata.loader
        own = loader.image.broker(self._config.node_id)
        standing = BrokerStanding(
            broker_id=self._config.node_id,
            is_registered=lifecycle.broker_epoch >= 0,
            registration_problem=lifecycle.registration_problem,
            has_applied_metadata=loader.first_image_applied.is_set(),
            is_listening=self._is_listening,
            is_fenced=lifecycle.is_fenced,
            is_fenced_by_operator=own is not None and own.fenced_by_operator,
            silent_s=lifecycle.silent_s(),
            session_timeout_s=self._config.broker.session_timeout_ms / 1_000,
            behind_s=self._catching_up.behind_s(loader.published_index, loader.committed_index_known, loop_time_s()),
        )
        return why_not_ready(standing)

    async def move_leaderships_away(self) -> None:
        """Do the controlled shutdown, if it is enabled. Call it while `run` continues. Raises BrokerRefused."""
        await self.apis.audit.drain()
        if self._config.broker.controlled_shutdown_enabled and self.metadata.registration.broker_epoch >= 0:
            await self.metadata.lifecycle.shut_down(self.metadata.published_index)
        await self.coordinators.drain()

    async def close(self) -> None:
        """Close every log durably, after `run` was cancelled. Raises OSError."""
        await self.coordinators.close()
        await self.replicas.close_logs()
        await self.waiting_appends.close()
        await self.metadata.close_snapshots()
        await shut_down(self.logs.store_thread, *self.logs.store_threads.values())
        await self.replicas.close_threads()
        await shut_down(self.logs.upkeep_threads)
        await self.apis.close_threads()
        await self.replicas.brokers.connections.close()
        await self.metadata.connections.close()

    @property
    def log_directories_closed(self) -> tuple[LogDirectory, ...]:
        """Log directories in which every log is closed cleanly after `close`."""
        return self.logs.directories_closed(were_opened=self.metadata.loader.first_image_applied.is_set())

    async def _publish(self, before: MetadataImage, after: MetadataImage) -> None:
        if after.broker_configs is not before.broker_configs:
            self.logs.reconfigure(after)
        await self.replicas.publish(before, after)
        self.coordinators.metadata_applied(before, after)
        if after.users is not before.users:
            self.apis.users_changed(after.users)
        if after.client_quotas is not before.client_quotas:
            self.apis.throttling.reconfigure(after.client_quotas)
        # Last, because clients see the broker fenced from now on.
        self.metadata.fenced_lately.published(before, after)
        self.metadata.lost_leaders.published(before, after)

    def _metadata_directory_failed(self, reason: str) -> None:
        directory, directories = as_log_directory(self._config.metadata_log_dir), self.logs.directories
        if directories.is_online(directory):
            self.replicas.failures.directory_failed(directory, reason)
        elif directory not in directories.offline:
            # It has only the metadata, and the metadata has no other directory.
            self._world.fatal(reason)
