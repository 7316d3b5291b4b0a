"""The replication machines, each with one guard removed, to show that the guard is needed."""

from __future__ import annotations

from msgspec.structs import replace

from kraft.metadata.image import PartitionImage
from kraft.model.errors import ErrorCode
from kraft.model.ids import BrokerId, Offset, PartitionEpoch
from kraft.model.replica_fetch import ReplicaFetchResult
from kraft.replication.effects import FollowerEffect, LeaderEffect
from kraft.replication.follower import FetchPosition, PartitionFollower
from kraft.replication.follower_progress import FollowerProgress
from kraft.replication.leader import PartitionLeader


class TrustsThePageCache(PartitionLeader):
    """Counts its own records as soon as they are appended."""

    def appended(self, log_end: Offset) -> list[LeaderEffect]:
        return [*super().appended(log_end), *self.synced(log_end)]


class JoinsWithoutEpochStart(PartitionLeader):
    """Lets a follower join at the high watermark, wherever this leader epoch began."""

    def _may_join(self, follower: FollowerProgress) -> bool:
        return follower.durable_end >= self._log.high_watermark


class JoinsWithoutHighWatermark(PartitionLeader):
    """Lets a follower join that has all records of earlier epochs, even if it lacks committed ones of this epoch."""

    def _may_join(self, follower: FollowerProgress) -> bool:
        return follower.durable_end >= self._log.epoch_start


class CommitsBelowMinimumIsr(PartitionLeader):
    """Commits even if the ISR is smaller than min.insync.replicas."""

    @property
    def below_minimum_isr(self) -> bool:
        return False


class WaitsForTheCommittedIsrOnly(PartitionLeader):
    """Does not wait for a replica whose joining was proposed and may have been applied."""

    @property
    def maximal_isr(self) -> frozenset[BrokerId]:
        return frozenset(self.isr)

    def _is_caught_up(self, follower: FollowerProgress) -> bool:
        return follower.broker_id in self.isr and super()._is_caught_up(follower)


class ForgetsRefusedReplicas(PartitionLeader):
    """Takes a refusal of the latest attempt for the end of all earlier ones."""

    def _refused(self, error_code: ErrorCode) -> None:
        super()._refused(error_code)
        if error_code is ErrorCode.INELIGIBLE_REPLICA:
            self._delay_joining()
            self._proposal = None


class TakesLateAnswers(PartitionFollower):
    """Acts on every answer, even if its log has changed since the request."""

    def answered(self, asked: FetchPosition, result: ReplicaFetchResult) -> list[FollowerEffect]:
        return super().answered(self._position(), result)


class BelievesOldStates(PartitionLeader):
    """Applies every partition state, even one with an old partition epoch."""

    def _commit(self, state: PartitionImage) -> list[LeaderEffect]:
        effects = super()._commit(state)
        self._state = replace(self._state, partition_epoch=PartitionEpoch(0))
        return effects
