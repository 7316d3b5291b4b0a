"""Acts on new metadata: opens and closes logs, gives partitions their roles, keeps a fetcher for each leader."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

import structlog

from kraft.log.change import ChangeUnderWay
from kraft.log.disk import is_disk_full
from kraft.log.partition_log import PartitionLog
from kraft.metadata.configs import TopicConfig, overridden
from kraft.metadata.delta import AssignedPartition, BrokerDelta, RemovedPartition, delta
from kraft.metadata.image import MetadataImage, TopicImage
from kraft.model.errors import Corruption
from kraft.model.ids import NO_BROKER, NO_LEADER_EPOCH, BrokerId, Offset, TopicIdPartition, TopicPartition
from kraft.server.cluster.own_registration import OwnRegistration
from kraft.server.loop import background
from kraft.server.loop.turns import Turns
from kraft.server.replica.failures import ReplicaFailures
from kraft.server.replica.fetcher import ReplicaFetcher
from kraft.server.replica.high_watermarks import HighWatermarks
from kraft.server.replica.log_configs import log_config
from kraft.server.replica.logs_opened_ahead import LogsOpenedAhead
from kraft.server.replica.partition import Partition
from kraft.server.replica.partitions import Damage, OfflineReplica, Partitions
from kraft.server.replica.removals import ReplicaRemovals
from kraft.server.replica.storage import ReplicaStorage
from kraft.server.replica.store import DeletedReplica, DirectoryFailed
from kraft.server.replica.surroundings import PartitionSurroundings

log = structlog.get_logger()

RETIRED_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """`high_watermark` was written down before; `is_new`: the log begins empty."""

    log: PartitionLog
    high_watermark: Offset | None
    is_new: bool

    @property
    def lacks_committed_records(self) -> bool:
        return self.high_watermark is not None and self.high_watermark > self.log.log_end_offset


class ReplicaPublisher:
    """`publish` is called for one step at a time, by the metadata loader."""

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
        self._removals = removals
        self._defaults = defaults
        self._high_watermarks = HighWatermarks(storage.disk, storage.directories.online)
        self._surroundings = surroundings
        self._make_fetcher = make_fetcher
        self._fatal = fatal
        self._fetchers: dict[BrokerId, tuple[ReplicaFetcher, asyncio.Task[None]]] = {}
        self.logs_opened_ahead = LogsOpenedAhead(storage, defaults)
        self._unmarked: list[DeletedReplica] = []
        self._marking: asyncio.Task[None] | None = None
        self._is_first = True
        self._defaults_changed = False

    def use_defaults(self, defaults: TopicConfig) -> None:
        """What topics get that set nothing themselves: from the next image on, also for logs that are open."""
        self._defaults_changed = self._defaults_changed or defaults != self._defaults
        self._defaults = defaults

    async def publish(self, before: MetadataImage, after: MetadataImage) -> None:
        """Makes this broker what `after` says it is, as far as its disks let it.

        Raises StorageError for a partition that is in two log directories.
        """
        self.logs_opened_ahead.stop()
        step = delta(before, after, self._registration.broker_id)
        for topic in tuple(after.topics.values()) if self._defaults_changed else step.reconfigured:
            self._reconfigure(topic)
        self._defaults_changed = False
        # Replicas that are open wait for no disk: whose leader died is led, or fetched from another one, at once.
        held = {one.id for one in (*step.lead, *step.follow) if self._find(one) is not None}
        self._give_roles(step, held)
        if held:
            self._tend_fetchers()
        await self._delete(step.remove)
        if self._is_first or self._are_missing([*step.lead, *step.follow]):
            # What is begun may have the name of what is deleted.
            await self._names_are_free()
        if self._is_first:
            for failure in await self._storage.in_thread(self._store.look_around):
                self._failures.directory_failed(failure.directory, str(failure))
            await self._remove_what_was_marked_before()
        must_be_written = await self._open_missing([*step.lead, *step.follow], after)
        if self._is_first:
            self._is_first = False
            await self._set_strays_aside()
            await self.logs_opened_ahead.release()
            self._high_watermarks.forget_unopened()
            must_be_written = must_be_written or not self._high_watermarks.is_complete
        if must_be_written:
            # The file names partitions without their topic's id. An entry that outlived its topic would, after a
            # crash, stand for a new topic of the same name, and be ahead of the truth. And a partition that is not
            # named before it takes records would, if it were lost, not be missed.
            await self._write_checkpoints(needs_room=True)
        others = {one.id for one in (*step.lead, *step.follow)} - held
        self._give_roles(step, others)
        renewed = await self._renew(self._failures.metadata_changed(after), after)
        if others or renewed or step.remove:
            self._tend_fetchers()
        if not step.is_empty or renewed:
            log.info(
                "metadata applied",
                leads=len(step.lead),
                follows=len(step.follow),
                removes=len(step.remove),
                replicas=len(self._partitions),
                offline=len(self._partitions.offline),
            )

    def _give_roles(self, step: BrokerDelta, keys: Collection[TopicIdPartition]) -> None:
        """To those replicas that are open."""
        for assigned in step.lead:
            if assigned.id in keys and (partition := self._find(assigned)) is not None:
                partition.lead(assigned.state, self._registration.broker_epoch)
        for assigned in step.follow:
            if assigned.id in keys and (partition := self._find(assigned)) is not None:
                partition.follow(assigned.state)

    async def checkpoint(self) -> None:
        """Writes down the high watermarks; for want of room they stay as they were written before.

        So they do until every replica of this broker is held: what is written then does not name those to come.
        """
        if self._is_first:
            return
        await self._write_checkpoints(needs_room=False)

    async def _write_checkpoints(self, *, needs_room: bool) -> None:
        """With `needs_room` a file that is out of date would do harm, and a disk without room for it has failed."""
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

    def _high_watermarks_held(self) -> dict[str, dict[TopicPartition, Offset]]:
        """By log directory; of replicas in a directory that is out of use in another one, so that they are missed."""
        held: dict[str, dict[TopicPartition, Offset]] = {directory: {} for directory in self._directories.online}
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
        """Ends all fetching and closes every log durably."""
        await self._names_are_free()
        tasks = [task for _, task in self._fetchers.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for partition in self._partitions:
            closing = ChangeUnderWay(partition.closing())
            while closing.step is not None:
                await self._storage.in_thread(closing.step.run)
                closing.resume()
        await self.logs_opened_ahead.close()

    # --- partitions ------------------------------------------------------------------------------------------

    def _are_missing(self, assignments: Sequence[AssignedPartition]) -> bool:
        return any(not self._partitions.is_held(one.id) for one in assignments)

    async def _open_missing(self, assignments: Sequence[AssignedPartition], image: MetadataImage) -> bool:
        """True when what is written down of the high watermarks has to be corrected."""
        is_outdated = False
        missing = [one for one in assignments if not self._partitions.is_held(one.id)]
        for assigned in missing:
            if not self._directories.online:
                break
            config = self._config(image.topics[assigned.topic_id])
            opened = await self._storage.in_thread(self._open, assigned, config)
            match opened:
                case OfflineReplica():
                    if opened.damage is Damage.OUT_OF_REACH and opened.log_directory is not None:
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
        """Blocks on the disk."""
        name, topic_id = assigned.topic_partition, assigned.topic_id
        directory: str | None = None
        try:
            is_new = not self._store.holds(name, topic_id)
            lost = self._why_lost(assigned) if is_new and self._is_first else None
            if lost is not None:
                return self._offline(assigned, *lost, None)
            opened = self._store.open(name, topic_id, config)
            directory = self._store.directory_of(name)
        except Corruption as corruption:
            return self._offline(assigned, Damage.CORRUPT, str(corruption), self._store.directory_of(name))
        except DirectoryFailed as failure:
            if failure.is_full and self._store.directory_of(name) is None:
                return self._offline(assigned, Damage.MISSING, f"there was no room to begin it: {failure}", None)
            return self._offline(assigned, Damage.OUT_OF_REACH, str(failure), failure.directory)
        found = _Opened(log=opened, high_watermark=self._high_watermarks.take(name, directory), is_new=is_new)
        if found.lacks_committed_records and not is_new and assigned.state.counts_on(self._registration.broker_id):
            reason = f"the log ends at {opened.log_end_offset}, and was committed up to {found.high_watermark}"
            log.error("committed records missing", partition=str(name), reason=reason)
            # Acknowledged from memory alone, they were never promised to outlive a power failure.
            if self._surroundings.sync_before_ack:
                opened.release()
                return self._offline(assigned, Damage.CORRUPT, reason, directory, found.high_watermark)
        return found

    def _why_lost(self, assigned: AssignedPartition) -> tuple[Damage, str] | None:
        """For a replica that is nowhere to be found when the broker starts; None when it may begin empty.

        The registration of this process was a change to every partition of which the broker was in sync then, if only
        that it lost its leader. So one in sync without a change to it was created since, and takes no part yet. One
        that is eligible outside the ISR is counted on as if it were in sync.
        """
        state, is_counted_on = assigned.state, assigned.state.counts_on(self._registration.broker_id)
        if is_counted_on and state.partition_epoch == 0:
            return None
        if self._directories.offline:
            unusable = ", ".join(self._directories.offline)
            return Damage.OUT_OF_REACH, f"it may lie in {unusable}, which cannot be used"
        if not is_counted_on:
            # Others have all that was acknowledged.
            return None
        if self._high_watermarks.names(assigned.topic_partition):
            return Damage.MISSING, "it was on this broker, and its directory is gone"
        if not self._high_watermarks.is_complete:
            return Damage.MISSING, "it was on this broker, and a log directory is new or was emptied"
        # Assigned, and then this broker died before it took the partition up.
        return None

    def _offline(
        self,
        assigned: AssignedPartition,
        damage: Damage,
        reason: str,
        directory: str | None,
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

    async def _renew(self, free: Sequence[OfflineReplica], image: MetadataImage) -> bool:
        """Begins these replicas anew, as followers. True when there were any."""
        renewed = False
        if free:
            await self._names_are_free()
        for replica in free:
            if not self._directories.online:
                break
            topic = image.topics[replica.topic_id]
            config, state = self._config(topic), topic.partitions[replica.topic_partition.partition]
            assigned = AssignedPartition(topic=topic.topic, topic_id=topic.topic_id, state=state, is_new=False)
            try:
                opened = await self._storage.in_thread(self._begin_anew, replica, config)
            except Corruption as corruption:
                log.error("replica not recreated", partition=str(replica.topic_partition), reason=str(corruption))
                continue
            except DirectoryFailed as failure:
                if failure.is_full:
                    log.warning(
                        "replica recreation delayed", partition=str(replica.topic_partition), reason=str(failure)
                    )
                else:
                    # What was begun there may come back with the directory, so it is not begun anywhere else.
                    lost = replace(replica, damage=Damage.OUT_OF_REACH, log_directory=failure.directory)
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
            renewed = True
        if renewed:
            await self._write_checkpoints(needs_room=True)
        return renewed

    def _begin_anew(self, replica: OfflineReplica, config: TopicConfig) -> PartitionLog:
        """Blocks on the disk."""
        if replica.log_directory is not None:
            with replica.files_in_use:
                self._store.quarantine(replica.topic_partition, replica.log_directory)
        return self._store.open(replica.topic_partition, replica.topic_id, config)

    async def _set_strays_aside(self) -> None:
        held = {partition.topic_partition for partition in self._partitions}
        held |= {replica.topic_partition for replica in self._partitions.offline}
        try:
            await self._storage.in_thread(self._store.set_strays_aside, held)
        except DirectoryFailed as failure:
            self._failures.directory_failed(failure.directory, str(failure))

    # --- deletion --------------------------------------------------------------------------------------------

    def _retire(self, removed: RemovedPartition) -> DeletedReplica | None:
        """Serves the replica no more. None when it has no directory that could be touched.

        What lies in a directory that is out of use stays there, and is set aside when that is back.
        """
        partition = self._partitions.find(removed.id)
        if partition is not None:
            self._partitions.remove(partition)
            partition.retire()
            return DeletedReplica(
                topic_partition=partition.topic_partition,
                directory=partition.log_directory,
                files_in_use=partition.directory_in_use,
            )
        replica = self._partitions.find_offline(removed.id)
        if replica is None:
            return None
        self._partitions.forget_offline(replica)
        if replica.log_directory is None:
            return None
        return DeletedReplica(
            topic_partition=replica.topic_partition, directory=replica.log_directory, files_in_use=replica.files_in_use
        )

    async def _delete(self, removed: Sequence[RemovedPartition]) -> None:
        """Serves them no more. The metadata that follows waits for no disk, unless it needs one of the names."""
        turns = Turns(RETIRED_AT_ONCE)
        for each in removed:
            replica = self._retire(each)
            if replica is not None:
                self._unmarked.append(replica)
            await turns.done()
        if self._unmarked and (self._marking is None or self._marking.done()):
            self._marking = background.start(self._mark_deleted(), "marking of deleted replicas", self._fatal)

    async def _names_are_free(self) -> None:
        if self._marking is not None:
            await asyncio.wait([self._marking])

    async def _mark_deleted(self) -> None:
        """Frees their names and forgets their high watermarks; the removal goes on in the background."""
        while self._unmarked:
            deleted, self._unmarked = self._unmarked, []
            marked, failures = await self._storage.in_thread(self._store.mark_deleted, deleted)
            for failure in failures:
                self._failures.directory_failed(failure.directory, str(failure))
            for topic, count in Counter(replica.topic_partition.topic for replica in deleted).items():
                log.info("replicas marked for deletion", topic=topic, replicas=count)
            for directory in marked:
                self._removals.add(directory)
            await self._write_checkpoints(needs_room=True)

    async def _remove_what_was_marked_before(self) -> None:
        left = await self._storage.in_thread(self._store.marked_before)
        for directory in left:
            self._removals.add(directory)
        if left:
            log.info("deleted replica removal resumed", replicas=len(left))

    # --- configs ---------------------------------------------------------------------------------------------

    def _reconfigure(self, topic: TopicImage) -> None:
        config = self._config(topic)
        for number in topic.partitions:
            partition = self._partitions.find(TopicIdPartition(topic.topic_id, number))
            if partition is not None:
                partition.reconfigure(config, log_config(config))

    def _find(self, assigned: AssignedPartition) -> Partition | None:
        """None for a replica that is offline."""
        return self._partitions.find(assigned.id)

    def _config(self, topic: TopicImage) -> TopicConfig:
        return overridden(self._defaults, topic.configs)

    # --- fetchers --------------------------------------------------------------------------------------------

    def _tend_fetchers(self) -> None:
        """One fetcher for each broker that is followed; each looks for its partitions itself."""
        leaders = {partition.followed for partition in self._partitions} - {NO_BROKER}
        for gone in self._fetchers.keys() - leaders:
            _, task = self._fetchers.pop(gone)
            task.cancel()
        for leader_id in leaders:
            if leader_id in self._fetchers:
                self._fetchers[leader_id][0].assignment_changed()
            else:
                fetcher = self._make_fetcher(leader_id)
                task = background.start(fetcher.run(), f"fetcher from broker {leader_id}", self._fatal)
                self._fetchers[leader_id] = fetcher, task
