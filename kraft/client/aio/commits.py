"""Commits offsets of a group, and looks committed ones up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from kraft.client.cluster.coordinators import Coordinators
from kraft.client.cluster.metadata_cache import MISSING_TOPIC_GRACE_MS
from kraft.client.model.errors import CommitFailed
from kraft.client.model.group_offsets import (
    Offsets,
    check_committed,
    check_fetched,
    commit_topics,
    fetch_topics,
    fetched_offsets,
)
from kraft.client.model.values import OffsetAndMetadata
from kraft.client.sans_io.group.member import MUST_JOIN_AGAIN, CommitIdentity
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition
from kraft.rpc.group_calls import OFFSET_COMMIT, OFFSET_FETCH
from kraft.rpc.peers import Unreachable
from kraft.runtime.clock import Clock
from kraft.wire.schema.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kraft.wire.schema.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse

Done: TypeAlias = Callable[[Offsets, Exception | None], object]
"""Gets the offsets of a commit that has ended, and an error or None."""

Permit: TypeAlias = Callable[[], CommitIdentity]
"""Returns the identity to commit certain partitions with. Raises CommitFailed if they are not, or no longer, this
consumer's, even if they were taken away and assigned again: another member may have committed them between."""

NO_MEMBER: Final = CommitIdentity(member_id="", instance_id=None, epoch=-1)
"""Identity of a consumer that is assigned partitions without a group's help."""

_EPOCH_MOVED: Final = frozenset(
    {ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS}
)
"""The group has its next epoch or generation. The member's next response says whether it is still part of it, so a
commit is retried until the member knows."""

_NOT_YOURS: Final = MUST_JOIN_AGAIN | {ErrorCode.FENCED_INSTANCE_ID} | _EPOCH_MOVED

_FETCHED_LATER: Final = frozenset(
    {ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNSTABLE_OFFSET_COMMIT}
)
"""The membership changes, or a commit has not ended."""


class Commits:
    """Committed offsets of one group. Commits are carried out one after the other, in the order of the calls."""

    def __init__(
        self,
        group_id: str,
        coordinators: Coordinators,
        clock: Clock,
        permit: Callable[[Iterable[TopicPartition]], Permit],
    ) -> None:
        self._group_id = group_id
        self._coordinators = coordinators
        self._clock = clock
        self._permit = permit
        self._in_order = asyncio.Lock()
        self._background: set[asyncio.Task[None]] = set()

    async def commit(self, offsets: Offsets, deadline_ms: int) -> None:
        """Commit the offsets after all earlier ones, with retries until the deadline.

        Raises CommitFailed if a partition is not, or no longer, this consumer's, and otherwise the Refusal or
        Unreachable of the last attempt.
        """
        if not offsets:
            return
        permit = self._permit(offsets)
        permit()
        if self._background:
            await asyncio.wait(self._background, timeout=self._left_s(deadline_ms))
        await self._commit(offsets, permit, deadline_ms)

    def later(self, offsets: Offsets, timeout_ms: int, on_done: Done | None) -> asyncio.Task[None]:
        """Commit the offsets in the background after all earlier ones; `on_done` gets them, and the error or None."""
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        permit = self._permit(offsets)

        async def commit() -> None:
            error: Exception | None = None
            try:
                if offsets:
                    await self._commit(offsets, permit, deadline_ms)
            except (Refusal, Unreachable) as failed:
                error = failed
            if on_done is not None:
                on_done(offsets, error)

        task = asyncio.get_running_loop().create_task(commit(), name="commit")
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def close(self, deadline_ms: int) -> None:
        """Wait for commits in the background, and cancel those that have not ended by the deadline."""
        if self._background:
            _, late = await asyncio.wait(self._background, timeout=self._left_s(deadline_ms))
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    def _left_s(self, deadline_ms: int) -> float:
        return max(0, deadline_ms - self._clock.monotonic_ms()) / 1000

    async def _commit(self, offsets: Offsets, permit: Permit, deadline_ms: int) -> None:
        new_topics_until_ms = self._clock.monotonic_ms() + MISSING_TOPIC_GRACE_MS

        async def attempt(timeout_ms: int) -> OffsetCommitResponse:
            response = await self._attempt(offsets, permit, timeout_ms)
            # Until then a missing partition is retried. Afterwards the attempt is the last, and the check below raises.
            may_be_new = self._clock.monotonic_ms() < new_topics_until_ms
            check_committed(response, () if may_be_new else (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,))
            return response

        try:
            async with asyncio.timeout(self._left_s(deadline_ms)):
                await self._in_order.acquire()
        except TimeoutError:
            raise Refusal(
                ErrorCode.REQUEST_TIMED_OUT, f"group {self._group_id}: an earlier commit did not end in time"
            ) from None
        try:
            check_committed(await self._coordinators.until(deadline_ms, attempt, also=_EPOCH_MOVED))
        finally:
            self._in_order.release()

    async def _attempt(self, offsets: Offsets, permit: Permit, timeout_ms: int) -> OffsetCommitResponse:
        identity = permit()
        request = OffsetCommitRequest(
            group_id=self._group_id,
            member_id=identity.member_id,
            group_instance_id=identity.instance_id,
            generation_id_or_member_epoch=identity.epoch,
            topics=commit_topics(offsets),
        )
        try:
            return await self._coordinators.attempt(self._group_id, OFFSET_COMMIT, request, timeout_ms)
        except Refusal as refusal:
            if refusal.error_code in _NOT_YOURS:
                raise not_committed(self._group_id, offsets, refusal.error_code, refusal.message) from refusal
            raise

    async def fetch(
        self,
        partitions: Iterable[TopicPartition],
        deadline_ms: int,
        identity: Callable[[], CommitIdentity | None] = lambda: None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offset of each partition that has one. Raises Refusal or Unreachable.

        With an identity, the coordinator answers only the present member.
        """
        wanted = list(partitions)

        async def attempt(timeout_ms: int) -> OffsetFetchResponse:
            member = identity()
            group = OffsetFetchRequestGroup(
                group_id=self._group_id,
                member_id=None if member is None else member.member_id,
                member_epoch=-1 if member is None else member.epoch,
                topics=fetch_topics(wanted),
            )
            request = OffsetFetchRequest(groups=(group,), require_stable=True)
            return await self._coordinators.attempt(self._group_id, OFFSET_FETCH, request, timeout_ms, check_fetched)

        if not wanted:
            return {}
        (fetched,) = (await self._coordinators.until(deadline_ms, attempt, also=_FETCHED_LATER)).groups
        return fetched_offsets(fetched)


def not_committed(group_id: str, partitions: Iterable[TopicPartition], code: ErrorCode, reason: str) -> CommitFailed:
    """Return the error for partitions that may be another member's."""
    listed = ", ".join(str(partition) for partition in sorted(partitions)) or "a transaction"
    return CommitFailed(code, f"group {group_id}: offsets of {listed} were not committed: {reason}")
