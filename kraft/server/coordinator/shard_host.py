"""Runs one shard on the partition that this broker leads, in one leader epoch.

The shard is loaded first. It answers only when the whole log, as it was at the beginning of the load, is committed: the
earlier leader may have acknowledged what a new leader holds above its high watermark, so answers without it could go
back in time. Then it decides commands, appends their records as acks=all does, and answers once they are committed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from typing import Any, Final, Generic, TypeVar, assert_never

import structlog
from msgspec import Struct, field

from kraft.coordinator.shard import Contents, DecisionContext, Reply, ShardKind, ShardWork, Ticket, TimerKey
from kraft.coordinator.shard_batches import Happening
from kraft.coordinator.shard_effects import (
    AppendBatch,
    DoWork,
    Effect,
    Load,
    RefuseAll,
    RemoveTimer,
    ReportEvents,
    SendReplies,
    SetMoreTimers,
    SetTimer,
)
from kraft.coordinator.shard_machine import ShardFacts, ShardMachine
from kraft.coordinator.shard_refusals import coordinator_unavailable, not_coordinator
from kraft.log.append_work import AppendMustWait, AppendOrigin, ProducedRecords
from kraft.log.format.compression import Codec
from kraft.log.topic_config import SEGMENT_BYTES_MAX
from kraft.model.callbacks import Fatal
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import Offset
from kraft.model.produce import ACKS_ALL
from kraft.server.coordinator.record_sizes import SizeLog, batch_bytes_max
from kraft.server.coordinator.shard_load import Replayed, load
from kraft.server.coordinator.turn_costs import FLUSH_S, REPLY_S
from kraft.server.loop.background import BackgroundTasks
from kraft.server.loop.backlog import Backlog
from kraft.server.loop.periods import loop_time_s
from kraft.server.loop.purgatory import Watch
from kraft.server.loop.threads import in_thread
from kraft.server.loop.timers import Timers
from kraft.server.replica.partition import Partition
from kraft.server.replica.partition_services import OnPartition
from kraft.server.replica.waiting_appends import WaitingAppend, WaitingAppends

log = structlog.get_logger()

Replicated = TypeVar("Replicated")
Volatile = TypeVar("Volatile")
Command = TypeVar("Command")
Record = TypeVar("Record")

APPEND_TURN_S_MAX: Final = 30.0
"""Longest wait of a batch for its turn at the log, such as behind a roll. Later it is not appended any more."""

WAITING_REQUESTS_MAX: Final = 100_000
"""Limit on the requests of one shard that wait for a response."""

WATCH_S: Final = 60.0
"""Longest time without a look at the high watermark; its changes are noticed at once."""

WORK_S_MAX: Final = 60.0
"""Deadline of a command that brings the result of work: above the commit timeout, which answers it first."""

WORK_RETRY_S: Final = 1.0

AFTER_A_BUG_S: Final = 10.0
"""Pause before a timer ends again after an internal error."""

REPLIES_AT_ONCE: Final = 50
"""Replies that are sent together. When a rebalance ends, thousands may be released."""


class HostSettings(Struct, frozen=True, kw_only=True):
    load_bytes_max: int = 1 << 20
    """`offsets.load.buffer.size`"""

    commit_timeout_ms: int = 5_000
    """`offsets.commit.timeout.ms`"""

    codec: Codec = Codec.NONE
    """`offsets.topic.compression.codec`"""


class ShardHostServices(Struct, frozen=True, kw_only=True):
    """Settings, threads and callbacks that all shards of a broker share."""

    settings: HostSettings
    context: Callable[[], DecisionContext]
    waiting_appends: WaitingAppends
    executor: Executor
    """Replays logs."""

    background: Executor
    """Does the `ShardWork` of shards."""

    fatal: Fatal
    loaded: OnPartition = lambda partition: None
    """Called when the shard of this partition answers requests, and when it was loaded again after a failed write."""

    committed: OnPartition = lambda partition: None
    """Called when the committed state of the shard has changed."""

    report: Callable[[int, Sequence[Happening]], None] = lambda leader_epoch, happenings: None
    """Writes what has happened in a shard to the node's log."""

    backlog: Backlog = field(default_factory=Backlog)
    """Ends timers, and sends what is released by thousands."""


class ShardHost(Generic[Replicated, Volatile, Command, Record]):
    """One shard, from the beginning of this broker's leadership until `resign`."""

    def __init__(
        self, partition: Partition, kind: ShardKind[Replicated, Volatile, Command, Record], services: ShardHostServices
    ) -> None:
        assert partition.leader is not None, "a shard runs where its partition is led"
        self.partition = partition
        self._kind = kind
        self._services = services
        self._leader = partition.leader
        self._shard: ShardMachine[Replicated, Volatile, Command, Record] | None = None
        """None while the log is replayed."""
        self._waiting: dict[Ticket, asyncio.Future[Any]] = {}
        self._tickets = 0
        self._timers = Timers(services.backlog, self._timer_ended)
        self._flush_is_due = False
        self._has_resigned = False
        self._sizes = SizeLog(str(partition.topic_partition))
        self._tasks = BackgroundTasks(services.fatal)

    def __str__(self) -> str:
        return str(self.partition.topic_partition)

    def start(self) -> None:
        """Load the shard and run it, until `resign`."""
        self._start_task(self._run(), "coordinator")

    def resign(self, reason: str) -> None:
        """Stop at once: refuse every waiting request."""
        self._has_resigned = True
        # Most partitions of a new cluster are empty.
        if self._shard is not None and self.partition.log.log_end_offset:
            log.info("coordinator resigned", partition=str(self), reason=reason)
        self._tasks.cancel()
        self._timers.clear()
        self._refuse_all(not_coordinator(reason))

    async def close(self) -> None:
        """Wait for the end of the tasks, after `resign`."""
        await self._tasks.ended()

    # --- requests --------------------------------------------------------------------------------------------

    @property
    def volatile(self) -> Volatile | None:
        """The volatile state; None while the shard is loaded."""
        return None if self._shard is None else self._shard.volatile

    @property
    def latest(self) -> Replicated | None:
        """The replicated state with everything decided; None while the shard is loaded."""
        return None if self._shard is None else self._shard.latest

    @property
    def is_settled(self) -> bool:
        """True if nothing that was decided waits for its commit."""
        return self._shard is None or self._shard.is_settled

    @property
    def is_running(self) -> bool:
        """True while this broker leads the partition, in the leader epoch of this shard."""
        return not self._has_resigned and self.partition.leader is self._leader

    def running(self) -> ShardMachine[Replicated, Volatile, Command, Record]:
        """Return the shard. Raises Refusal: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS."""
        if not self.is_running:
            raise not_coordinator(f"this broker does not lead {self.partition.topic_partition}")
        if self._shard is None:
            raise Refusal(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{self.partition.topic_partition} is being loaded; retry"
            )
        return self._shard

    async def decide(self, command: Command, timeout_s: float) -> Any:
        """Return the response to a command, decided before the first wait. Raises Refusal."""
        shard = self.running()
        return await self._respond(lambda ticket: shard.command(ticket, command), type(command).__name__, timeout_s)

    async def decide_for_client(self, command: Command, timeout_s: float) -> Any:
        """Return what `decide` returns; log a refusal for the size, since most responses have no room for a reason."""
        try:
            return await self.decide(command, timeout_s)
        except Refusal as refusal:
            self._sizes.refused(refusal, type(command).__name__)
            raise

    async def append_marker(self, marker: bytes, origin: AppendOrigin, timeout_s: float) -> None:
        """Append the control batch that ends a producer's transaction, and wait until it is committed.

        The marker takes its turn among the batches of the shard, before the first wait. Raises Refusal, and writes
        nothing, also while the shard is loaded: the load would miss the marker.
        """
        shard = self.running()
        await self._respond(lambda ticket: shard.end_transaction(ticket, marker, origin), "marker", timeout_s)

    async def _respond(
        self, decide: Callable[[Ticket], Sequence[Effect[Replicated]]], task: str, timeout_s: float
    ) -> Any:
        if len(self._waiting) >= WAITING_REQUESTS_MAX:
            raise coordinator_unavailable("too many requests wait for this coordinator; retry")
        self._tickets += 1
        ticket = Ticket(self._tickets)
        try:
            effects = decide(ticket)
        except Exception as bug:
            self._log_bug(bug, task)
            raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "internal error, see the broker's log") from bug
        waiting = self._waiting[ticket] = asyncio.get_running_loop().create_future()
        try:
            self._carry_out(effects)
            async with asyncio.timeout(timeout_s):
                response = await waiting
        except TimeoutError:
            raise coordinator_unavailable("the coordinator has no response in time; retry") from None
        finally:
            del self._waiting[ticket]
        if isinstance(response, Refusal):
            raise response
        return response

    # --- life ------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        partition, loop = self.partition, asyncio.get_running_loop()
        began_s, settings = loop.time(), self._services.settings
        replayed, end = await load(
            partition, self._kind, settings.load_bytes_max, self._services.executor, self._services.backlog
        )
        with Watch((partition.committed,)) as watch:
            await self._until_committed(watch, end)
            shard = ShardMachine(self._kind.shard, self._kind.encode, self._for_shard(), replayed.replicated)
            (load_state,) = shard.start()
            assert isinstance(load_state, Load)
            decision, contents = await self._decide_loaded(load_state)
            self._shard = shard
            log.log(
                _level(replayed),
                "coordinator loaded",
                partition=str(partition.topic_partition),
                leader_epoch=partition.leader_epoch,
                records=replayed.records,
                skipped=replayed.skipped,
                ms=round((loop.time() - began_s) * 1_000),
                **contents.counts,
                **({"in_use": contents.named} if contents.named else {}),
                **({"reason_skipped": replayed.reason} if replayed.skipped else {}),
            )
            self._carry_out(shard.loaded(decision))
            self._services.loaded(partition)
            while True:
                watch.again()
                self._high_watermark_advanced(shard)
                await watch.wait(WATCH_S)

    async def _until_committed(self, watch: Watch, end: Offset) -> None:
        while self.partition.high_watermark < end:
            watch.again()
            if self.partition.high_watermark < end:
                await watch.wait(WATCH_S)

    async def _decide_loaded(self, load_state: Load[Replicated]) -> tuple[Any, Contents]:
        kind, context, replicated = self._kind, self._services.context(), load_state.replicated
        return await in_thread(
            self._services.executor, lambda: (kind.shard.loaded(replicated, context), kind.contents(replicated))
        )

    async def _load_again(self, load_state: Load[Replicated]) -> None:
        decision, _ = await self._decide_loaded(load_state)
        self._carry_out(self.running().loaded(decision))
        self._services.loaded(self.partition)

    def _for_shard(self) -> ShardFacts:
        settings = self._services.settings
        return ShardFacts(
            context=self._services.context,
            batch_bytes_max=self.batch_bytes_max,
            decision_bytes_max=(lambda: SEGMENT_BYTES_MAX) if self._kind.limits_sizes else None,
            append_refusal=self._append_refusal,
            producer_refusal=self._producer_refusal,
            commit_timeout_ms=settings.commit_timeout_ms,
            codec=settings.codec,
        )

    def batch_bytes_max(self) -> int:
        return batch_bytes_max(self.partition.log.config)

    def _append_refusal(self) -> Refusal | None:
        try:
            self._leader.check_produce(ACKS_ALL)
        except Refusal as refusal:
            return refusal
        return None

    def _producer_refusal(self, batch: bytes, origin: AppendOrigin) -> Refusal | None:
        try:
            self.partition.log.transactions.check(batch, origin)
        except Refusal as refusal:
            return refusal
        return None

    # --- effects ---------------------------------------------------------------------------------------------

    def _carry_out(self, effects: Sequence[Effect[Replicated]]) -> None:
        for effect in effects:
            match effect:
                case AppendBatch():
                    self._append(effect)
                case SendReplies():
                    self._send(effect.replies)
                case ReportEvents():
                    self._services.report(self._leader.leader_epoch, effect.happenings)
                case RefuseAll():
                    log.warning(
                        "coordinator write failed",
                        partition=str(self.partition.topic_partition),
                        reason=effect.refusal.message,
                    )
                    self._refuse_all(effect.refusal)
                case SetTimer():
                    self._sizes.refused(effect.refusal, f"timer {type(effect.key).__name__}")
                    self._timers.set(effect.key, effect.number, effect.delay_ms / 1_000)
                case RemoveTimer():
                    self._timers.remove(effect.key)
                case SetMoreTimers():
                    self._services.backlog.add(self._set_more_timers)
                case Load():
                    self._start_task(self._load_again(effect), "coordinator load")
                case DoWork():
                    self._start_task(self._do(effect.work), "coordinator work")
                case _:
                    assert_never(effect)
        self._flush_soon()

    def _send(self, replies: Sequence[Reply]) -> None:
        if len(replies) <= REPLIES_AT_ONCE:
            for reply in replies:
                self._answer(reply.ticket, reply.response)
        else:
            self._services.backlog.add(partial(self._send_next, iter(replies)))

    def _send_next(self, replies: Iterator[Reply]) -> bool:
        reply = next(replies, None)
        if reply is None:
            return False
        self._answer(reply.ticket, reply.response)
        self._services.backlog.spend(REPLY_S)
        return True

    def _answer(self, ticket: Ticket, response: object) -> None:
        waiting = self._waiting.get(ticket)
        # A client may be gone, or its deadline over.
        if waiting is not None and not waiting.done():
            waiting.set_result(response)

    def _refuse_all(self, refusal: Refusal) -> None:
        self._send([Reply(ticket, Refusal(refusal.error_code, refusal.message)) for ticket in self._waiting])

    # --- timers ----------------------------------------------------------------------------------------------

    def _set_more_timers(self) -> bool:
        if self._shard is not None and not self._has_resigned:
            self._carry_out(self._shard.set_more_timers())
        return False

    def _timer_ended(self, key: TimerKey, number: int) -> None:
        assert self._shard is not None, "a shard that is not loaded has no timers"
        try:
            effects = self._shard.timer_ended(key, number)
        except Exception as bug:  # noqa: BLE001  Nothing has changed, and the other groups go on.
            self._log_bug(bug, f"timer {type(key).__name__}")
            self._timers.set(key, number, AFTER_A_BUG_S)
            return
        self._carry_out(effects)

    # --- appends ---------------------------------------------------------------------------------------------

    def _flush_soon(self) -> None:
        """Flush at the end of this turn of the loop: the commands of one turn are one batch."""
        if not self._flush_is_due and self._shard is not None and self._shard.wants_flush:
            self._flush_is_due = True
            self._services.backlog.spend(FLUSH_S)
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_is_due = False
        if self._shard is not None and not self._has_resigned:
            self._carry_out(self._shard.flush())

    def _append(self, effect: AppendBatch) -> None:
        batch, queue = effect.batch, self.partition.waiting_appends

        def append_now(records: ProducedRecords) -> None:
            self._append_to_log(records, effect.origin)

        work = None
        if not queue.waiting:
            try:
                append_now(batch)
            except AppendMustWait as wait:
                work = wait.work
            except Refusal as refusal:
                self._append_failed(refusal)
                return
            else:
                return
        # There is room for it however much clients let wait: a shard has one batch that waits, and without it would
        # refuse everything that it has decided.
        deadline_s = loop_time_s() + APPEND_TURN_S_MAX
        waiting = WaitingAppend(
            records=batch, work=work, deadline_s=deadline_s, append=append_now, refuse=self._append_failed
        )
        self._services.waiting_appends.join(queue, waiting)

    def _append_to_log(self, batch: ProducedRecords, origin: AppendOrigin) -> None:
        """Append now. Raises Refusal and AppendMustWait if nothing was appended."""
        if not self.is_running:
            raise not_coordinator(f"this broker does not lead {self.partition.topic_partition}")
        result = self.partition.append(batch, ACKS_ALL, origin)
        shard = self._shard
        assert shard is not None, "only a loaded shard appends"
        self._carry_out(shard.appended(Offset(result.last_offset + 1)))
        self._high_watermark_advanced(shard)

    def _high_watermark_advanced(self, shard: ShardMachine[Replicated, Volatile, Command, Record]) -> None:
        before = shard.committed
        self._carry_out(shard.high_watermark_advanced(self.partition.high_watermark))
        if shard.committed is not before:
            self._services.committed(self.partition)

    def _append_failed(self, refusal: Refusal) -> None:
        if self._shard is not None and not self._has_resigned:
            self._carry_out(self._shard.append_failed(refusal))

    # --- work beside the shard -------------------------------------------------------------------------------

    async def _do(self, work: ShardWork) -> None:
        """Do work in a thread, and decide the commands that it returns."""
        try:
            for command in await in_thread(self._services.background, work.commands):
                if await self._decide_until_done(command) is False:
                    return
        except Refusal as refusal:
            log.warning("coordinator work refused", partition=str(self), reason=refusal.message)
        except Exception as bug:  # noqa: BLE001  It is logged, and the shard hears that the work failed.
            self._log_bug(bug, type(work).__name__)
        else:
            return
        with suppress(Refusal):
            await self._decide_until_done(work.failed())

    async def _decide_until_done(self, command: Any) -> Any:
        """Return the response, False if this broker no longer coordinates. Raises Refusal if no retry may succeed."""
        while True:
            try:
                return await self.decide(command, WORK_S_MAX)
            except Refusal as refusal:
                if refusal.error_code is ErrorCode.NOT_COORDINATOR:
                    return False
                if not refusal.error_code.retriable:
                    raise
                await asyncio.sleep(WORK_RETRY_S)

    # --- tasks -----------------------------------------------------------------------------------------------

    def _start_task(self, work: Any, name: str) -> None:
        self._tasks.start(work, f"{name} {self.partition.topic_partition}")

    def _log_bug(self, bug: Exception, task: str) -> None:
        log.error("internal error", partition=str(self.partition.topic_partition), task=task, exc_info=bug)


def _level(replayed: Replayed[Any]) -> int:
    """Return the level of the log event of a load: skipped records are lost groups or offsets."""
    if replayed.skipped:
        return logging.WARNING
    # Most partitions of a new cluster are empty.
    return logging.INFO if replayed.records else logging.DEBUG
