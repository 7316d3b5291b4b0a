"""Opens the logs of this broker's replicas: at the start all of them, later those of new replicas, beside new metadata.

A new replica takes its role, and with it records, only when its directory, its log and its entry in the high watermark
checkpoint are on the disk. Without room for one of them the creation is undone and tried again later.

A large new topic has thousands of logs to create. They wait here and are opened in pieces, one piece at a time in each
log directory, while metadata is applied: what it says about a waiting replica counts when the log is open. A piece ends
with one sync of the log directory and one checkpoint for all its logs. A replica that is removed while a thread opens
its log is deleted as soon as the thread is done.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Final

import structlog
from msgspec import Struct

from kraft.log.topic_config import TopicConfig
from kraft.metadata.delta import AssignedPartition, RemovedPartition
from kraft.metadata.image import EMPTY_IMAGE, MetadataImage, TopicImage
from kraft.model.callbacks import Callback, Fatal
from kraft.model.errors import Corruption
from kraft.model.ids import NO_LEADER_EPOCH, LogDirectory, Offset, TopicIdPartition, TopicPartition
from kraft.server.cluster.own_registration import OwnRegistration
from kraft.server.loop import background
from kraft.server.loop.periods import period_end
from kraft.server.replica.checkpoints import HighWatermarkCheckpoints
from kraft.server.replica.failures import ReplicaFailures
from kraft.server.replica.log_opener import LogOpener, OpenedLog, no_room
from kraft.server.replica.partition import Partition
from kraft.server.replica.partition_services import PartitionServices
from kraft.server.replica.partitions import Damage, OfflineReplica, Partitions
from kraft.server.replica.replica_directories import DirectoryFailed
from kraft.server.replica.replica_stopper import ReplicaStopper
from kraft.server.replica.replica_storage import ReplicaStorage
from kraft.server.replica.waiting_replicas import WaitingReplicas

log = structlog.get_logger()

CREATION_RETRY_S: Final = 1.0
"""Pause after an attempt to create replicas for which there was no room on the disk."""
PIECE_S: Final = 0.2
"""Time for which logs are opened before those that are open take their roles."""
PIECE_S_MAX: Final = 2.0
HELD_PER_LOG: Final = 100
"""A piece ends with all replicas in the checkpoint, which is written whole. So it goes on, for `PIECE_S_MAX`, until it
has a log for each so many of them: what a new log costs does not grow with the number of those that are held.
"""


class OpeningPiece(Struct, kw_only=True):
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
        stopper: ReplicaStopper,
        registration: OwnRegistration,
        services: PartitionServices,
        config: Callable[[TopicImage], TopicConfig],
        roles_given: Callback,
        fatal: Fatal,
    ) -> None:
        """`config` returns a topic's configs, with the defaults. `roles_given` is called after replicas
        took their first roles.
        """
        self._partitions = partitions
        self._storage = storage
        self._replica_directories = storage.replica_directories
        self._checkpoints = checkpoints
        self._directories = storage.directories
        self._failures = failures
        self._stopper = stopper
        self._registration = registration
        self._services = services
        self._opener = LogOpener(storage, registration, checkpoints.read, sync_before_ack=services.sync_before_ack)
        self._config = config
        self._roles_given = roles_given
        self._fatal = fatal
        self._image = EMPTY_IMAGE
        self._waiting = WaitingReplicas()
        """Replicas that have no role yet: their logs are to be opened, or are not durable. With their log directories,
        or those in which they are best created.
        """
        self._opening: dict[LogDirectory, asyncio.Task[None]] = {}
        self._at_work: set[TopicPartition] = set()
        """Names that a thread may be about to use: no two directories ever get the same one."""
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
            self._waiting.discard(each.id)

    def open_later(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Open the logs of these replicas, or create them again if they are offline, beside what the caller does next.

        Those whose name a deleted replica still has wait until this is called again.
        """
        planned = Counter(self._waiting.counts())
        for each in partitions:
            # One that is offline may be removed from this broker, and still to be retired.
            place = self._place_of(each, planned) if self._is_assigned(each) else None
            if place is not None:
                self._waiting.add(each, place)
                planned[place] += 1
        for directory in () if self._is_closing else planned:
            if directory not in self._opening or self._opening[directory].done():
                opening = self._open_waiting(directory)
                self._opening[directory] = background.start(opening, f"opening of logs in {directory}", self._fatal)

    def _is_assigned(self, partition: TopicIdPartition) -> bool:
        state = self._image.partition_by_id(partition.topic_id, partition.partition)
        return state is not None and self._registration.broker_id in state.replicas

    def _place_of(self, wanted: TopicIdPartition, planned: Mapping[LogDirectory, int]) -> LogDirectory | None:
        """Return the log directory in whose thread the log is opened; None if none is online."""
        replica = self._partitions.find_offline(wanted)
        if replica is not None and replica.log_directory in self._directories.online:
            return replica.log_directory
        return self._replica_directories.plan(self._name_of(wanted), planned)

    def _name_of(self, wanted: TopicIdPartition) -> TopicPartition:
        return TopicPartition(self._image.topics[wanted.topic_id].topic, wanted.partition)

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def facts(self) -> dict[str, int]:
        """Return the number of logs that wait to be opened, if there are any, for the log output."""
        return {"logs_to_open": len(self._waiting)} if self._waiting else {}

    async def wait_for(self, partitions: Sequence[TopicIdPartition], timeout_s: float) -> None:
        """Wait until these replicas have their roles or cannot be opened, for some time at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while any(each in self._waiting for each in partitions):
                    await self._piece_over.wait()

    async def open_first(self, assignments: Sequence[AssignedPartition]) -> OpeningPiece:
        """Open the logs of all replicas at the start. Raises StorageError."""
        piece = _empty_piece()
        for assigned in assignments:
            if not self._directories.online:
                break
            config = self._config(self._image.topics[assigned.topic_id])
            self._adopt(await self._storage.in_thread(self._opener.open, assigned, config, None), config, piece)
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
        if self._opening:
            await asyncio.wait(self._opening.values())

    # --- pieces ----------------------------------------------------------------------------------------------

    async def _open_waiting(self, directory: LogDirectory) -> None:
        """Open the logs that wait for the directory until none is left, or the others wait for names."""
        loop = asyncio.get_running_loop()
        began_s, pieces, opened = loop.time(), 0, 0
        while not self._is_closing:
            if not self._directories.is_online(directory):
                # They are created in the others.
                self.open_later(self._waiting.of(directory))
                break
            ready = self._ready(directory)
            first = next(ready, None)
            if first is None:
                break
            opened += await self._open_piece(directory, chain([first], ready))
            pieces += 1
        if pieces > 1:
            took_ms = round((loop.time() - began_s) * 1_000)
            log.info("new logs opened", directory=directory, opened=opened, pieces=pieces, took_ms=took_ms)

    def _ready(self, directory: LogDirectory) -> Iterator[TopicIdPartition]:
        """Yield those that wait for the directory, and whose names are free by the time."""
        for each in self._waiting.of(directory):
            # It may be removed meanwhile.
            if each in self._waiting and self._is_free(self._name_of(each)):
                yield each

    def _is_free(self, name: TopicPartition) -> bool:
        return self._stopper.is_free(name) and name not in self._at_work

    async def _open_piece(self, directory: LogDirectory, partitions: Iterable[TopicIdPartition]) -> int:
        """Open logs for `PIECE_S`, at least one, and give the replicas their roles. Return how many are open."""
        loop, piece = asyncio.get_running_loop(), _empty_piece()
        began_s, logs_min = loop.time(), len(self._partitions) // HELD_PER_LOG
        for each in partitions:
            if self._is_closing or not self._directories.is_online(directory):
                break
            name = self._name_of(each)
            self._at_work.add(name)
            try:
                await self._open_one(each, directory, piece)
            finally:
                self._at_work.discard(name)
            if self._partitions.find_offline(each) is not None:
                self._waiting.discard(each)
            lasted_s = loop.time() - began_s
            if lasted_s >= PIECE_S_MAX or (lasted_s >= PIECE_S and len(piece.opened) >= logs_min):
                break
        await self.write_checkpoints_with(piece)
        if not self._is_closing:
            self._give_roles(piece)
        self._piece_over.set()
        self._piece_over.clear()
        # For those that waited for a name.
        self.open_later(())
        return len(piece.opened)

    def _give_roles(self, piece: OpeningPiece) -> None:
        for partition in piece.opened:
            # While the checkpoints were written, it may have been removed, also if it is still to be retired, or its
            # directory may have failed.
            if partition.id not in self._waiting:
                continue
            if self._partitions.find(partition.id) is partition:
                self._give_role(partition)
            if self._partitions.is_held(partition.id):
                self._waiting.discard(partition.id)
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

    async def write_checkpoints_with(self, piece: OpeningPiece) -> None:
        """Write the checkpoints with the entries of the new replicas, or undo their creation if there is no room.

        The checkpoint has no topic ids. After a crash, an entry left by a deleted topic would count for a new topic of
        the same name, with too high an offset. And the loss of a partition that took records before it was in the
        checkpoint would not be noticed.
        """
        if not piece.created and not piece.is_outdated:
            return
        changed = None if piece.is_outdated else {partition.log_directory for partition in piece.created}
        without_room = await self._checkpoints.write(needs_room=piece.is_outdated, only=changed)
        for partition in piece.created:
            if partition.log_directory in without_room:
                await self._undo_creation(partition, without_room[partition.log_directory])

    async def _undo_creation(self, partition: Partition, reason: str) -> None:
        """Take a new replica offline, and remove its directory: it is created later."""
        replica = self._failures.cannot_create(partition, no_room(reason))
        if replica is None:
            return
        try:
            directory = partition.log_directory
            await self._storage.in_thread_of(directory, self._opener.remove_created, replica, directory)
        except DirectoryFailed as failure:
            self._failures.directory_failed(failure.directory, str(failure))
        if self._partitions.find_offline(replica.id) is replica:
            self._partitions.take_offline(replace(replica, log_directory=None))

    # --- one log ---------------------------------------------------------------------------------------------

    async def _open_one(self, wanted: TopicIdPartition, directory: LogDirectory, piece: OpeningPiece) -> None:
        """Open the log of a waiting replica, or create the replica again if it is offline."""
        topic = self._image.topics[wanted.topic_id]
        replica, config = self._partitions.find_offline(wanted), self._config(topic)
        if replica is not None:
            await self._create_one_again(replica, config, directory, piece)
            return
        state = topic.partitions[wanted.partition]
        assigned = AssignedPartition(topic=topic.topic, topic_id=topic.topic_id, state=state, is_new=True)
        opened = await self._storage.in_thread_of(directory, self._opener.open, assigned, config, directory)
        self._adopt(opened, config, piece)
        if wanted not in self._waiting:
            await self._remove(assigned.topic_partition, wanted)

    async def _remove(self, topic_partition: TopicPartition, removed: TopicIdPartition) -> None:
        """Delete a replica that was removed from this broker while a thread opened its log."""
        topic_id, number = removed
        await self._stopper.delete([RemovedPartition(topic=topic_partition.topic, topic_id=topic_id, partition=number)])

    def _adopt(self, opened: OpenedLog | OfflineReplica, config: TopicConfig, piece: OpeningPiece) -> None:
        """Hold the replica, open or offline. `config` is what its log was opened with."""
        if isinstance(opened, OpenedLog) and not self._directories.is_online(opened.directory):
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
            case OpenedLog():
                piece.is_outdated = piece.is_outdated or (opened.lacks_committed_records and not opened.is_new)
                self._add(opened, config, piece)

    def _add(self, opened: OpenedLog, config: TopicConfig, piece: OpeningPiece) -> Partition:
        log_end = opened.log.log_end_offset
        high_watermark = opened.log.log_start_offset if opened.high_watermark is None else opened.high_watermark
        topic = self._image.topics.get(opened.topic_id)
        if topic is not None and (latest := self._config(topic)) != config:
            # It changed while a thread opened the log.
            config = latest
            opened.log.reconfigure(config)
        partition = Partition(
            topic_partition=opened.log.topic_partition,
            topic_id=opened.topic_id,
            log=opened.log,
            high_watermark=min(high_watermark, log_end),
            config=config,
            services=self._services,
        )
        self._partitions.add(partition)
        piece.opened.append(partition)
        if opened.is_new:
            piece.created.append(partition)
        return partition

    # --- replicas that are created again, or later ----------------------------------------------------------

    async def _create_one_again(
        self, replica: OfflineReplica, config: TopicConfig, directory: LogDirectory, piece: OpeningPiece
    ) -> None:
        """Create an offline replica, empty."""
        if not self._failures.may_be_created(replica):
            return
        try:
            created = await self._storage.in_thread_of(directory, self._opener.create_again, replica, config, directory)
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
            is_there = self._replica_directories.directory_of(replica.topic_partition) is not None
            if not is_there and self._partitions.find_offline(replica.id) is replica:
                delayed = replace(replica, damage=Damage.NOT_CREATED, log_directory=None, reason=no_room(failure))
                self._partitions.take_offline(delayed)


def _empty_piece() -> OpeningPiece:
    return OpeningPiece(opened=[], created=[], again=[])
