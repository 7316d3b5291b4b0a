"""What a broker does about disks that fail and replicas that rot.

Two kinds of failure are told apart. A log directory that failed takes all its replicas with it, for good: nothing is
written to it again in this process. A replica that is damaged or missing goes offline alone.

Either way the active controller is told, again and again until the metadata shows that it acted: this broker leaves the
ISR and somebody else leads. Then a damaged replica is not needed any more, and may be replaced by a fresh copy of the
leader's. Where this broker was the last one in sync nobody has all that was acknowledged, so the replica stays as it
is, for people to judge.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import structlog

from kraft.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionImage
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.fail_replicas import FailedReplica, FailReplicasRequest
from kraft.model.ids import TopicIdPartition
from kraft.rpc.cluster_calls import FAIL_REPLICAS
from kraft.server.cluster.controller_client import ControllerClient, NoController
from kraft.server.cluster.own_registration import OwnRegistration
from kraft.server.replica.partition import Partition
from kraft.server.replica.partitions import Damage, OfflineReplica, Partitions
from kraft.server.replica.storage import ReplicaStorage
from kraft.server.replica.store import DirectoryFailed

log = structlog.get_logger()

ATTEMPT_MAX_S: Final = 3.0
PAUSE_S: Final = 0.1
"""Between two reports, however much happens."""
REPEAT_AFTER_S: Final = 1.0
"""A report is repeated when the metadata has not shown for so long that it was acted on."""
REPLICAS_PER_REPORT: Final = 500


class ReplicaFailures:
    def __init__(
        self,
        *,
        registration: OwnRegistration,
        partitions: Partitions,
        storage: ReplicaStorage,
        indispensable: str | None,
        controllers: ControllerClient,
        fatal: Callable[[str], None],
    ) -> None:
        """`indispensable` is the log directory without which the node cannot be: the one with its metadata log."""
        self._registration = registration
        self._broker_id = registration.broker_id
        self._partitions = partitions
        self._storage = storage
        self._directories = storage.directories
        self._indispensable = indispensable
        self._controllers = controllers
        self._fatal = fatal
        self._image = EMPTY_IMAGE
        self._news = asyncio.Event()
        self._marked: set[TopicIdPartition] = set()
        self._told: set[TopicIdPartition] = set()

    # --- what is found ---------------------------------------------------------------------------------------

    def replica_is_corrupt(self, partition: Partition, reason: str) -> None:
        self._take_offline(partition, Damage.CORRUPT, reason)

    def partition_directory_failed(self, partition: Partition, reason: str) -> None:
        self.directory_failed(partition.log_directory, reason)

    def directory_failed(self, directory: str, reason: str) -> None:
        """Takes the directory and all replicas in it out of use; ends the node that cannot do without it."""
        if not self._directories.fail(directory, reason):
            return
        log.error(
            "log directory failed",
            directory=directory,
            reason=reason,
            left=list(self._directories.online),
            remedy="its replicas stay offline until the node is restarted with a working disk",
        )
        for partition in self._partitions:
            if partition.log_directory == directory:
                self._take_offline(partition, Damage.OUT_OF_REACH, reason)
        for replica in self._partitions.offline:
            if replica.log_directory == directory:
                self._partitions.take_offline(replace(replica, damage=Damage.OUT_OF_REACH, reason=reason))
        if directory == self._indispensable:
            self._fatal(f"log directory {directory}, which holds the metadata log, has failed: {reason}")
        elif not self._directories.online:
            self._fatal(f"log directory {directory} has failed, and there is no other: {reason}")

    def cannot_open(self, replica: OfflineReplica) -> None:
        """A replica that is assigned to this broker, and that it cannot take up."""
        if replica.damage is Damage.OUT_OF_REACH and replica.log_directory is None:
            log.error("replica unreachable", partition=str(replica.topic_partition), reason=replica.reason)
        else:
            self._tell(replica)
        self._partitions.take_offline(replica)
        self._news.set()

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
            files_in_use=partition.directory_in_use,
        )
        # Out of sight first: whoever wakes up when the partition retires looks for it again.
        self._partitions.take_offline(replica)
        partition.retire()
        self._told.discard(replica.id)
        self._marked.discard(replica.id)
        if damage is not Damage.OUT_OF_REACH:
            self._tell(replica)
        self._news.set()

    def _tell(self, replica: OfflineReplica) -> None:
        log.error(
            "replica taken offline",
            partition=str(replica.topic_partition),
            damage=replica.damage.name.lower(),
            reason=replica.reason,
        )

    # --- what the metadata says ------------------------------------------------------------------------------

    def metadata_changed(self, image: MetadataImage) -> list[OfflineReplica]:
        """Takes notice, and gives the replicas that are free to be begun anew: others have all they may have held."""
        self._image = image
        self._news.set()
        free = []
        for replica in self._partitions.offline:
            state = self._state(replica)
            if state is None:
                continue
            if self._is_free(replica, state):
                # From here on a mark might hit what is begun in its place.
                self._marked.add(replica.id)
                free.append(replica)
            elif self._is_last_in_sync(state):
                self._tell_that_it_is_the_last(replica, state)
        return free

    def _state(self, replica: OfflineReplica) -> PartitionImage | None:
        """None for a topic that is deleted, and when the replica was moved away."""
        topic = self._image.topics.get(replica.topic_id)
        state = None if topic is None else topic.partitions.get(replica.topic_partition.partition)
        return state if state is not None and self._broker_id in state.replicas else None

    def _is_free(self, replica: OfflineReplica, state: PartitionImage) -> bool:
        """Whether nobody counts on the old copy, nor can be brought to by what this broker sent while it had it."""
        return (
            replica.damage is not Damage.OUT_OF_REACH
            and state.has_leader
            and not state.counts_on(self._broker_id)
            and state.leader_epoch > replica.leader_epoch
        )

    def _is_last_in_sync(self, state: PartitionImage) -> bool:
        # With others that are eligible one of those takes its place; that is still to be done.
        return state.isr == (self._broker_id,) and not state.has_leader and not state.elr

    def _tell_that_it_is_the_last(self, replica: OfflineReplica, state: PartitionImage) -> None:
        if replica.id in self._told:
            return
        self._told.add(replica.id)
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
        """Reports to the controller until cancelled."""
        while True:
            self._news.clear()
            unheard = self._unheard()
            if unheard:
                await self._mark(unheard)
                await self._report(unheard[:REPLICAS_PER_REPORT])
                await asyncio.sleep(PAUSE_S)
            try:
                async with asyncio.timeout(REPEAT_AFTER_S if unheard else None):
                    await self._news.wait()
            except TimeoutError:
                continue

    def _unheard(self) -> list[OfflineReplica]:
        """The replicas of which the metadata does not show yet that the controller knows."""
        unheard = []
        for replica in self._partitions.offline:
            state = self._state(replica)
            if state is not None and not self._is_acted_on(replica, state):
                unheard.append(replica)
        return unheard

    def _is_acted_on(self, replica: OfflineReplica, state: PartitionImage) -> bool:
        if state.leader == self._broker_id or state.leader_epoch <= replica.leader_epoch:
            return False
        return not state.counts_on(self._broker_id) or self._is_last_in_sync(state)

    async def _mark(self, replicas: list[OfflineReplica]) -> None:
        """Before anybody is told: a process that starts after this one may not read as much as this one did."""
        for replica in replicas:
            if replica.damage is not Damage.CORRUPT or replica.log_directory is None or replica.id in self._marked:
                continue
            self._marked.add(replica.id)
            try:
                await self._storage.in_thread(
                    self._storage.store.mark_corrupt, replica.topic_partition, replica.log_directory, replica.reason
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
                f"restore {where} from a backup and start the node again (or delete the topic); "
                "nothing was cut off or removed, and 'kraft log verify' says what is damaged"
            )
        case Damage.MISSING:
            return "put its directory back into a log directory and start the node again, or delete the topic"
        case Damage.OUT_OF_REACH:
            return "repair the log directory or its disk and start the node again, or delete the topic"
