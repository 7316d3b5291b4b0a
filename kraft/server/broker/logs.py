"""Assembly: a broker's log directories, the logs in them, and their maintenance."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from kraft.metadata.broker_configs import dynamic_configs, with_dynamic
from kraft.metadata.image import MetadataImage
from kraft.model.ids import LogDirectory
from kraft.server.config.node_config import NodeConfig
from kraft.server.identity.storage import NodeStorage
from kraft.server.identity.world import NodeWorld
from kraft.server.replica.log_directories import LogDirectories, as_log_directory
from kraft.server.replica.log_syncer import LogSyncer
from kraft.server.replica.partitions import Exists, Partitions
from kraft.server.replica.replica_directories import ReplicaDirectories
from kraft.server.replica.replica_storage import ReplicaStorage
from kraft.server.upkeep.disk_space import DiskSpace
from kraft.server.upkeep.maintenance import LogMaintenanceTasks


class BrokerLogs:
    def __init__(self, config: NodeConfig, storage: NodeStorage, world: NodeWorld, exists: Exists) -> None:
        self._config = config
        closed_cleanly = [
            as_log_directory(directory.path) for directory in storage.directories if directory.closed_cleanly
        ]
        self._closed_before = frozenset(closed_cleanly)
        self.partitions = Partitions(exists)
        self.directories = _log_directories(config, storage)
        # Open logs, and rename deleted ones. Syncs and the removal of deleted replicas have their own threads, so that
        # none of them waits for another.
        self.store_thread = ThreadPoolExecutor(1, thread_name_prefix="log-store")
        self.store_threads = self._threads_by_directory()
        self.storage = ReplicaStorage(
            disk=world.disk,
            directories=self.directories,
            replica_directories=ReplicaDirectories(world.disk, self.directories, closed_cleanly=closed_cleanly),
            thread=self.store_thread,
            threads=self.store_threads,
        )
        # For the scrub and the cleaner.
        self.upkeep_threads = ThreadPoolExecutor(
            1 + config.log_maintenance.cleaner_threads, thread_name_prefix="log-upkeep"
        )
        self.syncer = LogSyncer(self.directories.online)
        self.disk_space = DiskSpace(world.disk, config.log_maintenance.free_space_bytes_min, world.clock.monotonic_ms)
        self.maintenance = LogMaintenanceTasks(
            partitions=self.partitions,
            disk=world.disk,
            disk_space=self.disk_space,
            config=config.log_maintenance,
            wall_ms=world.clock.wall_ms,
            worker_threads=self.upkeep_threads,
            store_threads=self.store_threads,
        )

    def _threads_by_directory(self) -> dict[LogDirectory, ThreadPoolExecutor]:
        """Return a thread for each log directory; a single one needs no other than the store's."""
        every = (*self.directories.online, *self.directories.offline)
        if len(every) == 1:
            return {every[0]: self.store_thread}
        return {
            directory: ThreadPoolExecutor(1, thread_name_prefix=f"log-store-{number}")
            for number, directory in enumerate(every)
        }

    def reconfigure(self, image: MetadataImage) -> None:
        """Apply the brokers' dynamic configs in `image`."""
        configs = dynamic_configs(image, str(self._config.node_id))
        self.maintenance.reconfigure(with_dynamic(self._config.log_maintenance, configs))

    def directories_closed(self, *, were_opened: bool) -> tuple[LogDirectory, ...]:
        """Return the directories in which every log is closed cleanly, once all logs are closed.

        Failed directories are left out; so are, if this process did not open the logs, those not closed cleanly before.
        """
        return tuple(each for each in self.directories.online if were_opened or each in self._closed_before)


def _log_directories(config: NodeConfig, storage: NodeStorage) -> LogDirectories:
    unusable = {
        as_log_directory(directory): reason
        for directory, reason in storage.unusable.items()
        if directory in config.log_dirs
    }
    return LogDirectories([as_log_directory(directory.path) for directory in storage.directories], unusable)
