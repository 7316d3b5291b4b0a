"""Applies new metadata: opens and closes logs, gives partitions their roles, keeps a fetcher for each leader.

A new replica takes its role, and with it records, only when its directory, its log and its entry in the high watermark
checkpoint are on the disk. Without room for one of them the creation is undone and tried again later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

import structlog
from msgspec import Struct

from kraft.log.change import ChangeUnderWay
from kraft.log.disk import is_disk_full
from kraft.log.partition_log import PartitionLog
from kraft.metadata.change_counts import ChangeCounts
from kraft.metadata.configs import TopicConfig, overridden
from kraft.metadata.delta import AssignedPartition, BrokerDelta, delta
from kraft.metadata.image import EMPTY_IMAGE, MetadataImage, TopicImage
from kraft.model.errors import Corruption
from kraft.model.ids import (
    NO_LEADER_EPOCH,
    BrokerId,
    LogDirectory,
    Offset,
    TopicId,
    TopicIdPartition,
    TopicPartition,
)
from kraft.server.cluster.own_registration import OwnRegistration
from kraft.server.loop.periods import period_end
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

CREATION_RETRY_S: Final = 1.0
"""Pause after an attempt to create replicas for which there was no room on the disk."""


class _Opened(Struct, frozen=True, kw_only=True):
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
            # Without room an entry is left. A new replica of that name takes records only once its own is written.
            marked=lambda: self._write_checkpoints(needs_room=False),
            fatal=fatal,
        )
        self._is_first = True
        self._defaults_changed = False
        self._applying = asyncio.Lock()
        """Held while metadata is applied and while a delayed replica is created: both open replicas and give roles."""
        self._image = EMPTY_IMAGE

    def use_defaults(self, defaults: TopicConfig) -> None:
        """Set the default topic configs, from the next image on, also for open logs."""
        self._defaults_changed = self._defaults_changed or defaults != self._defaults
        self._defaults = defaults

    async def publish(self, before: MetadataImage, after: MetadataImage) -> None:
        """Give this broker the roles that it has in `after`, as far as its disks allow.

        Raises StorageError for a partition that is in two log directories.
        """
        async with self._applying:
            await self._apply(before, after)
            self._image = after

    async def _apply(self, before: MetadataImage, after: MetadataImage) -> None:
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
            await self._storage.in_thread(self._high_watermarks.read)
            for failure in await self._storage.in_thread(self._store.list_directories):
                self._failures.directory_failed(failure.directory, str(failure))
            await self._deletions.resume_removals()
        created, is_outdated = await self._open_missing([*step.lead, *step.follow], after)
        if self._is_first:
            self._is_first = False
            await self._rename_strays()
            await self.log_preloading.release()
            self._high_watermarks.forget_unopened()
            is_outdated = is_outdated or not self._high_watermarks.is_complete
        if created or is_outdated:
            await self._write_checkpoints_with(created, needs_room=is_outdated)
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
                **_changes_led(before, step).facts(),
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

    async def _write_checkpoints_with(self, created: Sequence[Partition], *, needs_room: bool = False) -> None:
        """Write the checkpoints with the entries of these new replicas, or undo their creation if there is no room.

        The checkpoint has no topic ids. After a crash, an entry left by a deleted topic would count for a new topic of
        the same name, with too high an offset. And the loss of a partition that took records before it was in the
        checkpoint would not be noticed.
        """
        without_room = await self._write_checkpoints(needs_room=needs_room)
        for partition in created:
            if partition.log_directory in without_room:
                await self._undo_creation(partition, without_room[partition.log_directory])

    async def _write_checkpoints(self, *, needs_room: bool) -> Mapping[LogDirectory, str]:
        """Write the checkpoints. Return the log directories without room for them, each with the error.

        With `needs_room` an outdated file would do harm: a full disk counts as failed.
        """
        without_room: dict[LogDirectory, str] = {}
        held = self._high_watermarks_held()
        for directory, offsets in held.items():
            if not self._directories.is_online(directory):
                continue
            try:
                await self._storage.in_thread(self._high_watermarks.write, directory, offsets)
            except OSError as error:
                if is_disk_full(error) and not needs_room:
                    log.warning("high watermark checkpoint skipped, disk full", directory=directory, reason=str(error))
                    without_room[directory] = str(error)
                else:
                    self._failures.directory_failed(directory, str(error))
        return without_room

    def _high_watermarks_held(self) -> dict[LogDirectory, dict[TopicPartition, Offset]]:
        """Return the high watermarks by log directory.

        Replicas in an offline directory are listed in another one, so that their loss is noticed. One that was never
        created cannot be lost.
        """
        held: dict[LogDirectory, dict[TopicPartition, Offset]] = {each: {} for each in self._directories.online}
        if not held:
            return {}
        for partition in self._partitions:
            if partition.log_directory in held:
                held[partition.log_directory][partition.topic_partition] = partition.high_watermark
        elsewhere = self._directories.online[0]
        for replica in self._partitions.offline:
            if replica.damage is Damage.NOT_CREATED:
                continue
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

    async def _open_missing(
        self, assignments: Sequence[AssignedPartition], image: MetadataImage
    ) -> tuple[list[Partition], bool]:
        """Open these logs. Return the new replicas, and whether the high watermark checkpoints are outdated."""
        created: list[Partition] = []
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
                    is_outdated = is_outdated or opened.damage is not Damage.NOT_CREATED
                case _Opened():
                    is_outdated = is_outdated or (opened.lacks_committed_records and not opened.is_new)
                    partition = self._add(assigned.topic_id, opened, config)
                    if opened.is_new:
                        created.append(partition)
        return created, is_outdated

    def _add(self, topic_id: TopicId, opened: _Opened, config: TopicConfig) -> Partition:
        log_end = opened.log.log_end_offset
        high_watermark = opened.log.log_start_offset if opened.high_watermark is None else opened.high_watermark
        partition = Partition(
            topic_partition=opened.log.topic_partition,
            topic_id=topic_id,
            log=opened.log,
            high_watermark=min(high_watermark, log_end),
            config=config,
            surroundings=self._surroundings,
        )
        self._partitions.add(partition)
        return partition

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
                return self._offline(assigned, Damage.NOT_CREATED, _no_room(failure), None)
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

    # --- replicas that are created again, or later ----------------------------------------------------------

    async def create_delayed(self) -> None:
        """Create the replicas for which there was no room, as soon as there is, until cancelled."""
        while True:
            await period_end(CREATION_RETRY_S)
            for replica in self._partitions.offline:
                if replica.damage is not Damage.NOT_CREATED or replica.log_directory is not None:
                    continue
                # New metadata is applied between two replicas, and may remove this one.
                async with self._applying:
                    if self._partitions.find_offline(replica.id) is not replica:
                        continue
                    if not await self._recreate([replica], self._image):
                        break
                    self._fetchers.update()

    async def _recreate(self, free: Sequence[OfflineReplica], image: MetadataImage) -> bool:
        """Create these offline replicas, empty, and give them their roles. Return True if any was created."""
        created: list[Partition] = []
        if free:
            await self._deletions.wait_for_free_names()
        for replica in free:
            if not self._directories.online:
                break
            config = self._config(image.topics[replica.topic_id])
            try:
                opened = await self._storage.in_thread(self._create_again, replica, config)
            except Corruption as corruption:
                log.error("replica not recreated", partition=str(replica.topic_partition), reason=str(corruption))
            except DirectoryFailed as failure:
                await self._cannot_recreate(replica, failure)
            else:
                if self._partitions.find_offline(replica.id) is not replica:
                    # Its directory failed meanwhile.
                    opened.release()
                    continue
                self._partitions.forget_offline(replica)
                new = _Opened(log=opened, high_watermark=None, is_new=True)
                created.append(self._add(replica.topic_id, new, config))
        if created:
            await self._write_checkpoints_with(created)
        created = [partition for partition in created if self._partitions.find(partition.id) is partition]
        for partition in created:
            log.info("replica created", partition=str(partition.topic_partition), directory=partition.log_directory)
            self._give_role(partition, image)
        return bool(created)

    def _give_role(self, partition: Partition, image: MetadataImage) -> None:
        state = image.topics[partition.topic_id].partitions[partition.topic_partition.partition]
        if state.leader == self._registration.broker_id:
            partition.lead(state, self._registration.broker_epoch)
        else:
            partition.follow(state)

    async def _cannot_recreate(self, replica: OfflineReplica, failure: DirectoryFailed) -> None:
        if not failure.is_full:
            # A log created there may come back with the directory, so it is not created in another one.
            lost = replace(replica, damage=Damage.UNREACHABLE, log_directory=failure.directory)
            self._partitions.take_offline(lost)
            self._failures.directory_failed(failure.directory, str(failure))
        elif replica.damage is not Damage.NOT_CREATED:
            log.warning("replica recreation delayed", partition=str(replica.topic_partition), reason=str(failure))
            if await self._storage.in_thread(self._store.directory_of, replica.topic_partition) is None:
                delayed = replace(replica, damage=Damage.NOT_CREATED, log_directory=None, reason=_no_room(failure))
                self._partitions.take_offline(delayed)

    async def _undo_creation(self, partition: Partition, reason: str) -> None:
        """Take a new replica offline, and remove its directory: it is created later."""
        replica = self._failures.cannot_create(partition, _no_room(reason))
        if replica is None:
            return
        try:
            await self._storage.in_thread(self._remove_created, replica, partition.log_directory)
        except DirectoryFailed as failure:
            self._failures.directory_failed(failure.directory, str(failure))
        if self._partitions.find_offline(replica.id) is replica:
            self._partitions.take_offline(replace(replica, log_directory=None))

    def _remove_created(self, replica: OfflineReplica, directory: LogDirectory) -> None:
        """Remove the directory of a new replica. Blocks on the disk."""
        with replica.files_in_use:
            self._store.undo_creation(replica.topic_partition, directory)

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


def _changes_led(before: MetadataImage, step: BrokerDelta) -> ChangeCounts:
    """Count the changes of the partitions that this broker leads after the step and that existed before it."""
    counts = ChangeCounts()
    for assigned in step.lead:
        topic = before.topics.get(assigned.topic_id)
        state = None if topic is None else topic.partitions.get(assigned.state.partition)
        if state is not None:
            counts.add(state, assigned.state.leader, assigned.state.isr)
    return counts


def _no_room(error: object) -> str:
    return f"no room on the disk to create it, which is tried again: {error}"
