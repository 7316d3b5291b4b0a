"""Fetches partitions from their leaders: one stream to each leader, for all partitions of it that this broker follows.

A request names partitions that are ready at the same moment, and many requests may wait at the leader at the same
time. A fetch from N tells the leader that everything below N is on this disk, so a partition is fetched again only
after its log was synced, and waits for no other partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol, assert_never

import structlog
from msgspec import Struct

from kraft.log.format.record_batch import Buffer
from kraft.model.callbacks import Callback
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
from kraft.replication.follower import PartitionFollower
from kraft.rpc.frame_exchange import NotConnected
from kraft.rpc.peers import NotAdmitted, NotServed, Unreachable
from kraft.server.cluster.own_registration import OwnRegistration
from kraft.server.config.components import ReplicationConfig
from kraft.server.loop.background import cancelled
from kraft.server.loop.periods import loop_time_s
from kraft.server.replica.followed_partitions import PARTITIONS_PER_REQUEST_MAX, FollowedPartitions, PartitionFetch
from kraft.server.replica.log_changes import ChangeOutcome
from kraft.server.replica.partition import Partition
from kraft.server.replica.replication_throttles import FollowerThrottle
from kraft.server.replica.silence import Silence
from kraft.server.replica.waiting_appends import OnRefusal

log = structlog.get_logger()

RECONNECT_AFTER_S: Final = 0.1
NO_ROOM_RETRY_AFTER_S: Final = 1.0
"""Pause of a partition without room on the disk: every fetch of it transfers records that cannot be appended."""

ANSWER_GRACE_S: Final = 5.0
"""Time that a fetch may take beyond its wait before the leader counts as gone."""

REQUESTS_IN_FLIGHT_MAX: Final = 512
"""Beyond it partitions wait, and are fetched together, until a request is answered."""

NEWS_WAIT_MS_MAX: Final = 100
"""Longest wait of a fetch of partitions that had news a short time ago. Those that had none for long enough are then
fetched with the others again.
"""

FULL_REQUEST_WAITS: Final = 8
"""The number of different waits of full requests; the shortest is three quarters of the longest."""

CONNECT_AFTER_S: Final = 1.0
CONNECT_AFTER_S_MAX: Final = 300.0
"""First and longest interval between attempts to connect to a leader whose partitions are fetched over gRPC meanwhile.
A connection on which no request was answered counts as an attempt that failed.
"""


class FetchStream(Protocol):
    """One open exchange with a leader. Once a method raises, it cannot be used again."""

    async def send(self, request: ReplicaFetchRequest, /) -> None:
        """Send a request; waits while the connection is full. Raises Unreachable, or a Refusal."""

    async def receive(self) -> ReplicaFetchResponse:
        """Return the next response. Raises Unreachable, or a Refusal."""

    async def close(self) -> None: ...


class LeaderLink(Protocol):
    """The ways to a leader: a connection of our own to its Kafka listener, and gRPC, which takes more CPU."""

    @property
    def may_connect(self) -> bool:
        """False if the leader has no such listener."""

    async def connect(self) -> FetchStream:
        """Connect and introduce this node. Raises NotConnected."""

    def over_grpc(self) -> FetchStream: ...


class LostLeaderNotes(Protocol):
    """The leaders whose connection was lost, whoever noticed it."""

    def lost(self, broker_id: BrokerId, /) -> None:
        """Note that the connection to a leader broke, or was refused."""

    def is_lost(self, broker_id: BrokerId, /) -> bool: ...

    def found(self, broker_id: BrokerId, /) -> None:
        """Note that it answers as a leader again."""


class _FetchInFlight(Struct, frozen=True):
    """A request that is not answered."""

    fetches: list[PartitionFetch]
    deadline_s: float


class ReplicaFetcher:
    """Fetches from one leader until `run` is cancelled."""

    def __init__(
        self,
        *,
        registration: OwnRegistration,
        leader_id: BrokerId,
        link: Callable[[], LeaderLink | None],
        partitions: Iterable[Partition],
        config: ReplicationConfig,
        throttle: FollowerThrottle,
        lost_leaders: LostLeaderNotes,
    ) -> None:
        """`partitions` are all of this broker."""
        self._registration = registration
        self._leader_id = leader_id
        self._link = link
        self._connected: FetchStream | None = None
        """A connection that was opened while the partitions were fetched over gRPC."""
        self._reason_for_grpc = ""
        self._connect_after_s = CONNECT_AFTER_S
        self._is_useless = False
        """The latest connection admitted this node, and ended before it carried a response."""
        self._is_answered = False
        """A request was answered on this stream."""
        self._config = config
        self._wanted = asyncio.Event()
        """Set when there may be something to send, or the stream has failed."""
        self._followed = FollowedPartitions(partitions, leader_id, throttle, self._wanted.set)
        self._requests: dict[int, _FetchInFlight] = {}
        """The requests that are not answered, by number, the oldest first."""
        self._last_number = 0
        self._logged_reason = ""
        self.silence = Silence()
        """Of the leader."""
        self._lost_leaders = lost_leaders

    def assignment_changed(self) -> None:
        """Look for the partitions that follow this leader now."""
        self._followed.update()

    def look_at_held_back(self) -> None:
        """Look at the partitions that wait for the throttle again."""
        self._followed.look_at_held_back()

    def look_at_unlimited(self) -> None:
        """Look at those of them again that are in the ISR now."""
        self._followed.look_at_unlimited()

    async def run(self) -> None:
        self._followed.update()
        try:
            while True:
                await self._follow_until_lost()
                if self._connected is None:
                    await asyncio.sleep(RECONNECT_AFTER_S)
        finally:
            self._followed.close()
            await self._drop_connected()

    async def _follow_until_lost(self) -> None:
        try:
            await self._follow()
        except (NotAdmitted, NotServed) as error:
            # The leader is alive, so no election is expected.
            self._log_once(str(error))
        except Unreachable as error:
            self._lost_leaders.lost(self._leader_id)
            self.silence.failed()
            self._log_once(str(error))
        except Refusal as refusal:
            self._log_once(str(refusal))
        except TimeoutError:
            self.silence.failed()
            self._log_once("no answer in time")

    def _log_once(self, reason: str) -> None:
        """Log a failure that repeats, ten times a second for a leader that is down, once."""
        if reason != self._logged_reason:
            self._logged_reason = reason
            log.warning("fetch from leader failed", leader=self._leader_id, reason=reason)

    async def _follow(self) -> None:
        """Fetch over one stream until it fails, or there is a better one. Raises Unreachable, Refusal, TimeoutError."""
        link = self._link()
        if link is None:
            await self._drop_connected()
            return
        stream, is_over_grpc = await self._open(link)
        self._requests.clear()
        self._is_answered = False
        self._followed.ask_again()
        tasks = [asyncio.create_task(self._receive(stream), name=f"fetches from broker {self._leader_id}")]
        if is_over_grpc and link.may_connect:
            tasks.append(asyncio.create_task(self._connect_later(link), name=f"connect to broker {self._leader_id}"))
        try:
            async with asyncio.timeout(None) as limit:
                tasks.append(asyncio.create_task(self._watch_deadlines(limit), name="deadlines of fetches"))
                for task in tasks:
                    task.add_done_callback(lambda _: self._wanted.set())
                await self._send_until_over(stream, tasks)
        finally:
            await cancelled(tasks)
            await stream.close()
            if not is_over_grpc:
                self._judge_connection()

    def _judge_connection(self) -> None:
        """Note whether the connection that has ended was of any use: something between the nodes may let only the
        introductions pass. Without this, gRPC would never be tried.
        """
        if self._is_answered:
            self._connect_after_s, self._reason_for_grpc = CONNECT_AFTER_S, ""
        elif self._requests:
            self._is_useless = True
            self._connect_after_s = min(2 * self._connect_after_s, CONNECT_AFTER_S_MAX)
            self._log_fallback_once("a connection ended before anything was answered on it")

    async def _send_until_over(self, stream: FetchStream, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Send requests until there is a better stream. Raises what ended one of the stream's tasks."""
        while self._connected is None:
            self._wanted.clear()
            for task in tasks:
                if task.done():
                    task.result()
            has_room = len(self._requests) < REQUESTS_IN_FLIGHT_MAX
            fetches, had_news = self._followed.take_ready() if has_room else ([], False)
            if fetches:
                await stream.send(self._next_request(fetches, had_news))
            else:
                await self._wanted.wait()

    async def _open(self, link: LeaderLink) -> tuple[FetchStream, bool]:
        """Return a stream, and True if it is one of gRPC."""
        connected, self._connected = self._connected, None
        is_useless, self._is_useless = self._is_useless, False
        if connected is None:
            if is_useless:
                return link.over_grpc(), True
            try:
                connected = await link.connect()
            except NotConnected:
                return link.over_grpc(), True
        log.info("replica connection opened", leader=self._leader_id)
        return connected, False

    async def _drop_connected(self) -> None:
        connected, self._connected = self._connected, None
        if connected is not None:
            await connected.close()

    async def _connect_later(self, link: LeaderLink) -> None:
        """Try to connect, at growing intervals: a leader that has just started may not have begun to listen."""
        after_s = self._connect_after_s
        while True:
            await asyncio.sleep(after_s)
            try:
                self._connected = await link.connect()
            except NotConnected as error:
                self._log_fallback_once(str(error))
                after_s = min(2 * after_s, CONNECT_AFTER_S_MAX)
                continue
            self._wanted.set()
            return

    def _log_fallback_once(self, reason: str) -> None:
        if reason != self._reason_for_grpc:
            self._reason_for_grpc = reason
            log.info("replica fetches sent over gRPC", leader=self._leader_id, reason=reason)

    async def _watch_deadlines(self, limit: asyncio.Timeout) -> None:
        """End the stream when a request is not answered in time. One timer serves all requests."""
        loop = asyncio.get_running_loop()
        while True:
            oldest = next(iter(self._requests.values()), None)
            left_s = ANSWER_GRACE_S if oldest is None else oldest.deadline_s - loop.time()
            if left_s <= 0:
                limit.reschedule(loop.time())
                return
            await asyncio.sleep(left_s)

    def _next_request(self, fetches: list[PartitionFetch], had_news: bool) -> ReplicaFetchRequest:
        request = self._request(fetches, self._wait_ms(len(fetches), had_news))
        wait_s = request.max_wait_ms / 1_000 + ANSWER_GRACE_S
        self._requests[request.number] = _FetchInFlight(fetches, loop_time_s() + wait_s)
        return request

    async def _receive(self, stream: FetchStream) -> None:
        while True:
            response = await stream.receive()
            asked = self._requests.pop(response.number, None)
            if asked is not None:
                self._logged_reason = ""
                self.silence.answered()
                self._is_answered = True
                self._note_found(response)
                self._take(asked.fetches, response)

    def _take(self, fetches: list[PartitionFetch], response: ReplicaFetchResponse) -> None:
        answers = {result.id: result for result in response.partitions}
        for one in fetches:
            result = answers.get(one.partition.id)
            effects: list[FollowerEffect] = []
            # The partition may have got another role, or been deleted, before the response arrived.
            if result is not None and one.partition.follower is one.follower:
                effects = one.follower.answered(one.position, result)
                for effect in effects:
                    self._run(one.partition, one.follower, effect, result)
            size_bytes = 0 if result is None else len(result.records)
            self._followed.answered(one, brought_news=bool(effects), size_bytes=size_bytes)

    def _note_found(self, response: ReplicaFetchResponse) -> None:
        # A restarted broker also answers before another leader is elected, but then leads nothing.
        answered = any(result.error_code is ErrorCode.NONE for result in response.partitions)
        if answered and self._lost_leaders.is_lost(self._leader_id):
            self._lost_leaders.found(self._leader_id)

    def _wait_ms(self, partitions: int, had_news: bool) -> int:
        """Return how long a request may wait at the leader.

        Waits of requests that could name more partitions end at common moments, so that what was split becomes one
        again: many requests take CPU even when all is idle. Full requests end one after the other, not at one moment.
        """
        if self._lost_leaders.is_lost(self._leader_id):
            # Clients wait while the leader counts as lost, so its response must come at once.
            return 0
        longest_ms = self._config.fetch_wait_max_ms
        if partitions == PARTITIONS_PER_REQUEST_MAX and not had_news:
            return longest_ms - longest_ms * (self._last_number % FULL_REQUEST_WAITS) // (4 * FULL_REQUEST_WAITS)
        period_ms = min(longest_ms, NEWS_WAIT_MS_MAX) if had_news else longest_ms
        return period_ms - round(loop_time_s() * 1_000) % period_ms

    def _request(self, fetches: list[PartitionFetch], max_wait_ms: int) -> ReplicaFetchRequest:
        self._last_number += 1
        return ReplicaFetchRequest(
            number=self._last_number,
            replica_id=self._registration.broker_id,
            broker_epoch=self._registration.broker_epoch,
            max_wait_ms=max_wait_ms,
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
                    partition_max_bytes=one.reserved_bytes or self._config.fetch_bytes_max,
                )
                for one in fetches
            ],
        )

    # --- responses -------------------------------------------------------------------------------------------

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
                # A follower often knows a new partition or leader a moment before the leader does.
                is_ahead = result.error_code is ErrorCode.UNKNOWN_LEADER_EPOCH
                (log.debug if is_ahead else log.info)(
                    "fetch delayed",
                    partition=str(partition.topic_partition),
                    leader=self._leader_id,
                    reason=result.error_code.name,
                )
            case WaitForMetadata():
                log.info("leader epoch ended", partition=str(partition.topic_partition), leader=self._leader_id)
            case _:
                assert_never(effect)

    def _append(self, partition: Partition, follower: PartitionFollower, records: Buffer) -> None:
        partition.counts.broker.replication_bytes_in += len(records)
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
        self, change: Callable[[], ChangeOutcome[Any]], *, refused: OnRefusal, done: Callback = lambda: None
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
        self._followed.pause(partition, seconds)
