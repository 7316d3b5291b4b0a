"""Finds out why followers lag: asks their brokers about the log directories that hold the replicas.

A follower on a full disk, or in a failed log directory, stores nothing, and its fetches do not say why. So while a
replica lags, and at no other time, the leader's broker asks the follower's one with the call that operators use. An
answer counts for a few seconds: a reason that the broker has not confirmed since is not told. A follower without room
leaves the ISR at once: otherwise every produce with acks=all would wait for replica.lag.time.max.ms.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

import structlog
from msgspec import Struct, field

from kraft.model.callbacks import BrokerCondition
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId, LogDirectory, Offset, TopicPartition
from kraft.replication.follower_progress import FollowerState
from kraft.rpc.peers import NotAdmitted, NotServed, Unreachable
from kraft.runtime.clock import Clock
from kraft.server.loop.periods import period_end
from kraft.server.loop.turns import Turns
from kraft.server.replica.partition import Partition
from kraft.server.replica.partitions import Partitions
from kraft.wire.schema.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)

log = structlog.get_logger()

PERIOD_S: Final = 1.0
LAG_MS_MIN: Final = 1_000
"""A follower that has lacked records for a shorter time is only slow."""

ASKED_AGAIN_AFTER_MS: Final = 2_000
ANSWER_MAX_S: Final = 2.0
REASON_AGE_MS_MAX: Final = 5_000
"""The reason counts for this time after it was asked for."""

PARTITIONS_PER_QUESTION_MAX: Final = 500
PARTITIONS_AT_ONCE: Final = 1_000
"""Partitions looked at before other tasks have their turn."""

Ask = Callable[[BrokerId, DescribeLogDirsRequest], Awaitable[DescribeLogDirsResponse]]
"""Asks a broker, with a deadline. Raises Unreachable, or the Refusal that ended the call."""


class Trouble(Struct, frozen=True, kw_only=True):
    """A log directory that takes no records, because it has failed or has no room."""

    directory: LogDirectory
    reason: str
    has_failed: bool

    def __str__(self) -> str:
        return f"its log directory {self.directory} has failed: {self.reason}" if self.has_failed else self.reason


class _Lag(Struct, kw_only=True):
    """What lags on one broker."""

    count: int = 0
    """All partitions."""

    since_ms: dict[TopicPartition, int] = field(default_factory=dict)
    """Those that the broker is to be asked about, with the time since when they may lag."""


class _PossibleDirectories(Struct, frozen=True, kw_only=True):
    """Where a partition's replica may be, of the log directories that took no records when they were asked for."""

    asked_ms: int
    directories: tuple[LogDirectory, ...]


class _BrokerAnswer(Struct, frozen=True, kw_only=True):
    asked_ms: int
    problem: str = ""
    """Why the broker says nothing."""

    troubles: Mapping[LogDirectory, Trouble] = field(default_factory=dict)
    places: Mapping[TopicPartition, _PossibleDirectories] = field(default_factory=dict)
    """For the partitions of this question, and of those shortly before it."""

    def reason(self, partition: TopicPartition, now_ms: int) -> str:
        """Return why the broker's replica stores nothing, or why it may; empty if there is no reason."""
        if now_ms - self.asked_ms > REASON_AGE_MS_MAX:
            return ""
        if self.problem:
            return self.problem
        places = self.places.get(partition)
        if places is not None and now_ms - places.asked_ms <= REASON_AGE_MS_MAX:
            return "; ".join(str(self.troubles[each]) for each in places.directories if each in self.troubles)
        # More partitions lag than one question has.
        troubles = "; ".join(map(str, self.troubles.values()))
        return troubles and f"perhaps because {troubles}"


class LaggingFollowers:
    def __init__(self, partitions: Partitions, is_active: BrokerCondition, ask: Ask, clock: Clock) -> None:
        """`is_active` returns False for a broker that is fenced or shutting down in the metadata."""
        self._partitions = partitions
        self._is_active = is_active
        self._ask = ask
        self._monotonic_ms, self._wall_ms = clock.monotonic_ms, clock.wall_ms
        self._answers: dict[BrokerId, _BrokerAnswer] = {}
        self._asked: set[BrokerId] = set()
        """The brokers that have not answered yet."""
        self._logged: dict[tuple[BrokerId, LogDirectory], bool] = {}
        """The troubles whose begin was logged and whose end was not; True for a failed directory."""
        self._passed_over: dict[BrokerId, int] = {}
        """How many lagging partitions come before those of the next question, which follow those of the last one."""

    async def run(self) -> None:
        """Ask the brokers of lagging followers until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                await period_end(PERIOD_S)
                lagging = await self._lagging()
                for broker_id in self._answers.keys() - lagging.keys():
                    del self._answers[broker_id]
                    self._passed_over.pop(broker_id, None)
                for broker_id, lag in lagging.items():
                    if self._is_due(broker_id):
                        tasks.create_task(self._question(broker_id, lag), name=f"question to broker {broker_id}")

    def awaited_by_produce(self, partition: Partition, required_offset: Offset) -> str:
        """Return in words what an acks=all produce whose records end at `required_offset` waits for; empty for nothing.

        Names each replica with the time for which it has lagged, and why, as far as that is known now.
        """
        leader = partition.leader
        if leader is None or leader.high_watermark >= required_offset:
            return ""
        awaited = [self._in_words(partition, each) for each in leader.awaited(required_offset)]
        if partition.replica_log.durable_end < required_offset and not leader.below_minimum_isr:
            awaited.insert(0, "this broker's own disk")
        return f"waits for {', and for '.join(awaited)}" if awaited else ""

    def _in_words(self, partition: Partition, follower: FollowerState) -> str:
        for_s = max(0, self._monotonic_ms() - follower.behind_since_ms) // 1_000
        how = f"lacked records for {for_s} s" if follower.in_isr else f"not been in sync for {for_s} s"
        reason = self._reason(follower.broker_id, partition.topic_partition)
        return f"broker {follower.broker_id}, which has {how}{reason and ': '}{reason}"

    def _reason(self, broker_id: BrokerId, partition: TopicPartition) -> str:
        if not self._is_active(broker_id):
            return "it is fenced or shutting down"
        answer = self._answers.get(broker_id)
        return "" if answer is None else answer.reason(partition, self._monotonic_ms())

    # --- questions -------------------------------------------------------------------------------------------

    async def _lagging(self) -> dict[BrokerId, _Lag]:
        """Return what lags on each active broker that has to be asked."""
        self._forget_inactive()
        # A broker whose trouble was logged is also asked whether that is over.
        found: dict[BrokerId, _Lag] = {broker_id: _Lag() for broker_id, _ in self._logged}
        turns = Turns(PARTITIONS_AT_ONCE)
        for partition in self._partitions:
            if partition.leader is not None:
                for follower in partition.leader.lagging(self._monotonic_ms(), LAG_MS_MIN):
                    lag = found.setdefault(follower.broker_id, _Lag())
                    lag.count += 1
                    is_passed_over = lag.count <= self._passed_over.get(follower.broker_id, 0)
                    if not is_passed_over and len(lag.since_ms) < PARTITIONS_PER_QUESTION_MAX:
                        lag.since_ms[partition.topic_partition] = follower.behind_since_ms
            await turns.done()
        return {broker_id: each for broker_id, each in found.items() if self._is_active(broker_id)}

    def _forget_inactive(self) -> None:
        """A broker that is not in service is not asked, perhaps never again. If it comes back, it is logged anew."""
        for gone in [key for key in self._logged if not self._is_active(key[0])]:
            del self._logged[gone]
            log.info("follower left service", broker=gone[0], directory=gone[1])

    def _is_due(self, broker_id: BrokerId) -> bool:
        last = self._answers.get(broker_id)
        is_early = last is not None and self._monotonic_ms() - last.asked_ms < ASKED_AGAIN_AFTER_MS
        return broker_id not in self._asked and not is_early

    async def _question(self, broker_id: BrokerId, lag: _Lag) -> None:
        passed_over = self._passed_over.get(broker_id, 0) + len(lag.since_ms)
        self._passed_over[broker_id] = passed_over if lag.since_ms and passed_over < lag.count else 0
        # What the broker answers was true after this moment.
        asked_ms = self._monotonic_ms()
        self._asked.add(broker_id)
        try:
            response = await self._ask(broker_id, _about(lag.since_ms))
        except (NotServed, NotAdmitted, Refusal):
            self._answers[broker_id] = _BrokerAnswer(asked_ms=asked_ms)
        except Unreachable:
            self._answers[broker_id] = _BrokerAnswer(asked_ms=asked_ms, problem="it does not answer")
        else:
            troubles = troubles_in(response)
            found = troubles_by_partition(lag.since_ms, response, troubles)
            places = self._places(broker_id, lag.since_ms, found, asked_ms)
            self._answers[broker_id] = _BrokerAnswer(asked_ms=asked_ms, troubles=troubles, places=places)
            self._log_changes(broker_id, lag, found, troubles)
            self._tell_leaders(broker_id, found)
        finally:
            self._asked.discard(broker_id)

    def _places(
        self,
        broker_id: BrokerId,
        partitions: Iterable[TopicPartition],
        found: Mapping[TopicPartition, tuple[Trouble, ...]],
        asked_ms: int,
    ) -> dict[TopicPartition, _PossibleDirectories]:
        """Return those of an answer, and those of the answers before that count still."""
        before = self._answers.get(broker_id)
        kept = {} if before is None else before.places
        places = {name: each for name, each in kept.items() if asked_ms - each.asked_ms <= REASON_AGE_MS_MAX}
        for partition in partitions:
            directories = tuple(each.directory for each in found.get(partition, ()))
            places[partition] = _PossibleDirectories(asked_ms=asked_ms, directories=directories)
        return places

    def _tell_leaders(self, broker_id: BrokerId, found: Mapping[TopicPartition, tuple[Trouble, ...]]) -> None:
        """Tell those whose follower is in a directory without room. Of one that has failed, its broker tells."""
        for each, troubles in found.items():
            partition = self._partitions.find_by_name(each.topic, each.partition)
            if partition is not None and [trouble.has_failed for trouble in troubles] == [False]:
                partition.tick(without_room=broker_id)

    # --- the log ---------------------------------------------------------------------------------------------

    def _log_changes(
        self,
        broker_id: BrokerId,
        lag: _Lag,
        found: Mapping[TopicPartition, tuple[Trouble, ...]],
        troubles: Mapping[LogDirectory, Trouble],
    ) -> None:
        for directory, trouble in troubles.items():
            lagging = [partition for partition, its_troubles in found.items() if trouble in its_troubles]
            # The reason is not compared: free bytes change all the time.
            if lagging and self._logged.get((broker_id, directory)) is not trouble.has_failed:
                self._logged[broker_id, directory] = trouble.has_failed
                first = min(lagging, key=lambda partition: lag.since_ms[partition])
                log.warning(
                    "follower stopped storing records",
                    broker=broker_id,
                    directory=directory,
                    reason=trouble.reason,
                    lagging_since=self._moment(lag.since_ms[first]),
                    partition=str(first),
                    partitions=len(lagging),
                    lagging_partitions=lag.count,
                )
        for over in [key for key in self._logged if key[0] == broker_id and key[1] not in troubles]:
            del self._logged[over]
            log.info("follower resumed storing records", broker=broker_id, directory=over[1])

    def _moment(self, at_ms: int) -> str:
        wall_ms = self._wall_ms() - (self._monotonic_ms() - at_ms)
        moment = datetime.fromtimestamp(wall_ms / 1_000, UTC).isoformat(timespec="milliseconds")
        return moment.replace("+00:00", "Z")


def _about(partitions: Iterable[TopicPartition]) -> DescribeLogDirsRequest:
    topics: dict[str, list[int]] = {}
    for each in partitions:
        topics.setdefault(each.topic, []).append(each.partition)
    return DescribeLogDirsRequest(
        topics=tuple(DescribableLogDirTopic(topic=name, partitions=tuple(found)) for name, found in topics.items())
    )


def troubles_in(response: DescribeLogDirsResponse) -> dict[LogDirectory, Trouble]:
    """Return the broker's log directories that take no records."""
    return {
        LogDirectory(each.log_dir): Trouble(
            directory=LogDirectory(each.log_dir), reason=each.reason, has_failed=each.error_code != ErrorCode.NONE
        )
        for each in response.results
        if each.error_code != ErrorCode.NONE or each.reason
    }


def troubles_by_partition(
    partitions: Iterable[TopicPartition], response: DescribeLogDirsResponse, troubles: Mapping[LogDirectory, Trouble]
) -> dict[TopicPartition, tuple[Trouble, ...]]:
    """Return why the broker's replicas of these partitions store nothing; a replica that may store is left out.

    A failed directory is described without its replicas. So a replica that is in none may be in any failed one.
    """
    places = {
        TopicPartition(topic.name, one.partition_index): LogDirectory(each.log_dir)
        for each in response.results
        for topic in each.topics
        for one in topic.partitions
        if not one.is_future_key
    }
    failed = tuple(each for each in troubles.values() if each.has_failed)
    found = {}
    for partition in partitions:
        directory = places.get(partition)
        here = failed if directory is None else tuple(each for each in (troubles.get(directory),) if each is not None)
        if here:
            found[partition] = here
    return found
