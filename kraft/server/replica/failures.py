"""Handles failed log directories and corrupt replicas of a broker.

There are two kinds of failure. A failed log directory takes all its replicas offline: nothing is written to it again in
this process. A corrupt or missing replica goes offline alone, and so does a new one for which there is no room on the
disk.

They are reported to the active controller, repeatedly, until the metadata shows the result: this broker has left the
ISR and another one leads. Then a corrupt replica is not needed any more, and is replaced by a new copy of the leader's
log. If this broker was the last one in the ISR, no other replica has all acknowledged records, so this replica stays as
it is, and an operator decides. Of a new replica that is alone in the ISR nothing is reported: it leads as soon as there
is room for it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

import structlog

from kraft.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionImage
from kraft.model.callbacks import Fatal
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.fail_replicas import FailedReplica, FailReplicasRequest
from kraft.model.ids import LogDirectory, TopicIdPartition
from kraft.rpc.cluster_calls import FAIL_REPLICAS
from kraft.server.cluster.controller_client import ControllerClient, NoController
from kraft.server.cluster.own_registration import OwnRegistration
from kraft.server.replica.partition import Partition
from kraft.server.replica.partitions import Damage, OfflineReplica, Partitions
from kraft.server.replica.replica_directories import DirectoryFailed
from kraft.server.replica.replica_storage import ReplicaStorage

log = structlog.get_logger()

ATTEMPT_MAX_S: Final = 3.0
PAUSE_S: Final = 0.1
"""Pause between two reports."""
REPEAT_AFTER_S: Final = 1.0
"""A report is repeated if the metadata does not show its result within this time."""
REPLICAS_PER_REPORT: Final = 500

_DISK_REMEDY: Final = (
    "repair or replace the disk, format a directory that is new or empty with 'kraft storage format', restart the node"
)


class ReplicaFailures:
    """Takes failed replicas offline and reports them until `run` is cancelled."""

    def __init__(
        self,
        *,
        registration: OwnRegistration,
        partitions: Partitions,
        storage: ReplicaStorage,
        indispensable: LogDirectory | None,
        controllers: ControllerClient,
        fatal: Fatal,
    ) -> None:
        """`indispensable` is the log directory that the node cannot run without: the one with its metadata log."""
        self._registration = registration
        self._broker_id = registration.broker_id
        self._partitions = partitions
        self._storage = storage
        self._directories = storage.directories
        self._indispensable = indispensable
        self._controllers = controllers
        self._fatal = fatal
        self._image = EMPTY_IMAGE
        self._changed = asyncio.Event()
        self._marked: set[TopicIdPartition] = set()
        self._logged_as_last: set[TopicIdPartition] = set()

    # --- failures --------------------------------------------------------------------------------------------

    def replica_is_corrupt(self, partition: Partition, reason: str) -> None:
        self._take_offline(partition, Damage.CORRUPT, reason)

    def partition_directory_failed(self, partition: Partition, reason: str) -> None:
        self.directory_failed(partition.log_directory, reason)

    def directory_failed(self, directory: LogDirectory, reason: str) -> None:
        """Take the directory and all its replicas offline; stop the node if it cannot run without the directory."""
        if not self._directories.fail(directory, reason):
            return
        log.error(
            "log directory failed",
            directory=directory,
            reason=reason,
            online=list(self._directories.online),
            remedy=f"{_DISK_REMEDY}; until then its replicas stay offline",
        )
        for partition in self._partitions:
            if partition.log_directory == directory:
                self._take_offline(partition, Damage.UNREACHABLE, reason)
        for replica in self._partitions.offline:
            if replica.log_directory == directory:
                self._partitions.take_offline(replace(replica, damage=Damage.UNREACHABLE, reason=reason))
        if directory == self._indispensable:
            self._fatal(f"log directory {directory}, which has the metadata log, has failed: {reason}: {_DISK_REMEDY}")
        elif not self._directories.online:
            self._fatal(f"log directory {directory} has failed, and no other one is online: {reason}: {_DISK_REMEDY}")

    def cannot_open(self, replica: OfflineReplica) -> None:
        """Take an assigned replica offline that cannot be opened."""
        if replica.damage is Damage.UNREACHABLE and replica.log_directory is None:
            log.error("replica unreachable", partition=str(replica.topic_partition), reason=replica.reason)
        else:
            self._log_offline(replica)
        self._partitions.take_offline(replica)
        self._changed.set()

    def cannot_create(self, partition: Partition, reason: str) -> OfflineReplica | None:
        """Take a new replica without records offline, for which there is no room on the disk after all.

        Return None if it is offline already. Its directory is still there.
        """
        self._take_offline(partition, Damage.NOT_CREATED, reason)
        replica = self._partitions.find_offline(partition.id)
        return replica if replica is not None and replica.damage is Damage.NOT_CREATED else None

    def _take_offline(self, partition: Partition, damage: Damage, reason: str) -> None:
        if self._partitions.find(partition.id) is not partition:
            return
        replica = OfflineReplica(
            topic_partition=partition.topic_partition,
            topic_id=partition.topic_id,
            leader_epoch=partition.leader_epoch,
            damage=damage,
            reason=reason,
            log_directory=partition.log_directory,
            high_watermark=partition.high_watermark,
            files_in_use=partition.replica_log.directory_in_use,
        )
        # First remove it from `Partitions`: tasks that wake up when the partition retires look for it again.
        self._partitions.take_offline(replica)
        partition.retire()
        self._logged_as_last.discard(replica.id)
        self._marked.discard(replica.id)
        if damage is not Damage.UNREACHABLE:
            self._log_offline(replica)
        self._changed.set()

    def _log_offline(self, replica: OfflineReplica) -> None:
        log.error(
            "replica taken offline",
            partition=str(replica.topic_partition),
            damage=replica.damage.name.lower(),
            reason=replica.reason,
        )

    # --- metadata --------------------------------------------------------------------------------------------

    def metadata_changed(self, image: MetadataImage) -> list[OfflineReplica]:
        """Note the new metadata. Return the lost replicas that may be created again from their leader's log."""
        self._image = image
        self._changed.set()
        free = []
        for replica in self._partitions.offline:
            state = self._state(replica)
            if state is None:
                continue
            if self._may_be_recreated(replica, state):
                # Not marked from now on: the mark could be written into the new replica's directory.
                self._marked.add(replica.id)
                free.append(replica)
            elif self._is_last_in_sync(state):
                self._log_last_in_sync(replica, state)
        return free

    def _state(self, replica: OfflineReplica) -> PartitionImage | None:
        """Return the partition's state; None if the topic is deleted or the replica was reassigned."""
        state = self._image.partition_by_id(replica.topic_id, replica.topic_partition.partition)
        return state if state is not None and self._broker_id in state.replicas else None

    def may_be_created(self, replica: OfflineReplica) -> bool:
        """Return whether the replica may be created, empty, as the latest metadata is."""
        state = self._state(replica)
        if state is None:
            return False
        return replica.damage is Damage.NOT_CREATED or self._may_be_recreated(replica, state)

    def _may_be_recreated(self, replica: OfflineReplica, state: PartitionImage) -> bool:
        """Return whether the metadata no longer counts on the old copy.

        The leader epoch is later than the last one in which this broker used the copy, so that no earlier request of
        this broker can bring it back into the ISR.
        """
        return (
            replica.damage in (Damage.CORRUPT, Damage.MISSING)
            and state.has_leader
            and not state.counts_on(self._broker_id)
            and state.leader_epoch > replica.leader_epoch
        )

    def _is_last_in_sync(self, state: PartitionImage) -> bool:
        # If there are eligible leader replicas, the controller will elect one of them.
        return state.isr == (self._broker_id,) and not state.has_leader and not state.elr

    def _log_last_in_sync(self, replica: OfflineReplica, state: PartitionImage) -> None:
        if replica.id in self._logged_as_last:
            return
        self._logged_as_last.add(replica.id)
        others = [broker_id for broker_id in state.replicas if broker_id != self._broker_id]
        log.error(
            "partition offline, last in-sync replica unusable",
            partition=str(replica.topic_partition),
            damage=replica.damage.name.lower(),
            reason=replica.reason,
            remedy=_remedy(replica),
            replicas_that_lack_records=others,
        )

    # --- reports ---------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Report to the controller until cancelled."""
        while True:
            self._changed.clear()
            unsettled = self._unsettled()
            if unsettled:
                await self._mark(unsettled)
                await self._report(unsettled[:REPLICAS_PER_REPORT])
                await asyncio.sleep(PAUSE_S)
            try:
                async with asyncio.timeout(REPEAT_AFTER_S if unsettled else None):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _unsettled(self) -> list[OfflineReplica]:
        """Return the offline replicas whose failure the metadata does not show yet."""
        unsettled = []
        for replica in self._partitions.offline:
            state = self._state(replica)
            if state is not None and not self._is_settled(replica, state):
                unsettled.append(replica)
        return unsettled

    def _is_settled(self, replica: OfflineReplica, state: PartitionImage) -> bool:
        if replica.damage is Damage.NOT_CREATED and state.isr == (self._broker_id,) and not state.elr:
            # No other broker could lead, and after a report this one would not lead before its next start.
            return True
        if state.leader == self._broker_id or state.leader_epoch <= replica.leader_epoch:
            return False
        return not state.counts_on(self._broker_id) or self._is_last_in_sync(state)

    async def _mark(self, replicas: list[OfflineReplica]) -> None:
        """Mark corrupt replicas on the disk before the report: the next process may not read the corrupt bytes."""
        for replica in replicas:
            if replica.damage is not Damage.CORRUPT or replica.log_directory is None or replica.id in self._marked:
                continue
            self._marked.add(replica.id)
            try:
                await self._storage.in_thread_of(
                    replica.log_directory,
                    self._storage.replica_directories.mark_corrupt,
                    replica.topic_partition,
                    replica.log_directory,
                    replica.reason,
                )
            except DirectoryFailed as failure:
                self.directory_failed(failure.directory, str(failure))

    async def _report(self, replicas: list[OfflineReplica]) -> None:
        request = FailReplicasRequest(
            broker_id=self._broker_id,
            broker_epoch=self._registration.broker_epoch,
            replicas=[
                FailedReplica(
                    topic_id=replica.topic_id,
                    partition=replica.topic_partition.partition,
                    leader_epoch=replica.leader_epoch,
                )
                for replica in replicas
            ],
        )
        try:
            result = await self._controllers.call(FAIL_REPLICAS, request, ATTEMPT_MAX_S)
        except (NoController, Refusal) as error:
            log.warning("replica failure report delayed", replicas=len(replicas), reason=str(error))
            return
        if result.error_code is not ErrorCode.NONE:
            reason = f"{result.error_code.name}: {result.error_message}"
            log.warning("replica failure report delayed", replicas=len(replicas), reason=reason)


def _remedy(replica: OfflineReplica) -> str:
    where = f"{replica.log_directory}/{replica.topic_partition}"
    match replica.damage:
        case Damage.CORRUPT:
            return (
                f"restore {where} from a backup and restart the node, or delete the topic; "
                "nothing was removed, and 'kraft log verify' lists the damage"
            )
        case Damage.MISSING:
            return "put its directory back into a log directory and restart the node, or delete the topic"
        case Damage.NOT_CREATED:
            return "free space on the disk; restart the node if the partition has no leader after that"
        case Damage.UNREACHABLE:
            return "repair the log directory or its disk and restart the node, or delete the topic"
