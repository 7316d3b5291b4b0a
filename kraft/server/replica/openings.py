"""Opens the logs of this broker's replicas: at the start all of them, later those of new replicas, beside new metadata.

A new replica takes its role, and with it records, only when its directory, its log and its entry in the high watermark
checkpoint are on the disk. Without room for one of them the creation is undone and tried again later.

A large new topic has thousands of logs to create. They wait here and are opened in pieces, one piece at a time, while
metadata is applied: what it says about a waiting replica counts when the log is open. A replica that is removed while a
thread opens its log is deleted as soon as the thread is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Final

import structlog
from msgspec import Struct

from kraft.log.partition_log import PartitionLog
from kraft.metadata.configs import TopicConfig
from kraft.metadata.delta import AssignedPartition, RemovedPartition
from kraft.metadata.image import EMPTY_IMAGE, MetadataImage, TopicImage
from kraft.model.errors import Corruption
from kraft.model.ids import NO_LEADER_EPOCH, LogDirectory, Offset, TopicId, TopicIdPartition, TopicPartition
from kraft.server.cluster.own_registration import OwnRegistration
from kraft.server.loop import background
from kraft.server.loop.periods import period_end
from kraft.server.replica.checkpoints import HighWatermarkCheckpoints
from kraft.server.replica.deletions import ReplicaDeletions
from kraft.server.replica.failures import ReplicaFailures
from kraft.server.replica.log_configs import log_config
from kraft.server.replica.partition import Partition
from kraft.server.replica.partitions import Damage, OfflineReplica, Partitions
from kraft.server.replica.storage import ReplicaStorage
from kraft.server.replica.store import DirectoryFailed
from kraft.server.replica.surroundings import PartitionSurroundings

log = structlog.get_logger()

CREATION_RETRY_S: Final = 1.0
"""Pause after an attempt to create replicas for which there was no room on the disk."""
PIECE_S: Final = 0.2
"""Time for which logs are opened before those that are open take their roles."""
_PIECE_LOGS: Final = 1_000


class _Opened(Struct, frozen=True, kw_only=True):
    """An opened log. `high_watermark` comes from the checkpoint; `is_new`: the log begins empty."""

    topic_id: TopicId
    log: PartitionLog
    directory: LogDirectory
    high_watermark: Offset | None
    is_new: bool

    @property
    def id(self) -> TopicIdPartition:
        return TopicIdPartition(self.topic_id, self.log.topic_partition.partition)

    @property
    def lacks_committed_records(self) -> bool:
        return self.high_watermark is not None and self.high_watermark > self.log.log_end_offset


class Piece(Struct, kw_only=True):
    """Replicas that were opened together. They take their roles when the checkpoints have the created ones."""

    opened: list[Partition]
    created: list[Partition]
    again: list[Partition]
    """Those of the created ones that were offline before."""
    is_outdated: bool = False
    """The high watermark checkpoints would do harm if they stayed as they are."""


class ReplicaOpenings:
    """Opens logs, creates replicas anew or later, and gives them their first roles."""

    def __init__(
        self,
        *,
        partitions: Partitions,
        storage: ReplicaStorage,
        checkpoints: HighWatermarkCheckpoints,
        failures: ReplicaFailures,
        deletions: ReplicaDeletions,
        registration: OwnRegistration,
        surroundings: PartitionSurroundings,
        config: Callable[[TopicImage], TopicConfig],
        roles_given: Callable[[], None],
        fatal: Callable[[str], None],
    ) -> None:
        """`config` returns a topic's configs, with the defaults. `roles_given` is called after replicas
        took their first roles.
        """
        self._partitions = partitions
        self._storage = storage
        self._store = storage.store
        self._checkpoints = checkpoints
        self._high_watermarks = checkpoints.read
        self._directories = storage.directories
        self._failures = failures
        self._deletions = deletions
        self._registration = registration
        self._surroundings = surroundings
        self._config = config
        self._roles_given = roles_given
        self._fatal = fatal
        self._image = EMPTY_IMAGE
        self._waiting: dict[TopicIdPartition, None] = {}
        """Replicas that have no role yet: their logs are to be opened, or are not durable."""
        self._opening: asyncio.Task[None] | None = None
        self._piece_over = asyncio.Event()
        self._is_closing = False

    # --- requests --------------------------------------------------------------------------------------------

    def is_waiting(self, partition: TopicIdPartition) -> bool:
        """Return whether the replica takes its role, whatever it is by then, when its log is open."""
        return partition in self._waiting

    def metadata_changed(self, image: MetadataImage, removed: Iterable[RemovedPartition]) -> None:
        """Note the metadata that counts for roles from now on, and the replicas that it takes from this broker."""
        self._image = image
        for each in removed:
            self._waiting.pop(each.id, None)

    def open_later(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Open the logs of these replicas, or create them again if they are offline, beside what the caller does next.

        Their names are free, or are those of replicas whose deletion has begun.
        """
        self._waiting.update(dict.fromkeys(partitions))
        if self._waiting and not self._is_closing and (self._opening is None or self._opening.done()):
            self._opening = background.start(self._open_waiting(), "opening of logs", self._fatal)

    def facts(self) -> dict[str, int]:
        """Return the number of logs that wait to be opened, if there are any, for the log output."""
        return {"logs_to_open": len(self._waiting)} if self._waiting else {}

    async def wait_for(self, partitions: Sequence[TopicIdPartition], timeout_s: float) -> None:
        """Wait until these replicas have their roles or cannot be opened, for some time at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while any(each in self._waiting for each in partitions):
                    await self._piece_over.wait()

    async def open_first(self, assignments: Sequence[AssignedPartition]) -> Piece:
        """Open the logs of all replicas at the start. Raises StorageError."""
        piece = _empty_piece()
        for assigned in assignments:
            if not self._directories.online:
                break
            config = self._config(self._image.topics[assigned.topic_id])
            self._adopt(await self._storage.in_thread(self._open, assigned, config, True), config, piece)
        return piece

    async def create_delayed(self) -> None:
        """Create the replicas for which there was no room, as soon as there is, until cancelled."""
        while True:
            await period_end(CREATION_RETRY_S)
            for replica in self._partitions.offline:
                if replica.damage is not Damage.NOT_CREATED or replica.log_directory is not None:
                    continue
                if self._partitions.find_offline(replica.id) is not replica:
                    # It was removed meanwhile.
                    continue
                self.open_later([replica.id])
                await self.wait_for([replica.id], CREATION_RETRY_S)
                if self._partitions.find(replica.id) is None:
                    # There is no room for the others either.
                    break

    async def close(self) -> None:
        """Open no further log; wait for the one that is being opened. It is closed with the others."""
        self._is_closing = True
        if self._opening is not None:
            await asyncio.wait([self._opening])

    # --- pieces ----------------------------------------------------------------------------------------------

    async def _open_waiting(self) -> None:
        loop = asyncio.get_running_loop()
        began_s, pieces, opened = loop.time(), 0, 0
        while self._waiting and self._directories.online and not self._is_closing:
            await self._deletions.wait_for_free_names()
            # Chosen in the turn in which their names are free.
            opened += await self._open_piece(list(islice(self._waiting, _PIECE_LOGS)))
            pieces += 1
        if pieces > 1:
            took_ms = round((loop.time() - began_s) * 1_000)
            log.info("new logs opened", opened=opened, pieces=pieces, left=len(self._waiting), took_ms=took_ms)

    async def _open_piece(self, partitions: Sequence[TopicIdPartition]) -> int:
        """Open logs for `PIECE_S`, at least one, and give the replicas their roles. Return how many are open."""
        loop, piece = asyncio.get_running_loop(), _empty_piece()
        ends_s = loop.time() + PIECE_S
        for each in partitions:
            if self._is_closing or not self._directories.online:
                break
            if each not in self._waiting:
                # It was removed meanwhile.
                continue
            await self._open_one(each, piece)
            if self._partitions.find_offline(each) is not None:
                self._waiting.pop(each, None)
            if loop.time() >= ends_s:
                break
        await self.write_checkpoints_with(piece)
        if not self._is_closing:
            self._give_roles(piece)
        self._piece_over.set()
        self._piece_over.clear()
        return len(piece.opened)

    def _give_roles(self, piece: Piece) -> None:
        for partition in piece.opened:
            # It may have been removed, or its directory may have failed, while the checkpoints were written.
            if self._partitions.find(partition.id) is partition:
                self._give_role(partition)
            if self._partitions.is_held(partition.id):
                self._waiting.pop(partition.id, None)
        for partition in piece.again:
            if self._partitions.find(partition.id) is partition:
                log.info("replica created", partition=str(partition.topic_partition), directory=partition.log_directory)
        if piece.opened:
            self._roles_given()

    def _give_role(self, partition: Partition) -> None:
        state = self._image.topics[partition.topic_id].partitions[partition.topic_partition.partition]
        if state.leader == self._registration.broker_id:
            partition.lead(state, self._registration.broker_epoch)
        else:
            partition.follow(state)

    async def write_checkpoints_with(self, piece: Piece) -> None:
        """Write the checkpoints with the entries of the new replicas, or undo their creation if there is no room.

        The checkpoint has no topic ids. After a crash, an entry left by a deleted topic would count for a new topic of
        the same name, with too high an offset. And the loss of a partition that took records before it was in the
        checkpoint would not be noticed.
        """
        if not piece.created and not piece.is_outdated:
            return
        without_room = await self._checkpoints.write(needs_room=piece.is_outdated)
        for partition in piece.created:
            if partition.log_directory in without_room:
                await self._undo_creation(partition, without_room[partition.log_directory])

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

    # --- one log ---------------------------------------------------------------------------------------------

    async def _open_one(self, wanted: TopicIdPartition, piece: Piece) -> None:
        """Open the log of a waiting replica, or create the replica again if it is offline."""
        topic = self._image.topics[wanted.topic_id]
        replica, config = self._partitions.find_offline(wanted), self._config(topic)
        if replica is not None:
            await self._create_one_again(replica, config, piece)
            return
        state = topic.partitions[wanted.partition]
        assigned = AssignedPartition(topic=topic.topic, topic_id=topic.topic_id, state=state, is_new=True)
        self._adopt(await self._storage.in_thread(self._open, assigned, config, False), config, piece)
        if wanted not in self._waiting:
            await self._remove(assigned.topic_partition, wanted)

    async def _remove(self, topic_partition: TopicPartition, removed: TopicIdPartition) -> None:
        """Delete a replica that was removed from this broker while a thread opened its log."""
        topic_id, number = removed
        await self._deletions.delete(
            [RemovedPartition(topic=topic_partition.topic, topic_id=topic_id, partition=number)]
        )

    def _adopt(self, opened: _Opened | OfflineReplica, config: TopicConfig, piece: Piece) -> None:
        """Hold the replica, open or offline. `config` is what its log was opened with."""
        if isinstance(opened, _Opened) and not self._directories.is_online(opened.directory):
            # The directory failed after the log was opened: nothing may be written there again.
            opened.log.release()
            opened = OfflineReplica(
                topic_partition=opened.log.topic_partition,
                topic_id=opened.topic_id,
                leader_epoch=NO_LEADER_EPOCH,
                damage=Damage.UNREACHABLE,
                reason=self._directories.offline[opened.directory],
                log_directory=opened.directory,
                high_watermark=opened.high_watermark or Offset(0),
            )
        match opened:
            case OfflineReplica():
                if opened.damage is Damage.UNREACHABLE and opened.log_directory is not None:
                    self._failures.directory_failed(opened.log_directory, opened.reason)
                self._failures.cannot_open(opened)
                piece.is_outdated = piece.is_outdated or opened.damage is not Damage.NOT_CREATED
            case _Opened():
                piece.is_outdated = piece.is_outdated or (opened.lacks_committed_records and not opened.is_new)
                self._add(opened, config, piece)

    def _add(self, opened: _Opened, config: TopicConfig, piece: Piece) -> Partition:
        log_end = opened.log.log_end_offset
        high_watermark = opened.log.log_start_offset if opened.high_watermark is None else opened.high_watermark
        topic = self._image.topics.get(opened.topic_id)
        if topic is not None and (latest := self._config(topic)) != config:
            # It changed while a thread opened the log.
            config = latest
            opened.log.reconfigure(log_config(config))
        partition = Partition(
            topic_partition=opened.log.topic_partition,
            topic_id=opened.topic_id,
            log=opened.log,
            high_watermark=min(high_watermark, log_end),
            config=config,
            surroundings=self._surroundings,
        )
        self._partitions.add(partition)
        piece.opened.append(partition)
        if opened.is_new:
            piece.created.append(partition)
        return partition

    def _open(self, assigned: AssignedPartition, config: TopicConfig, is_first: bool) -> _Opened | OfflineReplica:
        """Open one log. Blocks on the disk."""
        name, topic_id = assigned.topic_partition, assigned.topic_id
        try:
            is_new = not self._store.holds(name, topic_id)
            lost = self._loss_of(assigned) if is_new and is_first else None
            if lost is not None:
                return self._offline(assigned, *lost, None)
            opened = self._store.open(name, topic_id, config)
        except Corruption as corruption:
            return self._offline(assigned, Damage.CORRUPT, str(corruption), self._store.directory_of(name))
        except DirectoryFailed as failure:
            if failure.is_full and self._store.directory_of(name) is None:
                return self._offline(assigned, Damage.NOT_CREATED, _no_room(failure), None)
            return self._offline(assigned, Damage.UNREACHABLE, str(failure), failure.directory)
        directory = _log_directory_of(opened)
        high_watermark = self._high_watermarks.take(name, directory)
        found = _Opened(
            topic_id=topic_id, log=opened, directory=directory, high_watermark=high_watermark, is_new=is_new
        )
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

    async def _create_one_again(self, replica: OfflineReplica, config: TopicConfig, piece: Piece) -> None:
        """Create an offline replica, empty."""
        if not self._failures.may_be_created(replica):
            return
        try:
            created = await self._storage.in_thread(self._create_again, replica, config)
        except Corruption as corruption:
            log.error("replica not recreated", partition=str(replica.topic_partition), reason=str(corruption))
            return
        except DirectoryFailed as failure:
            await self._cannot_recreate(replica, failure)
            return
        if self._partitions.find_offline(replica.id) is replica:
            self._partitions.forget_offline(replica)
            piece.again.append(self._add(created, config, piece))
        elif self._partitions.is_held(replica.id):
            # Its directory failed meanwhile.
            created.log.release()
        else:
            # It was removed meanwhile, with the directory of its name. If it is this broker's again, it waits again.
            self._add(created, config, _empty_piece())
            await self._remove(replica.topic_partition, replica.id)

    async def _cannot_recreate(self, replica: OfflineReplica, failure: DirectoryFailed) -> None:
        if not failure.is_full:
            if self._partitions.find_offline(replica.id) is replica:
                # A log created there may come back with the directory, so it is not created in another one.
                lost = replace(replica, damage=Damage.UNREACHABLE, log_directory=failure.directory)
                self._partitions.take_offline(lost)
            self._failures.directory_failed(failure.directory, str(failure))
        elif replica.damage is not Damage.NOT_CREATED:
            log.warning("replica recreation delayed", partition=str(replica.topic_partition), reason=str(failure))
            directory = await self._storage.in_thread(self._store.directory_of, replica.topic_partition)
            if directory is None and self._partitions.find_offline(replica.id) is replica:
                delayed = replace(replica, damage=Damage.NOT_CREATED, log_directory=None, reason=_no_room(failure))
                self._partitions.take_offline(delayed)

    def _create_again(self, replica: OfflineReplica, config: TopicConfig) -> _Opened:
        """Quarantine the damaged log, if any, and create an empty one. Blocks on the disk."""
        if replica.log_directory is not None:
            with replica.files_in_use:
                self._store.quarantine(replica.topic_partition, replica.log_directory)
        created = self._store.open(replica.topic_partition, replica.topic_id, config)
        return _Opened(
            topic_id=replica.topic_id,
            log=created,
            directory=_log_directory_of(created),
            high_watermark=None,
            is_new=True,
        )


def _empty_piece() -> Piece:
    return Piece(opened=[], created=[], again=[])


def _log_directory_of(opened: PartitionLog) -> LogDirectory:
    return LogDirectory(opened.directory.rpartition("/")[0])


def _no_room(error: object) -> str:
    return f"no room on the disk to create it, which is tried again: {error}"
