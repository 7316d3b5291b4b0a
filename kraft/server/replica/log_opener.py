"""Opens and creates the logs of replicas in threads, and finds what is lost."""

from __future__ import annotations

import structlog
from msgspec import Struct

from kraft.log.partition_log import PartitionLog
from kraft.log.topic_config import TopicConfig
from kraft.metadata.delta import AssignedPartition
from kraft.model.errors import Corruption
from kraft.model.ids import NO_LEADER_EPOCH, LogDirectory, Offset, TopicId
from kraft.server.cluster.own_registration import OwnRegistration
from kraft.server.replica.high_watermarks import HighWatermarks
from kraft.server.replica.partitions import Damage, OfflineReplica
from kraft.server.replica.replica_directories import DirectoryFailed
from kraft.server.replica.replica_storage import ReplicaStorage

log = structlog.get_logger()


class OpenedLog(Struct, frozen=True, kw_only=True):
    """An opened log. `high_watermark` comes from the checkpoint; `is_new`: the log begins empty."""

    topic_id: TopicId
    log: PartitionLog
    directory: LogDirectory
    high_watermark: Offset | None
    is_new: bool

    @property
    def lacks_committed_records(self) -> bool:
        return self.high_watermark is not None and self.high_watermark > self.log.log_end_offset


class LogOpener:
    """Opens one log after the other. Its methods block on the disk."""

    def __init__(
        self,
        storage: ReplicaStorage,
        registration: OwnRegistration,
        high_watermarks: HighWatermarks,
        *,
        sync_before_ack: bool,
    ) -> None:
        """`high_watermarks` are those of the checkpoints at the start."""
        self._replica_directories = storage.replica_directories
        self._directories = storage.directories
        self._registration = registration
        self._high_watermarks = high_watermarks
        self._sync_before_ack = sync_before_ack

    def open(
        self, assigned: AssignedPartition, config: TopicConfig, place: LogDirectory | None
    ) -> OpenedLog | OfflineReplica:
        """Open one log; a new one in `place`, if there is room, or anywhere at the start."""
        name, topic_id = assigned.topic_partition, assigned.topic_id
        try:
            is_new = not self._replica_directories.holds(name, topic_id)
            lost = self._loss_of(assigned) if is_new and place is None else None
            if lost is not None:
                return self._offline(assigned, *lost, None)
            opened = self._replica_directories.open(name, topic_id, config, place)
        except Corruption as corruption:
            return self._offline(
                assigned, Damage.CORRUPT, str(corruption), self._replica_directories.directory_of(name)
            )
        except DirectoryFailed as failure:
            if failure.is_full and self._replica_directories.directory_of(name) is None:
                return self._offline(assigned, Damage.NOT_CREATED, no_room(failure), None)
            return self._offline(assigned, Damage.UNREACHABLE, str(failure), failure.directory)
        directory = _log_directory_of(opened)
        high_watermark = self._high_watermarks.take(name, directory)
        found = OpenedLog(
            topic_id=topic_id, log=opened, directory=directory, high_watermark=high_watermark, is_new=is_new
        )
        if found.lacks_committed_records and not is_new and assigned.state.counts_on(self._registration.broker_id):
            reason = f"the log ends at offset {opened.log_end_offset}, but was committed up to {found.high_watermark}"
            log.error("committed records missing", partition=str(name), reason=reason)
            # Records that were acknowledged before a sync may be lost in a power failure.
            if self._sync_before_ack:
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

    def create_again(self, replica: OfflineReplica, config: TopicConfig, place: LogDirectory) -> OpenedLog:
        """Quarantine the damaged log, if any, and create an empty one."""
        if replica.log_directory is not None:
            with replica.files_in_use:
                self._replica_directories.quarantine(replica.topic_partition, replica.log_directory)
        created = self._replica_directories.open(replica.topic_partition, replica.topic_id, config, place)
        return OpenedLog(
            topic_id=replica.topic_id,
            log=created,
            directory=_log_directory_of(created),
            high_watermark=None,
            is_new=True,
        )

    def remove_created(self, replica: OfflineReplica, directory: LogDirectory) -> None:
        """Remove the directory of a new replica."""
        with replica.files_in_use:
            self._replica_directories.undo_creation(replica.topic_partition, directory)


def _log_directory_of(opened: PartitionLog) -> LogDirectory:
    return LogDirectory(opened.directory.rpartition("/")[0])


def no_room(error: object) -> str:
    """Return the reason why a replica could not be created on a full disk."""
    return f"no room on the disk to create it, which is tried again: {error}"
