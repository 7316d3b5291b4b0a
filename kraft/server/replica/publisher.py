"""Applies new metadata: gives partitions their roles, opens and closes logs, keeps a fetcher for each leader."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from kraft.log.change import ChangeUnderWay
from kraft.log.topic_config import TopicConfig
from kraft.metadata.change_counts import ChangeCounts
from kraft.metadata.configs import overridden
from kraft.metadata.delta import AssignedPartition, BrokerDelta, delta
from kraft.metadata.image import MetadataImage, TopicImage
from kraft.model.callbacks import Fatal
from kraft.model.ids import LogDirectory, TopicIdPartition
from kraft.server.cluster.own_registration import OwnRegistration
from kraft.server.loop.turns import Turns
from kraft.server.replica.checkpoints import HighWatermarkCheckpoints
from kraft.server.replica.directory_remover import DirectoryRemover
from kraft.server.replica.failures import ReplicaFailures
from kraft.server.replica.fetchers import MakeFetcher, ReplicaFetchers
from kraft.server.replica.log_preloading import LogPreloading
from kraft.server.replica.openings import ReplicaOpenings
from kraft.server.replica.partition import Partition
from kraft.server.replica.partition_services import PartitionServices
from kraft.server.replica.partitions import Partitions
from kraft.server.replica.replica_directories import DirectoryFailed
from kraft.server.replica.replica_stopper import ReplicaStopper
from kraft.server.replica.replica_storage import ReplicaStorage

log = structlog.get_logger()

OPENING_AWAITED_S: Final = 0.25
"""Longest wait of metadata for the new logs that it brings: a small topic is shown to clients with open logs."""
LOGS_AWAITED_MAX: Final = 200
"""If more logs wait to be opened, metadata does not wait for them: they would hardly be open in time."""
CLOSED_AT_ONCE: Final = 100


class ReplicaPublisher:
    """Applies metadata to this broker's replicas. The metadata loader calls `publish` for one step at a time."""

    def __init__(
        self,
        *,
        registration: OwnRegistration,
        partitions: Partitions,
        storage: ReplicaStorage,
        failures: ReplicaFailures,
        remover: DirectoryRemover,
        defaults: TopicConfig,
        services: PartitionServices,
        make_fetcher: MakeFetcher,
        fatal: Fatal,
    ) -> None:
        self._registration = registration
        self._partitions = partitions
        self._storage = storage
        self._replica_directories = storage.replica_directories
        self._directories = storage.directories
        self._failures = failures
        self._defaults = defaults
        self._checkpoints = HighWatermarkCheckpoints(partitions, storage, failures)
        self.fetchers = ReplicaFetchers(partitions, make_fetcher, fatal)
        self.log_preloading = LogPreloading(storage, defaults)
        self._stopper = ReplicaStopper(
            partitions=partitions,
            storage=storage,
            failures=failures,
            remover=remover,
            # Without room an entry is left. A new replica of that name takes records only once its own is written.
            marked=lambda directory: self._checkpoints.write(needs_room=False, only=[directory]),
            freed=lambda: self._openings.open_later(()),
            fatal=fatal,
        )
        self._openings = ReplicaOpenings(
            partitions=partitions,
            storage=storage,
            checkpoints=self._checkpoints,
            failures=failures,
            stopper=self._stopper,
            registration=registration,
            services=services,
            config=self._config,
            roles_given=self.fetchers.update,
            fatal=fatal,
        )
        self._is_first = True
        self._defaults_changed = False

    def use_defaults(self, defaults: TopicConfig) -> None:
        """Set the default topic configs, from the next image on, also for open logs."""
        self._defaults_changed = self._defaults_changed or defaults != self._defaults
        self._defaults = defaults

    async def publish(self, before: MetadataImage, after: MetadataImage) -> None:
        """Give this broker the roles that it has in `after`, as far as its disks allow.

        Replicas whose logs are open take theirs at once, whatever the disks do. The first call opens all logs; later
        ones wait for new logs only for `OPENING_AWAITED_S`, so that the next metadata does not wait for all those of a
        large topic. Raises StorageError for a partition that is in two log directories.
        """
        self.log_preloading.stop()
        step = delta(before, after, self._registration.broker_id)
        reconfigured = tuple(after.topics.values()) if self._defaults_changed else step.reconfigured
        for topic in reconfigured:
            self._reconfigure(topic)
        self._defaults_changed = False
        if reconfigured:
            self.look_at_held_back()
        elif after.topics is not before.topics:
            # A replica may have joined the ISR in the same epoch, which gives it no other role.
            self.fetchers.look_at_unlimited()
        # In the same turn as the roles: what is opened from now on takes those in `after`.
        self._openings.metadata_changed(after, step.remove)
        if self._apply_roles(step):
            self.fetchers.update()
        await self._stopper.delete(step.remove)
        if self._is_first:
            await self._open_first(step)
        missing = [one.id for one in (*step.lead, *step.follow) if self._is_missing(one)]
        # Lost replicas may be created again.
        missing += [replica.id for replica in self._failures.metadata_changed(after)]
        if missing:
            self._openings.open_later(missing)
            if self._openings.waiting_count <= LOGS_AWAITED_MAX:
                await self._openings.wait_for(missing, OPENING_AWAITED_S)
        if step.remove:
            self.fetchers.update()
        if not step.is_empty or missing:
            log.info(
                "metadata applied",
                leads=len(step.lead),
                follows=len(step.follow),
                removes=len(step.remove),
                replicas=len(self._partitions),
                offline=len(self._partitions.offline),
                **self._openings.facts(),
                **_changes_led(before, step).facts(),
            )

    def look_at_held_back(self) -> None:
        """Look at the replicas that wait for the throttle again: it, or what it is for, has changed."""
        self.fetchers.look_at_held_back()

    def _apply_roles(self, step: BrokerDelta) -> bool:
        """Give the replicas whose logs are open their roles. Return False if there is none in this step.

        They do not wait for the disk: one whose leader died leads, or fetches from the new leader, at once.
        """
        is_any = False
        for assigned in step.lead:
            if (partition := self._find_open(assigned)) is not None:
                is_any = True
                partition.lead(assigned.state, self._registration.broker_epoch)
        for assigned in step.follow:
            if (partition := self._find_open(assigned)) is not None:
                is_any = True
                partition.follow(assigned.state)
        return is_any

    def _is_missing(self, assigned: AssignedPartition) -> bool:
        return not self._partitions.is_held(assigned.id) and not self._openings.is_waiting(assigned.id)

    def _find_open(self, assigned: AssignedPartition) -> Partition | None:
        """Return the replica if its log is open, and durable if it is new; one that is opened takes its role then."""
        return None if self._openings.is_waiting(assigned.id) else self._partitions.find(assigned.id)

    async def _open_first(self, step: BrokerDelta) -> None:
        """Open the logs of all replicas that this broker has at its start, and give them their roles."""
        await self._storage.in_thread(self._checkpoints.read.read)
        for failure in await self._storage.in_thread(self._replica_directories.list_directories):
            self._failures.directory_failed(failure.directory, str(failure))
        await self._stopper.resume_removal()
        opened = await self._openings.open_first([*step.lead, *step.follow])
        self._is_first = False
        await self._rename_strays()
        await self.log_preloading.release()
        self._checkpoints.read.forget_unopened()
        opened.is_outdated = opened.is_outdated or not self._checkpoints.read.is_complete
        await self._openings.write_checkpoints_with(opened)
        self._apply_roles(step)
        self.fetchers.update()

    async def create_delayed(self) -> None:
        """Create the replicas for which there was no room, as soon as there is, until cancelled."""
        await self._openings.create_delayed()

    async def checkpoint(self, only: LogDirectory | None = None) -> None:
        """Write the high watermarks to their checkpoints; without room on the disk the earlier files stay.

        Nothing is written before every replica of this broker is held, because the files would lack the others.
        """
        if self._is_first:
            return
        await self._checkpoints.write(needs_room=False, only=None if only is None else [only])

    async def close(self) -> None:
        """End all fetching and close every log durably."""
        await self._openings.close()
        await self._stopper.wait_for_free_names()
        await self.fetchers.close()
        by_directory: dict[LogDirectory, list[Partition]] = {}
        for partition in self._partitions:
            by_directory.setdefault(partition.log_directory, []).append(partition)
        await asyncio.gather(*(self._close_logs(*held) for held in by_directory.items()))
        await self.log_preloading.close()

    async def _close_logs(self, directory: LogDirectory, partitions: Sequence[Partition]) -> None:
        turns = Turns(CLOSED_AT_ONCE)
        for partition in partitions:
            # A log that has not changed takes no step.
            closing = ChangeUnderWay(partition.closing())
            while closing.step is not None:
                await self._storage.in_thread_of(directory, closing.step.run)
                closing.resume()
            await turns.done()

    async def _rename_strays(self) -> None:
        held = {partition.topic_partition for partition in self._partitions}
        held |= {replica.topic_partition for replica in self._partitions.offline}
        try:
            await self._storage.in_thread(self._replica_directories.rename_strays, held)
        except DirectoryFailed as failure:
            self._failures.directory_failed(failure.directory, str(failure))

    # --- configs ---------------------------------------------------------------------------------------------

    def _reconfigure(self, topic: TopicImage) -> None:
        config = self._config(topic)
        for number in topic.partitions:
            partition = self._partitions.find(TopicIdPartition(topic.topic_id, number))
            if partition is not None:
                partition.reconfigure(config)

    def _config(self, topic: TopicImage) -> TopicConfig:
        return overridden(self._defaults, topic.configs)


def _changes_led(before: MetadataImage, step: BrokerDelta) -> ChangeCounts:
    """Count the changes of the partitions that this broker leads after the step and that existed before it."""
    counts = ChangeCounts()
    for assigned in step.lead:
        state = before.partition_by_id(assigned.topic_id, assigned.state.partition)
        if state is not None:
            counts.add(state, assigned.state.leader, assigned.state.isr)
    return counts
