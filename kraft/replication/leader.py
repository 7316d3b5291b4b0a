"""The leader of one partition in one leader epoch: maintains the ISR and the high watermark.

A record is committed when every in-sync replica has it on disk, this one included; the high watermark is the end
of the committed records. Three rules keep committed records safe in every election from the ISR:

- the leader waits for every replica that may be in the ISR. Between a proposal and its outcome the high watermark is
  computed over the committed ISR and the proposed one together (KIP-497's maximal ISR). Only a state of the partition
  in a newer partition epoch is an outcome: until then an earlier copy of the request may still be applied, even if a
  later one was refused;
- a follower joins the ISR only at or past both the high watermark and the start of this leader epoch. A new leader's
  high watermark lags, so the records that earlier leaders committed may end anywhere below that start (KAFKA-7128);
- below the minimum ISR, and while the metadata has eligible leader replicas outside the ISR, nothing is committed at
  all, so that the last replica may lose its unsynced tail, or not return, without the loss of acknowledged records
  (KIP-966).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from msgspec import Struct
from msgspec.structs import replace

from kraft.metadata.image import PartitionImage
from kraft.model.alter_partition import AlterPartitionResult, IsrMember
from kraft.model.callbacks import BrokerCondition
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionEpoch, TopicId
from kraft.model.produce import ACKS_ALL
from kraft.replication.effects import HighWatermarkAdvanced, IsrChanged, LeaderEffect, ProposeIsr
from kraft.replication.follower_progress import UNKNOWN_OFFSET, FollowerProgress, FollowerState

_WAIT_FOR_METADATA = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Refusals of a proposal that mean: the partition has changed, and this broker has yet to receive the new metadata."""

_JOINER_STANDSTILL_MAX_MS = 1_000
"""The leader does not wait for a follower outside the ISR that has got no further for this long. While records arrive,
a live follower fetches, and has more each time. One that was fenced, caught up and then died would otherwise stop the
high watermark for its whole lag time, because its death changes no ISR and so the leader receives no metadata about it;
so would one that came back soon, with a disk that is full: it fetches the same offset again and again."""


@dataclass(slots=True, kw_only=True)
class _Proposal:
    """A proposed ISR without an outcome yet; `resend_at_ms` is None when only newer metadata can bring it."""

    attempt: int
    isr: tuple[BrokerId, ...]
    resend_at_ms: int | None


class LogState(Struct, frozen=True, kw_only=True):
    """A replica's log when it becomes leader. Everything below `high_watermark` is known to be committed."""

    start: Offset
    end: Offset
    durable_end: Offset
    high_watermark: Offset

    def __post_init__(self) -> None:
        assert self.start <= self.durable_end <= self.end, f"{self} is out of order"


@dataclass(slots=True, kw_only=True)
class _Log:
    """The leader's own log. Invariant: start <= high_watermark <= end, and durable_end <= end."""

    start: Offset
    durable_end: Offset
    """Everything below it is on this broker's disk."""

    end: Offset
    """End of the records that are in the log, and soon on the disk."""

    epoch_start: Offset
    """Log end when this leader was elected; it never changes."""

    high_watermark: Offset
    """Everything below it is committed; it never goes down. At first it is what this broker learned as a follower, or
    read from its checkpoint: it may be behind the real one, never ahead of it."""


class LeaderSettings(Struct, frozen=True, kw_only=True):
    min_insync_replicas: int
    replica_lag_time_max_ms: int
    alter_partition_timeout_ms: int = 5_000
    retry_backoff_ms: int = 500


class PartitionLeader:
    """Owns ISR and high watermark of a partition that this broker leads.

    A broker that registers again gets a new leader epoch, and with it a new machine. Invariants: the high watermark
    never goes down; at most one proposal is in flight; committed state only moves to a higher partition epoch.
    """

    def __init__(
        self,
        state: PartitionImage,
        log: LogState,
        settings: LeaderSettings,
        *,
        topic_id: TopicId,
        broker_id: BrokerId,
        broker_epoch: BrokerEpoch,
        now_ms: int,
        is_active: BrokerCondition,
    ) -> None:
        """`state` comes from the metadata and has this broker as the leader.

        `is_active` returns True for a broker that is neither fenced nor shutting down in this broker's metadata; the
        controller accepts no other broker in an ISR. It is called whenever a follower might join.
        """
        assert broker_id in state.isr, f"broker {broker_id} leads without being in the ISR {state.isr}"
        self.topic_id = topic_id
        self.broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._is_active = is_active
        self._settings = settings
        self._state = state
        """The committed state of the partition: that of the highest partition epoch which the controller sent."""
        self._log = _Log(
            start=log.start,
            durable_end=log.durable_end,
            end=log.end,
            epoch_start=log.end,
            high_watermark=Offset(min(max(log.high_watermark, log.start), log.end)),
        )
        self._followers: dict[BrokerId, FollowerProgress] = {}
        """The progress of every other replica of `_state`, in its order."""
        self._proposal: _Proposal | None = None
        """The ISR that the controller was asked for in this partition epoch, until there is an outcome."""
        self._attempts = 0
        """Number of the latest `ProposeIsr`; the response to an earlier one is not the outcome of this one."""
        self._no_expansion_before_ms = now_ms
        """Time until which no follower is proposed, after a refusal; only a fetch since then makes one join."""
        self._now_ms = now_ms
        """Largest time of an event: it never goes back."""
        self._track_followers()
        for broker in state.isr:
            if broker != broker_id:
                # The in-sync replicas need time to receive the metadata of their new leader and fetch from it.
                self._followers[broker].joined_isr(now_ms)

    # --- queries ---------------------------------------------------------------------------------------------

    @property
    def high_watermark(self) -> Offset:
        """End of the records that this leader knows to be committed."""
        return self._log.high_watermark

    @property
    def isr(self) -> tuple[BrokerId, ...]:
        """The committed ISR: the latest one from the controller."""
        return self._state.isr

    @property
    def maximal_isr(self) -> frozenset[BrokerId]:
        """Every replica that may be in the ISR: those of the committed ISR and of the proposed one."""
        proposed = self._proposal.isr if self._proposal is not None else ()
        return frozenset(self._state.isr).union(proposed)

    @property
    def low_watermark(self) -> Offset:
        """Smallest log start of the replicas that may be in the ISR; -1 until each of them has fetched once."""
        maximal_isr = self.maximal_isr
        followers = (each for each in self._followers.values() if each.broker_id in maximal_isr)
        return min([self._log.start, *(follower.log_start for follower in followers)])

    def empty_start_max(self, broker_id: BrokerId) -> Offset:
        """Return the largest offset at which this follower's log may begin, empty, after records that are kept here.

        A replica that may be in the ISR, or is in the ELR, had everything when this epoch began; what its log lacks was
        deleted by an earlier leader, or by its own retention. Any other may have begun there under a leader that an
        unclean election replaced: it lacks what was written below since, and must not join, or lead, without it.
        """
        proposed = self._proposal.isr if self._proposal is not None else ()
        is_trusted = broker_id in self._state.isr or broker_id in self._state.elr or broker_id in proposed
        return self._log.epoch_start if is_trusted else Offset(0)

    @property
    def leader_epoch(self) -> LeaderEpoch:
        return self._state.leader_epoch

    @property
    def partition_epoch(self) -> PartitionEpoch:
        return self._state.partition_epoch

    @property
    def epoch_start_offset(self) -> Offset:
        """Log end when this leader was elected."""
        return self._log.epoch_start

    @property
    def below_minimum_isr(self) -> bool:
        """True while there is an ELR, or the committed ISR lacks a replica and is smaller than min.insync.replicas.

        The controller may have another minimum, from its own file or because this broker has yet to receive a new one.
        While there is an ELR the ISR is below the controller's minimum, and the replicas in the ELR must keep holding
        every committed record.
        """
        state, in_sync = self._state, len(self._state.isr)
        return bool(state.elr) or (in_sync < self._settings.min_insync_replicas and in_sync < len(state.replicas))

    def check_produce(self, acks: int) -> None:
        """Raise Refusal NOT_ENOUGH_REPLICAS for acks=all while the ISR is below its minimum."""
        if acks == ACKS_ALL and self.below_minimum_isr:
            raise Refusal(ErrorCode.NOT_ENOUGH_REPLICAS, self._shortage())

    def acks_result(self, required_offset: Offset) -> ErrorCode | None:
        """Return the outcome of an acks=all produce that ends at `required_offset`; None: it still waits.

        NOT_ENOUGH_REPLICAS_AFTER_APPEND when the ISR shrank below its minimum before the records were committed:
        they stay in the log and may be committed later.
        """
        if self._log.high_watermark >= required_offset:
            return ErrorCode.NONE
        return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND if self.below_minimum_isr else None

    def followers(self) -> list[FollowerState]:
        """Return the state of every other replica, in the order of the assignment."""
        return [self._described(follower) for follower in self._followers.values()]

    def lagging(self, now_ms: int, lag_ms_min: int) -> list[FollowerState]:
        """Return the followers that are not in the ISR, and those that have lacked records for `lag_ms_min`."""
        if len(self._state.isr) == len(self._state.replicas) and self._log.high_watermark == self._log.end:
            # Every replica has everything, as in nearly every partition at nearly every time.
            return []
        return [
            self._described(follower)
            for follower in self._followers.values()
            if follower.broker_id not in self._state.isr
            or not follower.is_caught_up(leader_end=self._log.end, now_ms=now_ms, lag_time_max_ms=lag_ms_min)
        ]

    def awaited(self, required_offset: Offset) -> list[FollowerState]:
        """Return the followers for which an acks=all produce that ends at `required_offset` waits.

        Below the minimum ISR these are the ones that are not in the ISR: it waits until they are.
        """
        if self._log.high_watermark >= required_offset:
            return []
        if self.below_minimum_isr:
            return [each for each in self.followers() if not each.in_isr]
        return [self._described(each) for each in self._awaited_followers() if each.durable_end < required_offset]

    def _described(self, follower: FollowerProgress) -> FollowerState:
        return follower.state(in_isr=follower.broker_id in self._state.isr)

    # --- events of the local log -----------------------------------------------------------------------------

    def start(self) -> list[LeaderEffect]:
        """Begin to lead; call it once. If this is the only in-sync replica, its synced records are committed now."""
        return self._advance()

    def appended(self, log_end: Offset) -> list[LeaderEffect]:
        """Set the local log end. Nothing is committed by this: only synced records count."""
        assert log_end >= self._log.end, f"a leader's log went back from {self._log.end} to {log_end}"
        self._log.end = log_end
        return []

    def synced(self, durable_end: Offset) -> list[LeaderEffect]:
        """Set the local durable end: everything below it is on this broker's disk."""
        assert durable_end <= self._log.end, f"synced to {durable_end}, past the log end {self._log.end}"
        self._log.durable_end = max(self._log.durable_end, durable_end)
        return self._advance()

    def log_start_advanced(self, log_start: Offset) -> None:
        """Set the local log start, after retention or DeleteRecords."""
        assert self._log.start <= log_start <= self._log.high_watermark, f"a log start at {log_start}"
        self._log.start = log_start

    # --- events from followers and the clock -----------------------------------------------------------------

    def follower_fetched(
        self,
        broker_id: BrokerId,
        broker_epoch: BrokerEpoch,
        fetch_offset: Offset,
        now_ms: int,
        log_start: Offset = UNKNOWN_OFFSET,
    ) -> list[LeaderEffect]:
        """Handle a follower's fetch from `fetch_offset`: everything below it is on that replica's disk.

        Call it only for a fetch that `check_follower_fetch` accepted. Raises Refusal UNKNOWN_LEADER_EPOCH for a
        broker that is not a replica (it may have newer metadata), STALE_BROKER_EPOCH for a fetch from an earlier
        process of the broker, OFFSET_OUT_OF_RANGE.
        """
        follower = self._followers.get(broker_id)
        if follower is None:
            raise Refusal(
                ErrorCode.UNKNOWN_LEADER_EPOCH, f"broker {broker_id} is not a replica in {self._state.replicas}"
            )
        if broker_epoch < follower.broker_epoch:
            raise Refusal(
                ErrorCode.STALE_BROKER_EPOCH,
                f"broker {broker_id} has registered again since broker epoch {broker_epoch}",
            )
        if fetch_offset > self._log.end:
            raise Refusal(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {fetch_offset} is past the log end {self._log.end}")
        self._advance_clock(now_ms)
        follower.fetched(
            broker_epoch=broker_epoch, fetch_offset=fetch_offset, leader_end=self._log.end, now_ms=self._now_ms
        )
        follower.log_start = log_start
        # First the proposal, then the high watermark: from the proposal on it must wait for the replica.
        return [*self._expand(follower), *self._advance()]

    def tick(self, now_ms: int, without_room: BrokerId | None = None) -> list[LeaderEffect]:
        """Remove followers that lag for too long from the ISR; resend a proposal whose answer is overdue.

        A follower `without_room` for what it lacks lags from now on, if enough others are in the ISR.
        """
        self._advance_clock(now_ms)
        if not self._followers and self._proposal is None:
            return self._advance()
        if without_room in self._state.isr and len(self._state.isr) > self._settings.min_insync_replicas:
            self._followers[without_room].left_isr()
        effects: list[LeaderEffect] = []
        if self._proposal is None:
            remaining = tuple(broker for broker in self._state.isr if not self._is_lagging(broker))
            if remaining != self._state.isr:
                effects.append(self._propose(remaining))
        elif self._proposal.resend_at_ms is not None and self._now_ms >= self._proposal.resend_at_ms:
            effects.append(self._propose(self._proposal.isr))
        return [*effects, *self._advance()]

    # --- events from the controller --------------------------------------------------------------------------

    def partition_changed(self, state: PartitionImage) -> list[LeaderEffect]:
        """Apply a new state of the partition in the same leader epoch. An older state is ignored."""
        if state.partition_epoch <= self._state.partition_epoch:
            return []
        return self._commit(state)

    def alter_partition_answered(self, attempt: int, answer: AlterPartitionResult) -> list[LeaderEffect]:
        """Handle the controller's response to `ProposeIsr` number `attempt`.

        Late responses are recognized: a state by its epochs, a refusal by its attempt. INELIGIBLE_REPLICA comes with
        the partition's state after the refusal.
        """
        is_latest = self._proposal is not None and attempt == self._proposal.attempt
        is_of_this_epoch = answer.leader_epoch == self._state.leader_epoch
        is_newer = is_of_this_epoch and answer.partition_epoch > self._state.partition_epoch
        is_same = is_of_this_epoch and answer.partition_epoch == self._state.partition_epoch
        if answer.error_code is ErrorCode.NONE:
            is_outcome = is_newer or (is_same and is_latest)
        else:
            is_outcome = is_newer and answer.error_code is ErrorCode.INELIGIBLE_REPLICA
        if is_outcome:
            isr, elr = tuple(answer.isr), tuple(answer.elr)
            return self._commit(replace(self._state, isr=isr, elr=elr, partition_epoch=answer.partition_epoch))
        if is_latest and answer.error_code is not ErrorCode.NONE:
            self._refused(answer.error_code)
            return self._advance()
        return []

    def min_insync_changed(self, min_insync_replicas: int) -> list[LeaderEffect]:
        """Apply a new min.insync.replicas of the topic."""
        if min_insync_replicas == self._settings.min_insync_replicas:
            return []
        self._settings = replace(self._settings, min_insync_replicas=min_insync_replicas)
        return [IsrChanged(), *self._advance()]

    # --- rules -----------------------------------------------------------------------------------------------

    def _may_join(self, follower: FollowerProgress) -> bool:
        return follower.durable_end >= max(self._log.high_watermark, self._log.epoch_start)

    def _is_lagging(self, broker_id: BrokerId) -> bool:
        return broker_id != self.broker_id and not self._is_caught_up(self._followers[broker_id])

    def _is_caught_up(self, follower: FollowerProgress) -> bool:
        return follower.is_caught_up(
            leader_end=self._log.end, now_ms=self._now_ms, lag_time_max_ms=self._settings.replica_lag_time_max_ms
        )

    def _awaited_followers(self) -> Iterable[FollowerProgress]:
        """Yield the followers that must have a record before it is committed."""
        maximal_isr = self.maximal_isr
        for follower in self._followers.values():
            # The leader waits for a follower that keeps up even before it is in the ISR. Otherwise a leader alone in
            # its ISR would advance the high watermark with every sync, ahead of each fetch, and no follower could join.
            if follower.broker_id in maximal_isr or self._is_about_to_join(follower):
                yield follower

    def _is_about_to_join(self, follower: FollowerProgress) -> bool:
        fetched_ms = follower.last_fetch_ms
        if fetched_ms is None or self._now_ms - follower.advanced_ms > _JOINER_STANDSTILL_MAX_MS:
            return False
        # The leader does not wait for a broker that it may not propose: one in a controlled shutdown is fenced, and
        # fetches, caught up, until it stops. If the leader waited for it, every producer would pause when it is gone.
        may_be_proposed = fetched_ms >= self._no_expansion_before_ms and self._is_active(follower.broker_id)
        return may_be_proposed and self._is_caught_up(follower)

    def _advance(self) -> list[LeaderEffect]:
        if self.below_minimum_isr:
            return []
        committed = self._log.durable_end
        if self._followers:
            committed = min([committed, *(follower.durable_end for follower in self._awaited_followers())])
        if committed <= self._log.high_watermark:
            return []
        self._log.high_watermark = committed
        return [HighWatermarkAdvanced(high_watermark=committed)]

    # --- proposals -------------------------------------------------------------------------------------------

    def _expand(self, follower: FollowerProgress) -> list[LeaderEffect]:
        if self._proposal is not None or follower.broker_id in self._state.isr:
            return []
        if self._now_ms < self._no_expansion_before_ms or not self._may_join(follower):
            return []
        if not self._is_active(follower.broker_id):
            # The leader would wait for the replica of a proposal that is certain to be refused, and for long if it is
            # the controller's node that shuts down.
            return []
        return [self._propose((*self._state.isr, follower.broker_id))]

    def _propose(self, isr: tuple[BrokerId, ...]) -> ProposeIsr:
        self._attempts += 1
        self._proposal = _Proposal(
            attempt=self._attempts, isr=isr, resend_at_ms=self._now_ms + self._settings.alter_partition_timeout_ms
        )
        return ProposeIsr(
            attempt=self._attempts,
            leader_epoch=self._state.leader_epoch,
            partition_epoch=self._state.partition_epoch,
            isr=tuple(IsrMember(broker_id=broker, broker_epoch=self._broker_epoch_of(broker)) for broker in isr),
        )

    def _refused(self, error_code: ErrorCode) -> None:
        assert self._proposal is not None
        if error_code in _WAIT_FOR_METADATA:
            # An earlier attempt may have been applied, so the leader waits for the proposed replicas until the metadata
            # shows the outcome.
            self._proposal.resend_at_ms = None
        else:
            self._proposal.resend_at_ms = self._now_ms + self._settings.retry_backoff_ms

    def _commit(self, state: PartitionImage) -> list[LeaderEffect]:
        was_below_minimum = self.below_minimum_isr
        before, isr = self._state.isr, state.isr
        self._state = state
        self._track_followers()
        if set(isr) == set(before):
            self._delay_joining()
        # A proposal in flight has an older partition epoch, and is refused from now on.
        self._proposal = None
        for broker, follower in self._followers.items():
            if broker in isr and broker not in before:
                follower.joined_isr(self._now_ms)
            elif broker in before and broker not in isr:
                follower.left_isr()
        is_changed = isr != before or self.below_minimum_isr != was_below_minimum
        changed: list[LeaderEffect] = [IsrChanged()] if is_changed else []
        return [*changed, *self._advance()]

    def _delay_joining(self) -> None:
        """Delay the next expansion after a refused one. The delay is short: the reason may be a registration that this
        broker has yet to receive."""
        joiners = () if self._proposal is None else set(self._proposal.isr).difference(self._state.isr)
        for broker in joiners:
            if broker in self._followers:
                self._followers[broker].left_isr()
            self._no_expansion_before_ms = self._now_ms + self._settings.retry_backoff_ms

    # --- small parts -----------------------------------------------------------------------------------------

    def _track_followers(self) -> None:
        known = self._followers
        self._followers = {
            broker: known.get(broker, FollowerProgress(broker_id=broker, out_of_isr_since_ms=self._now_ms))
            for broker in self._state.replicas
            if broker != self.broker_id
        }

    def _broker_epoch_of(self, broker_id: BrokerId) -> BrokerEpoch:
        return self._broker_epoch if broker_id == self.broker_id else self._followers[broker_id].broker_epoch

    def _shortage(self) -> str:
        is_ours = len(self._state.isr) < self._settings.min_insync_replicas
        minimum = f"min.insync.replicas={self._settings.min_insync_replicas}" if is_ours else "the controller's minimum"
        in_sync = list(self._state.isr)
        return f"the in-sync replicas {in_sync} are fewer than {minimum}; retry when more replicas are in sync"

    def _advance_clock(self, now_ms: int) -> None:
        self._now_ms = max(self._now_ms, now_ms)
