"""A consumer's part in its group: which partitions it reads, the user's callbacks, and its commits."""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
import weakref
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import count
from typing import Final

from kraft.client.aio.commits import NO_MEMBER, Commits, Done, Permit, not_committed
from kraft.client.aio.engine import Engine
from kraft.client.aio.membership import GroupMembership
from kraft.client.cluster.missing_topics import tell_of_missing_topics
from kraft.client.cluster.network import Network
from kraft.client.model.errors import SubscriptionConflict
from kraft.client.model.group_offsets import Offsets
from kraft.client.model.settings import ConsumerSettings
from kraft.client.model.subscription import RebalanceCallback, Subscription
from kraft.client.model.values import GroupMetadata, OffsetAndMetadata
from kraft.client.sans_io.backoff import Backoff
from kraft.client.sans_io.group.classic_member import ClassicMember
from kraft.client.sans_io.group.consumer_member import ConsumerMember
from kraft.client.sans_io.group.member import CommitIdentity, MemberMachine
from kraft.client.sans_io.group.ownership import Assign, Lose, Revoke, Step
from kraft.client.sans_io.progress import Progress
from kraft.client.sans_io.record_output import RecordOutput
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition
from kraft.rpc.peers import Unreachable
from kraft.runtime.clock import Clock
from kraft.runtime.entropy import random_uuid

log = logging.getLogger("kraft.client")

Consumed = dict[TopicPartition, OffsetAndMetadata]

LEAVE_DROPPED_MS: Final = 30_000
"""Timeout of the last commit, and of leaving the group, of a consumer that was dropped without a close."""

_LOST: Final = (
    "the consumer is no longer a member of the group, which may have given them to another one; the next poll joins "
    "again. If polls are far apart, lower max.poll.records or raise max.poll.interval.ms"
)
_NOT_JOINED: Final = "the consumer has not joined the group yet; poll first"
_NOT_OWNED: Final = (
    "they are not assigned to this consumer, or have been taken away since the commit began; another member of the "
    "group may read them"
)


class OwnGroup:
    """The group of one consumer. A consumer that is assigned partitions uses it for commits alone."""

    def __init__(
        self, group_id: str, settings: ConsumerSettings, network: Network, output: RecordOutput, progress: Progress
    ) -> None:
        self._group_id = group_id
        self._settings = settings
        self._clock = network.clock
        self._output = output
        self._progress = progress
        self._backoff = Backoff(
            first_ms=settings.retry_backoff_ms, max_ms=settings.retry_backoff_max_ms, chance=network.chance
        )
        self._member_id = str(random_uuid(network.entropy))
        self.subscription: Subscription | None = None
        """Without callbacks, which may know the consumer: tasks know the group, and must not keep it alive."""
        self._callbacks: weakref.ref[Subscription] | None = None
        """The subscription with its callbacks, which the consumer keeps."""
        self.is_in_callback = False
        self._membership: GroupMembership | None = None
        self._commits: Commits | None = None
        self._auto_commit: asyncio.Task[None] | None = None
        self._missing_topics: asyncio.Task[None] | None = None
        """Looks for the topics of the present subscription; None before the poll after `subscribe`."""
        self._last_commit: asyncio.Task[None] | None = None
        """The commit before the revocation that is due."""
        self._held: frozenset[TopicPartition] = frozenset()
        """The partitions of that revocation: none of their records are returned that the commit does not cover."""
        self._auto_commit_at_ms = 0
        self._assignments = count()
        self._assigned_by: dict[TopicPartition, int] = {}
        """Number of the assignment that gave each partition to the member."""

    def subscribe(self, subscription: Subscription) -> None:
        """Subscribe, or replace the subscription, which the caller has to keep for as long as its callbacks are called.

        The consumer joins with its next poll. Raises ValueError.
        """
        if self._settings.group_protocol == "classic":
            _check_pattern(subscription.pattern)
        self.subscription, self._callbacks = subscription.without_callbacks, weakref.ref(subscription)
        self._stop_missing_topics()
        if self._membership is not None:
            self._subscribe_member(self._membership.member)
            self._membership.wake_up()

    def forget_callbacks(self) -> None:
        """Call the user no more: the consumer was dropped."""
        self._callbacks = None

    # --- polls ------------------------------------------------------------------------------------------------

    def poll_began(self, engine: Engine) -> None:
        """Join if it has to be, and commit what earlier polls returned if it is time."""
        if self.subscription is not None and self._membership is None:
            member = self._new_member()
            self._subscribe_member(member)
            self._membership = GroupMembership(
                member, engine.coordinators, engine.metadata, self._settings, self._clock, engine.fetcher.notify
            )
        if self.subscription is not None and self.subscription.topics and self._missing_topics is None:

            def refused(refusal: Refusal) -> None:
                if self._membership is not None:
                    self._membership.member.misfit = refusal
                    engine.fetcher.notify()

            telling = tell_of_missing_topics(self._group_id, self.subscription.topics, engine.metadata, refused)
            self._missing_topics = asyncio.get_running_loop().create_task(telling, name="missing topics")
        if self._membership is not None:
            self._membership.member.poll_began()
            self._membership.wake_up()
        self._commit_in_poll(engine)

    def poll_ended(self) -> None:
        if self._membership is not None:
            self._membership.member.poll_ended(self._clock.monotonic_ms())
            self._membership.wake_up()

    async def reconcile(self, engine: Engine) -> frozenset[TopicPartition]:
        """Carry out the steps towards the present assignment, with the user's callbacks.

        Return the partitions of which no records may be returned: those that are revoked when the commit before it has
        ended, of which the fetcher gives notice. Raises what a callback raises, and the Refusal after which the
        consumer cannot be a member.
        """
        membership = self._membership
        if membership is None:
            return frozenset()
        ownership = membership.member.ownership
        while (step := ownership.next_step()) is not None:
            if not self._may_begin(step, engine):
                ownership.step_failed()
                # For a caller whose polls do not wait.
                await asyncio.sleep(0)
                return self._held
            self._forget_last_commit()
            await self._carry_out(step, membership, engine)
        self._forget_last_commit()
        if membership.failure is not None:
            raise membership.failure
        if membership.member.error is not None:
            raise membership.member.error
        misfit, membership.member.misfit = membership.member.misfit, None
        if misfit is not None:
            raise misfit
        return frozenset()

    def _new_member(self) -> MemberMachine:
        if self._settings.group_protocol == "classic":
            return ClassicMember(self._settings, self._backoff)
        return ConsumerMember(self._settings, self._member_id, self._backoff)

    def _subscribe_member(self, member: MemberMachine) -> None:
        assert self.subscription is not None
        member.subscribe(self.subscription.topics, self.subscription.pattern)

    def _may_begin(self, step: Step, engine: Engine) -> bool:
        """Commit before a revocation if commits are automatic. Return False until that has ended."""
        if not isinstance(step, Revoke) or not self._settings.enable_auto_commit:
            return True
        partitions = frozenset(step.partitions)
        # Records of other partitions were returned since the commit began.
        if self._last_commit is None or not partitions <= self._held:
            self._held = partitions
            self._last_commit = self.commit_later(engine, self.consumed(), self._log_failure)
            self._last_commit.add_done_callback(lambda _: engine.fetcher.notify())
        return self._last_commit.done()

    def _forget_last_commit(self) -> None:
        self._last_commit, self._held = None, frozenset()

    async def _carry_out(self, step: Step, membership: GroupMembership, engine: Engine) -> None:
        member = membership.member
        subscription = self._with_callbacks()
        try:
            match step:
                case Revoke():
                    await self._call(subscription.on_revoked, step.partitions, membership)
                case Lose():
                    await self._call(subscription.on_lost, step.partitions, membership)
                case Assign():
                    self._output.assign([*self._output.assigned, *step.partitions])
                    self._assigned_by.update(dict.fromkeys(step.partitions, next(self._assignments)))
                    engine.fetcher.wake_up()
                    await self._call(subscription.on_assigned, step.partitions, membership)
        except asyncio.CancelledError:
            # The next poll runs the whole step.
            if isinstance(step, Assign):
                self._take_away(step.partitions)
            member.ownership.step_failed()
            raise
        except BaseException:
            self._finish(step, membership, engine)
            raise
        self._finish(step, membership, engine)

    def _finish(self, step: Step, membership: GroupMembership, engine: Engine) -> None:
        if not isinstance(step, Assign):
            self._take_away(step.partitions)
            engine.fetcher.wake_up()
        membership.member.step_done()
        membership.wake_up()

    def _take_away(self, partitions: Iterable[TopicPartition]) -> None:
        taken = set(partitions)
        self._output.assign([each for each in self._output.assigned if each not in taken])
        for partition in taken:
            self._progress.forget(partition)
            self._assigned_by.pop(partition, None)

    def _with_callbacks(self) -> Subscription:
        return (self._callbacks and self._callbacks()) or Subscription()

    async def _call(
        self, callback: RebalanceCallback | None, partitions: list[TopicPartition], membership: GroupMembership
    ) -> None:
        if callback is None:
            return
        # A callback is the user's time, as the work on records is.
        membership.member.poll_ended(self._clock.monotonic_ms())
        membership.wake_up()
        self.is_in_callback = True
        try:
            called = callback(partitions)
            if inspect.isawaitable(called):
                await called
        finally:
            self.is_in_callback = False
            membership.member.poll_began()
            membership.wake_up()

    # --- commits ----------------------------------------------------------------------------------------------

    def consumed(self, *, only_processed: bool = False) -> Consumed:
        """Return where each assigned partition was read to, without the records that may not be processed yet."""
        upto: Callable[[TopicPartition, int], int] = self._progress.processed if only_processed else self._progress.read
        offsets: Consumed = {}
        for state in self._output.states:
            if state.position is not None and not state.needs_committed:
                offset = upto(state.partition, state.position)
                epoch = state.epochs.up_to(offset - 1).latest
                offsets[state.partition] = OffsetAndMetadata(offset, "", epoch)
        return offsets

    def metadata(self) -> GroupMetadata:
        """Return the membership, for the offsets that a transaction commits. Raises CommitFailed without one.

        Of a consumer that is assigned partitions without the group's help, it names the group alone.
        """
        identity = self._identity_for({})
        return GroupMetadata(
            group_id=self._group_id,
            member_id=identity.member_id,
            generation=identity.epoch,
            instance_id=identity.instance_id,
        )

    async def commit(self, engine: Engine, offsets: Consumed, deadline_ms: int) -> None:
        """Commit these offsets. Raises CommitFailed, another Refusal, or Unreachable."""
        await self._committer(engine).commit(offsets, deadline_ms)

    def commit_later(self, engine: Engine, offsets: Consumed, on_done: Done | None) -> asyncio.Task[None]:
        """Commit in the background, after earlier commits; `on_done` gets the offsets, and the error or None."""
        return self._committer(engine).later(offsets, self._settings.default_api_timeout_ms, on_done)

    async def committed(
        self, engine: Engine, partitions: Iterable[TopicPartition], deadline_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offset of each partition that has one. Raises Refusal or Unreachable."""
        return await self._committer(engine).fetch(partitions, deadline_ms)

    async def start_offsets(
        self, engine: Engine, partitions: Iterable[TopicPartition], timeout_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets to start from, as the coordinator says to the present member alone."""
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        return await self._committer(engine).fetch(partitions, deadline_ms, self._reader)

    def _reader(self) -> CommitIdentity | None:
        """Return the identity that the consumer protocol wants of a member that takes partitions over."""
        if self._membership is None or self._settings.group_protocol != "consumer":
            return None
        identity = self._membership.member.identity()
        if identity is None:
            # Retried until the consumer is a member again, or has lost the partitions.
            raise Refusal(ErrorCode.STALE_MEMBER_EPOCH, f"group {self._group_id}: {_LOST}")
        return identity

    def _permit(self, partitions: Iterable[TopicPartition]) -> Permit:
        """Return the permit to commit these partitions, until one of them is taken away."""
        return partial(self._identity_for, {each: self._assigned_by.get(each) for each in partitions})

    def _identity_for(self, begun: Mapping[TopicPartition, int | None]) -> CommitIdentity:
        """Return the identity for a commit that began under these assignments. Raises CommitFailed."""
        member = None if self._membership is None else self._membership.member
        if self.subscription is None:
            identity: CommitIdentity | None = NO_MEMBER
        else:
            identity = None if member is None else member.identity()
        if identity is None:
            error = None if member is None else member.error
            code = ErrorCode.UNKNOWN_MEMBER_ID if error is None else error.error_code
            raise not_committed(self._group_id, begun, code, _NOT_JOINED if member is None else _LOST)
        others = {each for each, number in begun.items() if self._assigned_by.get(each) != number}
        if self.subscription is not None:
            others |= {each for each, number in begun.items() if number is None}
        if others:
            # Not one of the codes after which a commit is retried.
            raise not_committed(self._group_id, others, ErrorCode.FENCED_MEMBER_EPOCH, _NOT_OWNED)
        return identity

    def _committer(self, engine: Engine) -> Commits:
        if self._commits is None:
            self._commits = Commits(self._group_id, engine.coordinators, self._clock, self._permit)
        return self._commits

    def _commit_in_poll(self, engine: Engine) -> None:
        now_ms = self._clock.monotonic_ms()
        # Behind the commit before a revocation, one could only begin when the partitions were taken away.
        is_busy = self._last_commit is not None or (self._auto_commit is not None and not self._auto_commit.done())
        if not self._settings.enable_auto_commit or is_busy or now_ms < self._auto_commit_at_ms:
            return
        self._auto_commit_at_ms = now_ms + self._settings.auto_commit_interval_ms
        if consumed := self.consumed():
            self._auto_commit = self.commit_later(engine, consumed, self._log_failure)

    async def _commit_or_log(self, engine: Engine, offsets: Consumed, deadline_ms: int) -> None:
        error: Exception | None = None
        try:
            await self.commit(engine, offsets, deadline_ms)
        except (Refusal, Unreachable) as failed:
            error = failed
        self._log_failure(offsets, error)

    def _log_failure(self, _: Offsets, error: Exception | None) -> None:
        if error is not None:
            log.warning("group %s: automatic commit failed: %s", self._group_id, error)

    # --- leaving ----------------------------------------------------------------------------------------------

    async def unsubscribe(self, engine: Engine, deadline_ms: int, *, only_processed: bool = False) -> None:
        """Commit if commits are automatic, call the user for what is given up, and leave. Ends by the deadline.

        Raises what a callback raises, once the consumer has left. It leaves even if this is cancelled.
        """
        self._stop_missing_topics()
        membership = self._membership
        try:
            if self._settings.enable_auto_commit:
                await self._commit_or_log(engine, self.consumed(only_processed=only_processed), deadline_ms)
            if self._commits is not None:
                await self._commits.close(deadline_ms)
            if membership is not None:
                await self._give_up(membership)
        finally:
            self._membership = self.subscription = None
            self._forget_last_commit()
            self._take_away(self._output.assigned)
            if membership is not None:
                await membership.leave(deadline_ms)

    def _stop_missing_topics(self) -> None:
        if self._missing_topics is not None:
            self._missing_topics.cancel()
            self._missing_topics = None

    async def _give_up(self, membership: GroupMembership) -> None:
        subscription = self._with_callbacks()
        ownership = membership.member.ownership
        partitions = sorted(TopicPartition(place.topic, place.partition) for place in ownership.owned)
        if partitions:
            callback = subscription.on_lost if ownership.is_losing else subscription.on_revoked
            await self._call(callback, partitions, membership)


def _check_pattern(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"subscribe: {pattern!r} is not a regular expression: {error}") from None


def needs_group(call: str) -> SubscriptionConflict:
    """Return the error for a call of a consumer without a group."""
    return SubscriptionConflict(f"{call}: the consumer has no group; give group.id")


async def close_dropped(engine: Engine, group: OwnGroup | None, clock: Clock) -> None:
    """Close what a dropped consumer has left. The last poll's records may not be processed, so they do not count."""
    try:
        if group is not None:
            group.forget_callbacks()
            await group.unsubscribe(engine, clock.monotonic_ms() + LEAVE_DROPPED_MS, only_processed=True)
    finally:
        await engine.close()
