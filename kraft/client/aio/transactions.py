"""Carries out a producer's transactions: waits for its records, and asks the coordinator.

`ProducerTransactions` says what may be done and what is to be asked. Calls are carried out one after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from kraft.client.aio.sender import Sender
from kraft.client.cluster.coordinators import Coordinators
from kraft.client.model.errors import TransactionAborted, TransactionTimeout
from kraft.client.model.group_offsets import Offsets, check_committed, transactional_topics
from kraft.client.model.values import GroupMetadata
from kraft.client.sans_io.send_batch import ProducerIdentity
from kraft.client.sans_io.transactions import CoordinatorRequest, ProducerTransactions, ProducerTransactionState
from kraft.model.errors import KraftError, Refusal
from kraft.model.find_coordinator import CoordinatorType
from kraft.model.ids import ProducerEpoch, ProducerId
from kraft.model.transactions import PreparedTransaction
from kraft.rpc.calls import INIT_PRODUCER_ID, INIT_TEMPORARY_PRODUCER_ID
from kraft.rpc.group_calls import TXN_OFFSET_COMMIT
from kraft.rpc.peers import Unreachable
from kraft.rpc.transaction_calls import END_TXN
from kraft.runtime.clock import Clock
from kraft.wire.schema.end_txn import EndTxnRequest, EndTxnResponse
from kraft.wire.schema.init_producer_id import InitProducerIdRequest
from kraft.wire.schema.txn_offset_commit import TxnOffsetCommitRequest


class TransactionCalls:
    """The calls about transactions of one producer."""

    def __init__(
        self, transactional_id: str, state: ProducerTransactions, started: Callable[[], Sender], clock: Clock
    ) -> None:
        """`started` returns the producer's sender. Raises ClientClosed after the producer was closed."""
        self._transactional_id = transactional_id
        self._state = state
        self._started = started
        self._clock = clock
        self._in_order = asyncio.Lock()
        self._known_coordinators: Coordinators | None = None
        self._group_coordinators: Coordinators | None = None

    # --- calls ------------------------------------------------------------------------------------------------

    async def initialise(self, timeout_ms: int) -> None:
        """Get the producer's identity, unless it has one, and end what an earlier producer with the id left open."""
        async with self._call("init_transactions", timeout_ms) as deadline_ms:
            if self._state.state is ProducerTransactionState.NEW:
                await self._ask("init_transactions", deadline_ms, timeout_ms)
            self._state.check_alive("init_transactions")

    async def begin(self, timeout_ms: int) -> None:
        async with self._call("begin_transaction", timeout_ms) as deadline_ms:
            if self._state.state is ProducerTransactionState.NEW:
                await self._ask("begin_transaction", deadline_ms, timeout_ms)
            self._state.begin()
            assert self._state.identity is not None, "an initialised producer has an identity"
            self._started().begin_transaction(self._state.identity)

    async def commit(self, timeout_ms: int) -> None:
        async with self._call("commit_transaction", timeout_ms) as deadline_ms:
            self._state.commit()
            await self._flush("commit_transaction", deadline_ms, timeout_ms)
            self._state.check_alive("commit_transaction")
            await self._ask("commit_transaction", deadline_ms, timeout_ms)
            self._state.check_alive("commit_transaction")

    async def prepare(self, timeout_ms: int) -> PreparedTransaction | None:
        """Wait until each record is stored; the transaction stays open. None if there are no records."""
        async with self._call("prepare_transaction", timeout_ms) as deadline_ms:
            self._state.prepare()
            await self._flush("prepare_transaction", deadline_ms, timeout_ms)
            identity = self._state.prepared()
            if identity is None:
                return None
            return PreparedTransaction(
                transactional_id=self._transactional_id,
                producer_id=identity.producer_id,
                producer_epoch=identity.producer_epoch,
            )

    async def send_offsets(self, offsets: Offsets, group: GroupMetadata, timeout_ms: int) -> None:
        """Commit the offsets with the open transaction, which fails if that does not succeed."""
        call = "send_offsets_to_transaction"
        async with self._call(call, timeout_ms) as deadline_ms:
            self._state.current(call)
            if not offsets:
                return
            self._state.written()
            try:
                await self._send_offsets(offsets, group, deadline_ms)
            except (Refusal, Unreachable) as error:
                self._started().fail_transaction(error)
                self._state.check_alive(call)
                raise
            except BaseException:
                # It is unknown whether the transaction has the offsets.
                self._started().fail_transaction(TransactionAborted(f"{call} was interrupted"))
                raise

    async def abort(self, timeout_ms: int) -> None:
        async with self._call("abort_transaction", timeout_ms) as deadline_ms:
            await self._abort(deadline_ms, timeout_ms)

    async def abort_open(self, timeout_ms: int, number: int | None = None) -> None:
        """Abort the transaction, the one with this number, unless it has ended or may be committed already."""
        async with self._call("abort_transaction", timeout_ms) as deadline_ms:
            if self._state.may_abort and number in (None, self._state.number):
                await self._abort(deadline_ms, timeout_ms)

    async def abort_after(self, error: BaseException, number: int, timeout_ms: int) -> None:
        """Abort the transaction with this number if the error has left it open. A failure to is added to the error."""
        try:
            await self.abort_open(timeout_ms, number)
        except (KraftError, Unreachable) as failure:
            error.add_note(f"the transaction was not aborted: {failure}")

    @property
    def next_number(self) -> int:
        """Number of the transaction that the next call begins."""
        return self._state.number + 1

    def is_open(self, number: int) -> bool:
        """True if the transaction with this number has begun, and not ended."""
        return self._state.number == number and self._state.state is not ProducerTransactionState.READY

    async def _abort(self, deadline_ms: int, timeout_ms: int) -> None:
        sender = self._started()
        self._state.abort()
        sender.give_up()
        await self._flush("abort_transaction", deadline_ms, timeout_ms)
        await self._ask("abort_transaction", deadline_ms, timeout_ms)
        self._state.check_alive("abort_transaction")

    # --- inside -----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _call(self, call: str, timeout_ms: int) -> AsyncGenerator[int, None]:
        """Wait for earlier calls to end. The value is the deadline."""
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._in_order.acquire()
        except TimeoutError:
            raise _timed_out(call, timeout_ms, "an earlier call has not ended") from None
        try:
            yield deadline_ms
        finally:
            self._in_order.release()

    async def _flush(self, call: str, deadline_ms: int, timeout_ms: int) -> None:
        """Wait until each record is stored, or has failed."""
        if not await self._started().flush(max(0, deadline_ms - self._clock.monotonic_ms())):
            delay = self._started().longest_delay()
            reason = "records are not stored yet" if delay is None else f"{delay.partition}: {delay.reason}"
            raise _timed_out(call, timeout_ms, reason)

    async def _ask(self, call: str, deadline_ms: int, timeout_ms: int) -> None:
        """Ask the coordinator until the state machine has no further request."""
        while (request := self._state.next_request()) is not None:
            try:
                identity = await self._send(request, deadline_ms)
            except Refusal as refusal:
                if refusal.error_code.retriable:
                    raise _timed_out(call, timeout_ms, str(refusal)) from refusal
                self._state.refused(refusal)
            except Unreachable as error:
                raise _timed_out(call, timeout_ms, str(error)) from error
            else:
                self._state.answered(identity)

    async def _send_offsets(self, offsets: Offsets, group: GroupMetadata, deadline_ms: int) -> None:
        identity = self._state.identity
        assert identity is not None, "a transaction has an identity"
        request = TxnOffsetCommitRequest(
            group_id=group.group_id,
            member_id=group.member_id,
            group_instance_id=group.instance_id,
            generation_id=group.generation,
            topics=transactional_topics(offsets),
            transactional_id=self._transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
        )
        if self._group_coordinators is None:
            self._group_coordinators = self._started().coordinators(CoordinatorType.GROUP)
        await self._group_coordinators.call(group.group_id, TXN_OFFSET_COMMIT, request, deadline_ms, check_committed)

    def _ending(self, coordinators: Coordinators, request: EndTxnRequest) -> Callable[[int], Awaitable[EndTxnResponse]]:
        """Return what sends the request once, and tells the state machine of each time after the first."""
        times = count()

        async def attempt(timeout_ms: int) -> EndTxnResponse:
            if next(times):
                self._state.sent_again()
            return await coordinators.attempt(self._transactional_id, END_TXN, request, timeout_ms)

        return attempt

    async def _send(self, request: CoordinatorRequest, deadline_ms: int) -> ProducerIdentity:
        if self._known_coordinators is None:
            self._known_coordinators = self._started().coordinators(CoordinatorType.TRANSACTION)
        coordinators, key = self._known_coordinators, self._transactional_id
        response: Any
        if isinstance(request, InitProducerIdRequest):
            init = INIT_TEMPORARY_PRODUCER_ID if self._state.is_temporary else INIT_PRODUCER_ID
            response = await coordinators.call(key, init, request, deadline_ms)
        else:
            response = await coordinators.until(deadline_ms, self._ending(coordinators, request))
        return ProducerIdentity(
            producer_id=ProducerId(response.producer_id), producer_epoch=ProducerEpoch(response.producer_epoch)
        )


def _timed_out(call: str, timeout_ms: int, reason: str) -> TransactionTimeout:
    return TransactionTimeout(f"{call} did not end within {timeout_ms} ms, and may be repeated; last reason: {reason}")
