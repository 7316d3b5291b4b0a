"""Fetches partitions from their leaders: one stream to each leader, for all partitions that follow it.

A round fetches every partition that is ready, applies the response to each, and the next round has the new positions. A
fetch from N tells the leader that everything below N is on this disk, so a partition is in a round again only after its
log was synced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, assert_never

import structlog
from msgspec import Struct

from kraft.model.errors import ErrorCode, InvalidBatch, Refusal
from kraft.model.ids import BrokerId
from kraft.model.replica_fetch import (
    ReplicaFetchPartition,
    ReplicaFetchRequest,
    ReplicaFetchResponse,
    ReplicaFetchResult,
)
from kraft.replication.effects import (
    AdvanceLogStart,
    AppendRecords,
    FollowerEffect,
    RestartAt,
    Retry,
    SetHighWatermark,
    TruncatedBelowHighWatermark,
    TruncateTo,
    WaitForMetadata,
)
from kraft.replication.follower import FetchPosition, PartitionFollower
from kraft.rpc.cluster_calls import REPLICA_FETCH
from kraft.rpc.peers import CallStream, NotAdmitted, NotServed, Peer, Unreachable
from kraft.server.cluster.own_registration import OwnRegistration
from kraft.server.config.components import ReplicationConfig
from kraft.server.loop.purgatory import Watch
from kraft.server.replica.log_changes import ChangeOutcome
from kraft.server.replica.partition import Partition
from kraft.server.replica.partitions import Partitions

log = structlog.get_logger()

RECONNECT_AFTER_S: Final = 0.1
NO_ROOM_RETRY_AFTER_S: Final = 1.0
"""Pause of a partition without room on the disk: every fetch of it transfers records that cannot be appended."""

ANSWER_GRACE_S: Final = 5.0
"""Time that a fetch may take beyond its wait before the leader counts as gone."""


class _Fetch(Struct, frozen=True, kw_only=True):
    """The fetch of one partition in a round."""

    partition: Partition
    follower: PartitionFollower
    position: FetchPosition


class ReplicaFetcher:
    """Fetches from one leader until `run` is cancelled."""

    def __init__(
        self,
        *,
        registration: OwnRegistration,
        leader_id: BrokerId,
        peer: Callable[[], Peer | None],
        partitions: Partitions,
        config: ReplicationConfig,
        lost: Callable[[BrokerId], None],
        found: Callable[[BrokerId], None],
    ) -> None:
        """`lost` is called when the connection to the leader breaks or is refused, `found` when the leader answers as a
        leader again; the calls alternate.
        """
        self._registration = registration
        self._leader_id = leader_id
        self._peer = peer
        self._partitions = partitions
        self._config = config
        self._not_before: dict[Partition, float] = {}
        self._late: set[Partition] = set()
        """Partitions whose sync takes longer than a round waits for it."""
        self._rounds = 0
        self._assigned = asyncio.Event()
        self._logged_reason = ""
        self._lost = lost
        self._found = found
        self._is_lost = False

    def assignment_changed(self) -> None:
        """Start a new round: other partitions follow this leader now, and the current fetch lacks them."""
        self._assigned.set()

    async def run(self) -> None:
        while True:
            try:
                while await self._follow():
                    pass
            except (NotAdmitted, NotServed) as error:
                # The leader is alive, so no election is expected.
                self._log_once(str(error))
            except Unreachable as error:
                if not self._is_lost:
                    self._is_lost = True
                    self._lost(self._leader_id)
                self._log_once(str(error))
            except Refusal as refusal:
                self._log_once(str(refusal))
            except TimeoutError:
                self._log_once("no answer in time")
            await asyncio.sleep(RECONNECT_AFTER_S)

    def _log_once(self, reason: str) -> None:
        """Log a failure that repeats, ten times a second for a leader that is down, once."""
        if reason != self._logged_reason:
            self._logged_reason = reason
            log.warning("fetch from leader failed", leader=self._leader_id, reason=reason)

    async def _follow(self) -> bool:
        """Fetch in rounds. Return True if a round was cancelled because other partitions follow this leader now."""
        peer = self._peer()
        if peer is None:
            return False
        stream = peer.open(REPLICA_FETCH)
        try:
            while True:
                self._assigned.clear()
                await self._until_synced()
                fetches = self._ready()
                if not fetches:
                    await self._until_ready()
                    continue
                if not await self._round(stream, fetches):
                    return True
        finally:
            await stream.close()

    def _ready(self) -> list[_Fetch]:
        """Return a fetch for every partition of this leader that is ready."""
        now = asyncio.get_running_loop().time()
        self._not_before = {partition: then for partition, then in self._not_before.items() if then > now}
        fetches = []
        for partition in self._partitions:
            follower = partition.follower
            if follower is None or follower.leader_id != self._leader_id or partition in self._not_before:
                continue
            position = follower.next_fetch()
            if position is not None:
                fetches.append(_Fetch(partition=partition, follower=follower, position=position))
        # A response may have room for the first partitions of the request only, so another one is first each round.
        first = self._rounds % len(fetches) if fetches else 0
        return fetches[first:] + fetches[:first]

    async def _until_synced(self) -> None:
        """Wait until the records of the last round are on disk, which producers wait for too.

        While the other partitions are idle, a round without these would return nothing, and the leader would learn of
        their progress only after its whole wait. A partition whose sync took too long, as on a disk that hangs, is not
        waited for again until it is synced: the others continue without it.
        """
        deadline = asyncio.get_running_loop().time() + RECONNECT_AFTER_S
        mine = self._followed()
        with Watch([partition.appended for partition in mine]) as watch:
            while True:
                unsynced = {
                    one for one in mine if one.follower is not None and (one.follower.needs_sync or one.is_changing)
                }
                self._late &= unsynced
                if not unsynced - self._late:
                    return
                watch.again()
                if not await watch.wait(deadline - asyncio.get_running_loop().time()):
                    self._late |= unsynced
                    return

    async def _until_ready(self) -> None:
        with Watch([partition.appended for partition in self._followed()]) as watch:
            if not self._assigned.is_set() and not self._ready():
                await watch.wait(RECONNECT_AFTER_S)

    def _followed(self) -> list[Partition]:
        return [
            partition
            for partition in self._partitions
            if partition.follower is not None and partition.follower.leader_id == self._leader_id
        ]

    async def _round(
        self, stream: CallStream[ReplicaFetchRequest, ReplicaFetchResponse], fetches: list[_Fetch]
    ) -> bool:
        """Fetch once and apply the response. Return False if the assignment changed before the response."""
        self._rounds += 1
        async with asyncio.timeout(ANSWER_GRACE_S):
            await stream.send(self._request(fetches))
        receiving = asyncio.ensure_future(stream.receive())
        changing = asyncio.ensure_future(self._assigned.wait())
        try:
            timeout_s = self._config.fetch_wait_max_ms / 1_000 + ANSWER_GRACE_S
            await asyncio.wait([receiving, changing], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if not receiving.done():
                if changing.done():
                    return False
                raise TimeoutError
            response = receiving.result()
        finally:
            receiving.cancel()
            changing.cancel()
        self._logged_reason = ""
        self._note_found(response)
        answers = {result.id: result for result in response.partitions}
        for one in fetches:
            result = answers.get(one.partition.id)
            # The partition may have got another role, or been deleted, before the response arrived.
            if result is not None and one.partition.follower is one.follower:
                self._apply(one, result)
        return True

    def _note_found(self, response: ReplicaFetchResponse) -> None:
        # A restarted broker also answers before another leader is elected, but then leads nothing.
        if self._is_lost and any(result.error_code is ErrorCode.NONE for result in response.partitions):
            self._is_lost = False
            self._found(self._leader_id)

    def _request(self, fetches: list[_Fetch]) -> ReplicaFetchRequest:
        return ReplicaFetchRequest(
            replica_id=self._registration.broker_id,
            broker_epoch=self._registration.broker_epoch,
            # Clients wait while the leader counts as lost, so its response must come at once.
            max_wait_ms=0 if self._is_lost else self._config.fetch_wait_max_ms,
            min_bytes=self._config.fetch_bytes_min,
            max_bytes=self._config.fetch_response_bytes_max,
            partitions=[
                ReplicaFetchPartition(
                    topic_id=one.partition.topic_id,
                    partition=one.partition.topic_partition.partition,
                    fetch_offset=one.position.fetch_offset,
                    last_fetched_epoch=one.position.last_fetched_epoch,
                    current_leader_epoch=one.position.current_leader_epoch,
                    log_start_offset=one.position.log_start,
                    high_watermark=one.position.high_watermark,
                    partition_max_bytes=self._config.fetch_bytes_max,
                )
                for one in fetches
            ],
        )

    # --- responses -------------------------------------------------------------------------------------------

    def _apply(self, one: _Fetch, result: ReplicaFetchResult) -> None:
        for effect in one.follower.answered(one.position, result):
            self._run(one.partition, one.follower, effect, result)

    def _run(
        self, partition: Partition, follower: PartitionFollower, effect: FollowerEffect, result: ReplicaFetchResult
    ) -> None:
        match effect:
            case AppendRecords():
                self._append(partition, follower, effect.records)
            case TruncateTo() | RestartAt():
                self._truncate(partition, effect)
            case TruncatedBelowHighWatermark():
                log.error(
                    "committed records truncated, leader lacks them",
                    partition=str(partition.topic_partition),
                    offset=effect.offset,
                    high_watermark=effect.high_watermark,
                    leader=self._leader_id,
                )
            case SetHighWatermark():
                partition.committed.notify()
            case AdvanceLogStart():
                self._advance_log_start(partition, effect)
            case Retry():
                self._pause(partition, effect.after_ms / 1_000)
                log.info(
                    "fetch delayed",
                    partition=str(partition.topic_partition),
                    leader=self._leader_id,
                    reason=result.error_code.name,
                )
            case WaitForMetadata():
                log.info("leader epoch ended", partition=str(partition.topic_partition), leader=self._leader_id)
            case _:
                assert_never(effect)

    def _append(self, partition: Partition, follower: PartitionFollower, records: bytes) -> None:
        self._make_change(
            lambda: partition.append_as_follower(records),
            refused=lambda refusal: self._append_refused(partition, follower, refusal),
        )

    def _append_refused(self, partition: Partition, follower: PartitionFollower, refusal: Refusal) -> None:
        if partition.follower is follower:
            follower.append_refused()
            if isinstance(refusal, InvalidBatch):
                log.error("records from leader refused", partition=str(partition.topic_partition), reason=str(refusal))
                self._pause(partition, RECONNECT_AFTER_S)
            else:
                self._pause_without_room(partition, refusal)

    def _advance_log_start(self, partition: Partition, effect: AdvanceLogStart) -> None:
        before = partition.log.log_start_offset

        def moved() -> None:
            log.info(
                "log start advanced",
                partition=str(partition.topic_partition),
                log_start_before=before,
                log_start=partition.log.log_start_offset,
                leader=self._leader_id,
            )

        self._make_change(
            lambda: partition.advance_log_start(effect.offset),
            done=moved,
            refused=lambda refusal: self._pause_without_room(partition, refusal),
        )

    def _truncate(self, partition: Partition, effect: TruncateTo | RestartAt) -> None:
        before = partition.log.log_end_offset

        def truncated() -> None:
            log.info(
                "log truncated",
                partition=str(partition.topic_partition),
                log_end_before=before,
                log_end=partition.log.log_end_offset,
                leader=self._leader_id,
            )

        self._make_change(
            lambda: partition.truncate(effect),
            done=truncated,
            refused=lambda refusal: self._pause_without_room(partition, refusal),
        )

    def _make_change(
        self,
        change: Callable[[], ChangeOutcome[Any]],
        *,
        refused: Callable[[Refusal], None],
        done: Callable[[], None] = lambda: None,
    ) -> None:
        """Make a change of one log and call `done` or `refused` at its end; other partitions continue meanwhile."""
        try:
            outcome = change()
        except Refusal as refusal:
            refused(refusal)
            return

        def over() -> None:
            try:
                outcome.result()
            except Refusal as refusal:
                if refusal.error_code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    refused(refusal)
            else:
                done()

        outcome.when_done(over)

    def _pause_without_room(self, partition: Partition, refusal: Refusal) -> None:
        """Pause a partition until there may be room. `DiskSpace` has logged the shortage."""
        if refusal.error_code is not ErrorCode.KAFKA_STORAGE_ERROR:
            log.error("replica divergence unresolved", partition=str(partition.topic_partition), reason=str(refusal))
        self._pause(partition, NO_ROOM_RETRY_AFTER_S)

    def _pause(self, partition: Partition, seconds: float) -> None:
        self._not_before[partition] = asyncio.get_running_loop().time() + seconds
