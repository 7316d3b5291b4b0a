"""Produce: append record batches, and answer when as many replicas have them as `acks` demands.

Nearly every append is done before `handle` or `begin` returns. An append that must wait joins its partition's queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any, Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from kraft.log.append_work import (
    AppendMustWait,
    AppendOrigin,
    AppendWork,
    AwaitedChange,
    ProducedRecords,
)
from kraft.log.format.record_batch import HEADER_BYTES, Buffer
from kraft.metadata.topic_names import check_not_internal
from kraft.model.errors import ErrorCode, InvalidRecords, Refusal
from kraft.model.ids import Offset
from kraft.model.produce import (
    ACKS_ALL,
    ACKS_LEADER,
    ACKS_NONE,
    ProducePartition,
    ProducePartitionResult,
    ProduceRequest,
    ProduceResponse,
)
from kraft.server.handlers.awaited_replicas import AwaitedReplicasHandler
from kraft.server.handlers.long_produces import LONG_FROM, TURN_S_MAX, LongProduces, Rest, timed_out
from kraft.server.handlers.produce_order import ProduceOrder, Turn
from kraft.server.handlers.produce_verification import (
    NO_ORIGINS,
    Origins,
    ProduceVerification,
    TransactionSupport,
    copied,
    origin_of,
)
from kraft.server.handlers.queued_produce import Appended, Ended, QueuedProduce
from kraft.server.handlers.refused_sequences import RefusedSequences
from kraft.server.loop.periods import loop_time_s
from kraft.server.loop.turns import Turns
from kraft.server.replica.partition import Partition, code_by_now
from kraft.server.replica.partitions import Partitions
from kraft.server.replica.waiting_appends import WaitingAppend, WaitingAppends, WaitingClient

_Verify = Callable[[], Awaitable[Origins]]
"""Ends with the origins of a request's records."""

_ACKS: Final = frozenset((ACKS_NONE, ACKS_LEADER, ACKS_ALL))

TURN_S_MIN: Final = 5.0
"""An append may wait at least this long for its turn, even if the producer's timeout is shorter: disks may be slow."""

ANSWERED_AT_ONCE: Final = 1_000
"""Results of a response that are made before other tasks have their turn."""


class _Append(Struct, frozen=True):
    topic: str
    partition: int
    outcome: Ended | asyncio.Future[Ended]

    def outcome_by_now(self) -> Ended:
        """Return the outcome; if there is none yet, a refusal, and the append will be refused when its turn comes."""
        outcome = self.outcome
        if not isinstance(outcome, asyncio.Future):
            return outcome
        if outcome.done() and not outcome.cancelled():
            return outcome.result()
        return Refusal(
            ErrorCode.REQUEST_TIMED_OUT, "timed out before the records were appended; they will not be appended"
        )

    def cancel(self) -> None:
        """Wait no longer for the append, or for its replicas."""
        outcome = self.outcome
        if isinstance(outcome, asyncio.Future):
            outcome.cancel()
        one = self.outcome_by_now()
        if isinstance(one, Appended) and isinstance(one.replicated, asyncio.Future):
            one.replicated.cancel()


class _Begun(Struct, kw_only=True):
    """A request whose records are appended or wait to be. Does not hold the records: many requests wait at a time."""

    request_id: int
    acks: int
    timeout_ms: int
    appends: list[_Append]
    waiting: list[asyncio.Future[Ended]]
    """Futures of `appends` that are not done yet."""

    waits: bool
    """False if every append has ended, and no replica is waited for."""

    rest: Rest | None = None
    """What is still to be appended; `appends` and `waiting` grow until it is over."""

    @classmethod
    def of(
        cls, request: ProduceRequest, appends: list[_Append], waiting: list[asyncio.Future[Ended]], *, waits: bool
    ) -> _Begun:
        return cls(
            request_id=request.request_id,
            acks=request.acks,
            timeout_ms=request.timeout_ms,
            appends=appends,
            waiting=waiting,
            waits=waits,
        )

    def add(self, wanted: ProducePartition, outcome: Ended | asyncio.Future[Ended]) -> None:
        """Add the outcome of the next entry of the request."""
        self.appends.append(_Append(wanted.topic, wanted.partition, outcome))
        if isinstance(outcome, asyncio.Future):
            self.waiting.append(outcome)

    def outcomes(self) -> list[_Append]:
        """Return the outcome of each entry by now: those that are left of a rest have timed out."""
        if self.rest is None:
            return self.appends
        return self.appends + [_Append(wanted.topic, wanted.partition, timed_out()) for wanted in self.rest.left()]

    def cancel(self) -> None:
        """Wait for nothing any more."""
        if self.rest is not None:
            self.rest.over.cancel()
        for append in self.appends:
            append.cancel()

    def parked(self) -> list[asyncio.Future[ErrorCode]]:
        """Return the outcomes of appended records that wait for replicas."""
        return [
            one.replicated
            for one in (append.outcome_by_now() for append in self.appends)
            if isinstance(one, Appended) and isinstance(one.replicated, asyncio.Future)
        ]


class ProduceHandler:
    def __init__(
        self,
        partitions: Partitions,
        waiting: WaitingAppends,
        verification: ProduceVerification,
        awaited: AwaitedReplicasHandler,
        check_topic: Callable[[str], None] = check_not_internal,
    ) -> None:
        """`check_topic` raises the Refusal of a topic to which those who call may not write."""
        self._check_topic = check_topic
        self._partitions = partitions
        self._waiting = waiting
        self._long = LongProduces(self._waiting)
        self._verification = verification
        self._awaited = awaited
        self._refused_sequences = RefusedSequences()
        self._order = ProduceOrder()

    def handle(self, request: ProduceRequest) -> Awaitable[ProduceResponse | None]:
        """Append the records, or queue them in their order, and answer when the replicas have them.

        The response is None for acks=0; awaiting it then raises the Refusal of an append that failed.
        """
        verify = self._unverified(request, TransactionSupport.ADDS)
        if verify is not None or (self._order and request.transactional_id in self._order):
            return self._append_in_order(request, verify)
        begun = self._append_one_turn(request, None)
        if begun.waits:
            return self._answer_when_over(begun)
        # Not a coroutine, for which the listener would need a task and a turn of the loop.
        answer: asyncio.Future[ProduceResponse | None] = asyncio.get_running_loop().create_future()
        try:
            answer.set_result(self._answer(begun))
        except Refusal as refusal:
            answer.set_exception(refusal)
        return answer

    def begin(
        self,
        request: ProduceRequest,
        client: WaitingClient | None = None,
        support: TransactionSupport = TransactionSupport.ADDS,
    ) -> Awaitable[ProduceResponse | None] | ProduceResponse | None:
        """Do the same as `handle`, but return the response, or raise the Refusal, if there is nothing to wait for.

        The records' bytes are not needed after it returns. `client` counts the appends that wait.
        """
        verify = self._unverified(request, support)
        if verify is not None:
            kept = replace(request, partitions=copied(request.partitions))
            if client is not None:
                # The client's next request has to be handled after this one.
                client.began()
            return self._verify_first(kept, verify, client)
        begun = self._append_one_turn(request, client)
        return self._answer_when_over(begun) if begun.waits else self._answer(begun)

    def refuse_unknown(self, topic_id: UUID, partition: int, records: Buffer) -> None:
        """Note that these records are refused for an unknown topic id; later batches of their producer are too."""
        self._refused_sequences.note((str(topic_id), partition), records, ErrorCode.UNKNOWN_TOPIC_ID, loop_time_s())

    def _unverified(self, request: ProduceRequest, support: TransactionSupport) -> _Verify | None:
        """Return the verification that the records need first; None if they need none."""
        if not request.transactional_id:
            return None
        if len(request.partitions) > LONG_FROM:
            return partial(self._verification.verify_in_turns, request, support)
        unverified = self._verification.begin(request, support)
        return None if unverified is None else partial(self._verification.finish, unverified)

    def _append_in_order(
        self, request: ProduceRequest, verify: _Verify | None
    ) -> asyncio.Future[ProduceResponse | None]:
        """Append the records once they are verified, and after those that the producer sent before."""
        turn = self._order.join(request.transactional_id)

        async def verify_in_turn() -> Origins:
            origins = NO_ORIGINS if verify is None else await verify()
            await turn.comes()
            return origins

        answer = asyncio.ensure_future(self._verify_first(request, verify_in_turn, None, turn))
        # It may be cancelled before it has begun.
        answer.add_done_callback(turn.over)
        return answer

    async def _verify_first(
        self, request: ProduceRequest, verify: _Verify, client: WaitingClient | None, turn: Turn | None = None
    ) -> ProduceResponse | None:
        """Append the records once their transactions are verified. They are a copy, or stay as they are."""
        try:
            with self._waiting.holding(sum(len(wanted.records) for wanted in request.partitions)):
                origins = await verify()
            begun = self._append_one_turn(request, client, origins)
        except Refusal as refusal:
            begun = self._refuse_all(request, refusal)
        finally:
            if turn is not None:
                turn.over()
            if client is not None:
                client.ended()
        # Replicas may take long, and many requests wait at a time.
        del request
        return await self._answer_when_over(begun)

    def _refuse_all(self, request: ProduceRequest, refusal: Refusal) -> _Begun:
        appends = [
            _Append(wanted.topic, wanted.partition, self._noted(wanted, refusal)) for wanted in request.partitions
        ]
        return _Begun.of(request, appends, [], waits=False)

    def _append_one_turn(
        self, request: ProduceRequest, client: WaitingClient | None, origins: Origins = NO_ORIGINS
    ) -> _Begun:
        appends: list[_Append] = []
        waiting: list[asyncio.Future[Ended]] = []
        has_parked = False
        partitions, are_others_long = request.partitions, bool(self._long)
        until_s = loop_time_s() + TURN_S_MAX if len(partitions) > 1 else inf
        is_cut = len(partitions) > LONG_FROM
        for at, wanted in enumerate(() if is_cut else partitions):
            if (are_others_long and self._long.hold_back(wanted)) or (at and loop_time_s() >= until_s):
                is_cut = True
                break
            outcome = self._append_partition(wanted, request, client, origins)
            appends.append(_Append(wanted.topic, wanted.partition, outcome))
            if isinstance(outcome, Appended):
                has_parked = has_parked or not isinstance(outcome.replicated, ErrorCode)
            elif not isinstance(outcome, Refusal):
                waiting.append(outcome)
        begun = _Begun.of(request, appends, waiting, waits=has_parked or bool(waiting) or is_cut)
        if is_cut:
            begun.rest = self._append_in_later_turns(begun, request, client, origins)
        return begun

    def _append_in_later_turns(
        self, begun: _Begun, request: ProduceRequest, client: WaitingClient | None, origins: Origins
    ) -> Rest | None:
        """Append the entries that `begun` does not have in later turns, in which it gets their outcomes.

        Returns None if all of them are refused.
        """
        # It must not keep the request's records: their bytes belong to the receive buffer.
        entries, at, settings = request.partitions, len(begun.appends), replace(request, partitions=[])

        def ended(wanted: ProducePartition, outcome: Ended | asyncio.Future[Ended]) -> None:
            begun.add(wanted, outcome)
            if isinstance(outcome, asyncio.Future):
                rest.wait_for(outcome)
            if rest.over.cancelled():
                # Its client has disconnected, or got the response that it timed out.
                begun.appends[-1].cancel()
            if client is not None and rest.is_empty:
                client.ended()

        def append(wanted: ProducePartition) -> None:
            ended(wanted, self._append_partition(wanted, settings, client, origins))

        def refuse(wanted: ProducePartition, refusal: Refusal) -> None:
            ended(wanted, self._noted(wanted, refusal))

        try:
            rest = self._long.join(entries, at, append, refuse, loop_time_s() + _turn_timeout_s(settings.timeout_ms))
        except Refusal as refusal:
            for wanted in entries[at:]:
                begun.add(wanted, self._noted(wanted, refusal))
            return None
        if client is not None:
            # The client's next request has to be handled after this one.
            client.began()
        return rest

    def _append_partition(
        self, wanted: ProducePartition, request: ProduceRequest, client: WaitingClient | None, origins: Origins
    ) -> Ended | asyncio.Future[Ended]:
        acks = request.acks
        try:
            if acks not in _ACKS:
                raise Refusal(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {acks}: must be 0, 1 or -1 (all)")
            partition = self._partitions.by_name(wanted.topic, wanted.partition)
            self._check_topic(wanted.topic)
            origin = origin_of(origins, request, wanted)
            if partition.waiting_appends.waiting:
                return self._queue_append(partition, wanted, request, client, None, origin)
            try:
                return self._append_to_log(partition, wanted.records, wanted.records, acks, origin)
            except AppendMustWait as wait:
                return self._queue_append(partition, wanted, request, client, wait.work, origin)
        except Refusal as refusal:
            return self._noted(wanted, refusal)

    def _noted(self, wanted: ProducePartition, refusal: Refusal) -> Refusal:
        """Note that these records are refused; later batches of their producer are too."""
        self._refused_sequences.note(
            (wanted.topic, wanted.partition), wanted.records, refusal.error_code, loop_time_s()
        )
        held = self._partitions.find_by_name(wanted.topic, wanted.partition)
        if held is not None:
            held.counts.failed_produces += 1
        # The traceback's frames hold the records, and other appends of the request may wait for long.
        return refusal.with_traceback(None)

    def _append_to_log(
        self, partition: Partition, sent: Buffer, records: ProducedRecords, acks: int, origin: AppendOrigin
    ) -> Appended:
        """Append now. `sent` begins with the header that the producer sent. Raises Refusal and AppendMustWait."""
        if self._refused_sequences:
            self._refused_sequences.check(partition, sent, loop_time_s())
        result = partition.append(records, acks, origin)
        required = Offset(result.last_offset + 1)
        replicated = partition.park_produce(required) if acks == ACKS_ALL else ErrorCode.NONE
        return Appended(partition=partition, result=result, replicated=replicated)

    def _queue_append(
        self,
        partition: Partition,
        wanted: ProducePartition,
        request: ProduceRequest,
        client: WaitingClient | None,
        work: AppendWork | AwaitedChange | None,
        origin: AppendOrigin,
    ) -> asyncio.Future[Ended]:
        """Copy the records and queue them to be appended in their turn. Raises Refusal if too many wait."""
        self._waiting.check_room(len(wanted.records))
        outcome: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        queued = QueuedProduce(
            append_to_log=self._append_to_log,
            refused=self._refused_sequences,
            partition=partition,
            place=(wanted.topic, wanted.partition),
            sent=bytes(wanted.records[:HEADER_BYTES]),
            acks=request.acks,
            origin=origin,
            client=client,
            outcome=outcome,
        )
        if client is not None:
            client.began()
        waiting = WaitingAppend(
            records=bytes(wanted.records),
            work=work,
            deadline_s=loop_time_s() + _turn_timeout_s(request.timeout_ms),
            append=queued.append,
            refuse=queued.refuse,
        )
        self._waiting.join(partition.waiting_appends, waiting)
        return outcome

    async def _answer_when_over(self, begun: _Begun) -> ProduceResponse | None:
        # Computed after its appends' deadlines, so later: no append is made after the response says that it timed out.
        until_s = loop_time_s() + _turn_timeout_s(begun.timeout_ms)
        try:
            if begun.rest is not None:
                await _wait_for([begun.rest.over], until_s)
            await _wait_for(begun.waiting, until_s)
            await _wait_for(begun.parked(), min(until_s, loop_time_s() + begun.timeout_ms / 1_000))
            if len(begun.appends) > ANSWERED_AT_ONCE:
                return await self._answer_in_turns(begun)
            return self._answer(begun)
        finally:
            begun.cancel()

    async def _answer_in_turns(self, begun: _Begun) -> ProduceResponse | None:
        if begun.acks == ACKS_NONE:
            return self._answer(begun)
        turns, results = Turns(ANSWERED_AT_ONCE), list[ProducePartitionResult]()
        for append in begun.outcomes():
            results.append(self._result(append))
            await turns.done()
        return ProduceResponse(request_id=begun.request_id, partitions=results)

    def _answer(self, begun: _Begun) -> ProduceResponse | None:
        """Return the response; appends without an outcome timed out. With acks=0, raises the Refusal of an append."""
        if begun.acks == ACKS_NONE:
            for append in begun.outcomes():
                if isinstance(one := append.outcome_by_now(), Refusal):
                    raise one
            return None
        results = [self._result(append) for append in begun.outcomes()]
        return ProduceResponse(request_id=begun.request_id, partitions=results)

    def _result(self, append: _Append) -> ProducePartitionResult:
        topic, partition = append.topic, append.partition
        match one := append.outcome_by_now():
            case Appended():
                code = code_by_now(one.replicated)
                result, held = one.result, one.partition
                if code is not ErrorCode.NONE:
                    return self._refused(topic, partition, code, self._awaited.after_append(held, result.last_offset))
                return ProducePartitionResult(
                    topic=topic,
                    partition=partition,
                    error_code=ErrorCode.NONE,
                    base_offset=result.base_offset,
                    log_append_time_ms=result.log_append_time_ms,
                    log_start_offset=held.log.log_start_offset,
                    leader_id=held.leader_id,
                    leader_epoch=held.leader_epoch,
                )
            case InvalidRecords():
                refused = self._refused(topic, partition, one.error_code, one.message)
                return replace(refused, record_errors=one.record_errors)
            case Refusal():
                return self._refused(topic, partition, one.error_code, self._awaited.message(topic, partition, one))

    def _refused(self, topic: str, partition: int, code: ErrorCode, message: str) -> ProducePartitionResult:
        leader_id, leader_epoch = self._partitions.leader_hint(topic, partition)
        return ProducePartitionResult(
            topic=topic,
            partition=partition,
            error_code=code,
            error_message=message,
            leader_id=leader_id,
            leader_epoch=leader_epoch,
        )


async def _wait_for(outcomes: Sequence[asyncio.Future[Any]], until_s: float) -> None:
    """Wait until all are done, or `until_s` of the loop's clock, and then cancel the first that is not.

    Unlike asyncio.wait, it goes on in the turn of the loop after the last of them is done, not in the one after that.
    """
    waited_for = [outcome for outcome in outcomes if not outcome.done()]
    if not waited_for:
        return
    with suppress(TimeoutError):
        async with asyncio.timeout_at(until_s):
            for outcome in waited_for:
                await outcome


def _turn_timeout_s(timeout_ms: int) -> float:
    """Return how long an append may wait for its turn. The producer's timeout limits only the wait for replicas."""
    return max(timeout_ms / 1_000, TURN_S_MIN)
