"""Applies new metadata: opens and closes logs, gives partitions their roles, keeps a fetcher for each leader."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import structlog

from kraft.log.change import ChangeUnderWay
from kraft.log.disk import is_disk_full
from kraft.log.partition_log import PartitionLog
from kraft.metadata.configs import TopicConfig, overridden
from kraft.metadata.delta import AssignedPartition, BrokerDelta, delta
from kraft.metadata.image import MetadataImage, TopicImage
from kraft.model.errors import Corruption
from kraft.model.ids import NO_LEADER_EPOCH, BrokerId, LogDirectory, Offset, TopicIdPartition, TopicPartition
from kraft.server.cluster.own_registration import OwnRegistration
from kraft.server.replica.deletions import ReplicaDeletions
from kraft.server.replica.failures import ReplicaFailures
from kraft.server.replica.fetcher import ReplicaFetcher
from kraft.server.replica.fetchers import ReplicaFetchers
from kraft.server.replica.high_watermarks import HighWatermarks
from kraft.server.replica.log_configs import log_config
from kraft.server.replica.log_preloading import LogPreloading
from kraft.server.replica.partition import Partition
from kraft.server.replica.partitions import Damage, OfflineReplica, Partitions
from kraft.server.replica.removals import ReplicaRemovals
from kraft.server.replica.storage import ReplicaStorage
from kraft.server.replica.store import DirectoryFailed
from kraft.server.replica.surroundings import PartitionSurroundings

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """An opened log. `high_watermark` comes from the checkpoint; `is_new`: the log begins empty."""

    log: PartitionLog
    high_watermark: Offset | None
    is_new: bool

    @property
    def lacks_committed_records(self) -> bool:
        return self.high_watermark is not None and self.high_watermark > self.log.log_end_offset


class ReplicaPublisher:
    """Applies metadata to this broker's replicas. The metadata loader calls `publish` for one step at a time."""

    def __init__(
        self,
        *,
        registration: OwnRegistration,
        partitions: Partitions,
        storage: ReplicaStorage,
        failures: ReplicaFailures,
        removals: ReplicaRemovals,
        defaults: TopicConfig,
        surroundings: PartitionSurroundings,
        make_fetcher: Callable[[BrokerId], ReplicaFetcher],
        fatal: Callable[[str], None],
    ) -> None:
        self._registration = registration
        self._partitions = partitions
        self._storage = storage
        self._store = storage.store
        self._directories = storage.directories
        self._failures = failures
        self._defaults = defaults
        self._high_watermarks = HighWatermarks(storage.disk, storage.directories.online)
        self._surroundings = surroundings
        self._fetchers = ReplicaFetchers(partitions, make_fetcher, fatal)
        self.log_preloading = LogPreloading(storage, defaults)
        self._deletions = ReplicaDeletions(
            partitions=partitions,
            storage=storage,
            failures=failures,
            removals=removals,
            marked=lambda: self._write_checkpoints(needs_room=True),
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

        Raises StorageError for a partition that is in two log directories.
        """
        self.log_preloading.stop()
        step = delta(before, after, self._registration.broker_id)
        for topic in tuple(after.topics.values()) if self._defaults_changed else step.reconfigured:
            self._reconfigure(topic)
        self._defaults_changed = False
        # Open replicas do not wait for the disk: one whose leader died leads, or fetches from the new leader, at once.
        held = {one.id for one in (*step.lead, *step.follow) if self._find(one) is not None}
        self._apply_roles(step, held)
        if held:
            self._fetchers.update()
        await self._deletions.delete(step.remove)
        if self._is_first or self._are_missing([*step.lead, *step.follow]):
            # A new replica may have the name of a deleted one.
            await self._deletions.wait_for_free_names()
        if self._is_first:
            for failure in await self._storage.in_thread(self._store.list_directories):
                self._failures.directory_failed(failure.directory, str(failure))
            await self._deletions.resume_removals()
        must_be_written = await self._open_missing([*step.lead, *step.follow], after)
        if self._is_first:
            self._is_first = False
            await self._rename_strays()
            await self.log_preloading.release()
            self._high_watermarks.forget_unopened()
            must_be_written = must_be_written or not self._high_watermarks.is_complete
        if must_be_written:
            # The checkpoint has no topic ids. After a crash, an entry left by a deleted topic would count for a new
            # topic of the same name, with too high an offset. And the loss of a partition that took records before it
            # was in the checkpoint would not be noticed.
            await self._write_checkpoints(needs_room=True)
        others = {one.id for one in (*step.lead, *step.follow)} - held
        self._apply_roles(step, others)
        recreated = await self._recreate(self._failures.metadata_changed(after), after)
        if others or recreated or step.remove:
            self._fetchers.update()
        if not step.is_empty or recreated:
            log.info(
                "metadata applied",
                leads=len(step.lead),
                follows=len(step.follow),
                removes=len(step.remove),
                replicas=len(self._partitions),
                offline=len(self._partitions.offline),
            )

    def _apply_roles(self, step: BrokerDelta, keys: Collection[TopicIdPartition]) -> None:
        """Give the open replicas among `keys` their roles."""
        for assigned in step.lead:
            if assigned.id in keys and (partition := self._find(assigned)) is not None:
                partition.lead(assigned.state, self._registration.broker_epoch)
        for assigned in step.follow:
            if assigned.id in keys and (partition := self._find(assigned)) is not None:
                partition.follow(assigned.state)

    async def checkpoint(self) -> None:
        """Write the high watermarks to their checkpoints; without room on the disk the earlier files stay.

        Nothing is written before every replica of this broker is held, because the files would lack the others.
        """
        if self._is_first:
            return
        await self._write_checkpoints(needs_room=False)

    async def _write_checkpoints(self, *, needs_room: bool) -> None:
        """Write the checkpoints. With `needs_room` an outdated file would do harm: a full disk counts as failed."""
        held = self._high_watermarks_held()
        for directory, offsets in held.items():
            if not self._directories.is_online(directory):
                continue
            try:
                await self._storage.in_thread(self._high_watermarks.write, directory, offsets)
            except OSError as error:
                if is_disk_full(error) and not needs_room:
                    log.warning("high watermark checkpoint skipped, disk full", directory=directory, reason=str(error))
                else:
                    self._failures.directory_failed(directory, str(error))

    def _high_watermarks_held(self) -> dict[LogDirectory, dict[TopicPartition, Offset]]:
        """Return the high watermarks by log directory.

        Replicas in an offline directory are listed in another one, so that their loss is noticed.
        """
        held: dict[LogDirectory, dict[TopicPartition, Offset]] = {each: {} for each in self._directories.online}
        if not held:
            return {}
        for partition in self._partitions:
            if partition.log_directory in held:
                held[partition.log_directory][partition.topic_partition] = partition.high_watermark
        elsewhere = self._directories.online[0]
        for replica in self._partitions.offline:
            known = replica.log_directory
            directory = known if known is not None and known in held else elsewhere
            held[directory][replica.topic_partition] = replica.high_watermark
        return held

    async def close(self) -> None:
        """End all fetching and close every log durably."""
        await self._deletions.wait_for_free_names()
        await self._fetchers.close()
        for partition in self._partitions:
            closing = ChangeUnderWay(partition.closing())
            while closing.step is not None:
                await self._storage.in_thread(closing.step.run)
                closing.resume()
        await self.log_preloading.close()

    # --- partitions ------------------------------------------------------------------------------------------

    def _are_missing(self, assignments: Sequence[AssignedPartition]) -> bool:
        return any(not self._partitions.is_held(one.id) for one in assignments)

    async def _open_missing(self, assignments: Sequence[AssignedPartition], image: MetadataImage) -> bool:
        """Open these logs. Return True if the high watermark checkpoints must be written again."""
        is_outdated = False
        missing = [one for one in assignments if not self._partitions.is_held(one.id)]
        for assigned in missing:
            if not self._directories.online:
                break
            config = self._config(image.topics[assigned.topic_id])
            opened = await self._storage.in_thread(self._open, assigned, config)
            match opened:
                case OfflineReplica():
                    if opened.damage is Damage.UNREACHABLE and opened.log_directory is not None:
                        self._failures.directory_failed(opened.log_directory, opened.reason)
                    self._failures.cannot_open(opened)
                    is_outdated = True
                case _Opened():
                    is_outdated = is_outdated or opened.is_new or opened.lacks_committed_records
                    self._add(assigned, opened, config)
        return is_outdated

    def _add(self, assigned: AssignedPartition, opened: _Opened, config: TopicConfig) -> None:
        log_end = opened.log.log_end_offset
        high_watermark = opened.log.log_start_offset if opened.high_watermark is None else opened.high_watermark
        self._partitions.add(
            Partition(
                topic_partition=assigned.topic_partition,
                topic_id=assigned.topic_id,
                log=opened.log,
                high_watermark=min(high_watermark, log_end),
                config=config,
                surroundings=self._surroundings,
            )
        )

    def _open(self, assigned: AssignedPartition, config: TopicConfig) -> _Opened | OfflineReplica:
        """Open one log. Blocks on the disk."""
        name, topic_id = assigned.topic_partition, assigned.topic_id
        directory: LogDirectory | None = None
        try:
            is_new = not self._store.holds(name, topic_id)
            lost = self._loss_of(assigned) if is_new and self._is_first else None
            if lost is not None:
                return self._offline(assigned, *lost, None)
            opened = self._store.open(name, topic_id, config)
            directory = self._store.directory_of(name)
        except Corruption as corruption:
            return self._offline(assigned, Damage.CORRUPT, str(corruption), self._store.directory_of(name))
        except DirectoryFailed as failure:
            if failure.is_full and self._store.directory_of(name) is None:
                return self._offline(assigned, Damage.MISSING, f"no room on the disk to create it: {failure}", None)
            return self._offline(assigned, Damage.UNREACHABLE, str(failure), failure.directory)
        found = _Opened(log=opened, high_watermark=self._high_watermarks.take(name, directory), is_new=is_new)
        if found.lacks_committed_records and not is_new and assigned.state.counts_on(self._registration.broker_id):
            reason = f"the log ends at offset {opened.log_end_offset}, but was committed up to {found.high_watermark}"
            log.error("committed records missing", partition=str(name), reason=reason)
            # Records that were acknowledged before a sync may be lost in a power failure.
            if self._surroundings.sync_before_ack:
                opened.release()
                return self._offline(assigned, Damage.CORRUPT, reason, directory, found.high_watermark)
        return found

    def _loss_of(self, assigned: AssignedPartition) -> tuple[Damage, str] | None:
        """Return damage and reason of a replica without a directory at the start; None when it may begin empty.

        The registration of this process changed every partition with this broker in its ISR, at least by taking its
        leader. So a partition that has it in the ISR and was never changed was created since then, and this broker has
        no records of it. An eligible replica outside the ISR counts like one in the ISR.
        """
        state, is_counted_on = assigned.state, assigned.state.counts_on(self._registration.broker_id)
        if is_counted_on and state.partition_epoch == 0:
            return None
        if self._directories.offline:
            unusable = ", ".join(self._directories.offline)
            return Damage.UNREACHABLE, f"it may be in {unusable}, which cannot be used"
        if not is_counted_on:
            # Other replicas have every acknowledged record.
            return None
        if self._high_watermarks.contains(assigned.topic_partition):
            return Damage.MISSING, "it was on this broker, but its directory is missing"
        if not self._high_watermarks.is_complete:
            return Damage.MISSING, "it was on this broker, but a log directory is new or was emptied"
        # It was assigned, and this broker died before it created the log.
        return None

    def _offline(
        self,
        assigned: AssignedPartition,
        damage: Damage,
        reason: str,
        directory: LogDirectory | None,
        high_watermark: Offset | None = None,
    ) -> OfflineReplica:
        if high_watermark is None:
            high_watermark = self._high_watermarks.take(assigned.topic_partition)
        return OfflineReplica(
            topic_partition=assigned.topic_partition,
            topic_id=assigned.topic_id,
            leader_epoch=NO_LEADER_EPOCH,
            damage=damage,
            reason=reason,
            log_directory=directory,
            high_watermark=high_watermark or Offset(0),
        )

    async def _recreate(self, free: Sequence[OfflineReplica], image: MetadataImage) -> bool:
        """Create these replicas again, empty, as followers. Return True if any was created."""
        recreated = False
        if free:
            await self._deletions.wait_for_free_names()
        for replica in free:
            if not self._directories.online:
                break
            topic = image.topics[replica.topic_id]
            config, state = self._config(topic), topic.partitions[replica.topic_partition.partition]
            assigned = AssignedPartition(topic=topic.topic, topic_id=topic.topic_id, state=state, is_new=False)
            try:
                opened = await self._storage.in_thread(self._create_again, replica, config)
            except Corruption as corruption:
                log.error("replica not recreated", partition=str(replica.topic_partition), reason=str(corruption))
                continue
            except DirectoryFailed as failure:
                if failure.is_full:
                    log.warning(
                        "replica recreation delayed", partition=str(replica.topic_partition), reason=str(failure)
                    )
                else:
                    # A log created there may come back with the directory, so it is not created in another one.
                    lost = replace(replica, damage=Damage.UNREACHABLE, log_directory=failure.directory)
                    self._partitions.take_offline(lost)
                    self._failures.directory_failed(failure.directory, str(failure))
                continue
            if self._partitions.find_offline(replica.id) is not replica:
                # Its directory failed meanwhile.
                opened.release()
                continue
            self._partitions.forget_offline(replica)
            self._add(assigned, _Opened(log=opened, high_watermark=None, is_new=True), config)
            partition = self._partitions.by_id(replica.id)
            partition.follow(state)
            recreated = True
        if recreated:
            await self._write_checkpoints(needs_room=True)
        return recreated

    def _create_again(self, replica: OfflineReplica, config: TopicConfig) -> PartitionLog:
        """Quarantine the damaged log, if any, and create an empty one. Blocks on the disk."""
        if replica.log_directory is not None:
            with replica.files_in_use:
                self._store.quarantine(replica.topic_partition, replica.log_directory)
        return self._store.open(replica.topic_partition, replica.topic_id, config)

    async def _rename_strays(self) -> None:
        held = {partition.topic_partition for partition in self._partitions}
        held |= {replica.topic_partition for replica in self._partitions.offline}
        try:
            await self._storage.in_thread(self._store.rename_strays, held)
        except DirectoryFailed as failure:
            self._failures.directory_failed(failure.directory, str(failure))

    # --- configs ---------------------------------------------------------------------------------------------

    def _reconfigure(self, topic: TopicImage) -> None:
        config = self._config(topic)
        for number in topic.partitions:
            partition = self._partitions.find(TopicIdPartition(topic.topic_id, number))
            if partition is not None:
                partition.reconfigure(config, log_config(config))

    def _find(self, assigned: AssignedPartition) -> Partition | None:
        """Return the open replica; None for one that is offline."""
        return self._partitions.find(assigned.id)

    def _config(self, topic: TopicImage) -> TopicConfig:
        return overridden(self._defaults, topic.configs)
