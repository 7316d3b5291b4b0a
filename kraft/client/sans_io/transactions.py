"""The transactions of one producer: a state machine without clock or network.

    NEW -> READY -> OPEN -> COMMITTING -> READY
                    OPEN, FAILED, PREPARING, PREPARED, COMMITTING -> ABORTING -> READY
                    OPEN, PREPARING, COMMITTING -> FAILED: the transaction can only be aborted
                    OPEN -> PREPARING -> PREPARED: another client commits it; the producer may abort it
                    any -> DEAD: the producer can only be closed

Only the coordinator's answers to InitProducerId and EndTxn end the producer. A broker that refuses a record because of
its epoch may have seen that the coordinator aborted the transaction after its timeout; the abort shows which it was.

The end of a transaction returns the identity for the next one (KIP-890 part 2). A request that is sent again because
its response was lost has the identity before, by which the coordinator recognises it. Once a commit was sent, its
outcome is unknown until a response comes, so that no abort may follow. If the coordinator does not know the producer of
a commit that was sent before, it stays unknown. Source: Kafka's TransactionManager.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, TypeAlias

from kraft.client.model.errors import ProducerFenced, TransactionAborted, TransactionConflict, TransactionOutcomeUnknown
from kraft.client.sans_io.send_batch import ProducerIdentity
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import NO_PRODUCER_ID
from kraft.wire.schema.end_txn import EndTxnRequest
from kraft.wire.schema.init_producer_id import InitProducerIdRequest

CoordinatorRequest: TypeAlias = InitProducerIdRequest | EndTxnRequest

_FENCED: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})

_UNKNOWN_PRODUCER: Final = frozenset({ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_ID_MAPPING})
"""The coordinator does not know the producer, perhaps because its id has expired: only InitProducerId ends the
transaction (KIP-360)."""

_ABORTABLE: Final = _UNKNOWN_PRODUCER | {ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE}
"""Refusals of a commit after which the transaction is aborted; the coordinator may have done so already."""


class ProducerTransactionState(Enum):
    """State of a producer's transaction."""

    NEW = "the producer has not been initialised"
    READY = "no transaction is open: call begin_transaction first"
    OPEN = "a transaction is open: commit or abort it first"
    FAILED = "the transaction has failed: call abort_transaction first"
    PREPARING = "the transaction is being prepared: call prepare_transaction until it returns"
    PREPARED = "the transaction is prepared, and another client commits it: close the producer"
    COMMITTING = "the transaction is being committed: call commit_transaction until it returns"
    ABORTING = "the transaction is being aborted: call abort_transaction until it returns"
    DEAD = "the producer can only be closed"


class ProducerTransactions:
    """State of a transactional producer, which has one transaction at a time."""

    def __init__(self, transactional_id: str, timeout_ms: int, *, is_temporary: bool = False) -> None:
        """A temporary id is deleted by its coordinator as soon as its transaction has ended."""
        self._transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self.is_temporary = is_temporary
        self.state = ProducerTransactionState.NEW
        self.identity: ProducerIdentity | None = None
        """Identity of the open transaction, or of the next one."""
        self.number = 0
        """Numbers the transactions that were begun, from 1 on."""
        self._is_written = False
        """True if a broker may know of the open transaction."""
        self._is_end_sent = False
        """True if the coordinator may have decided the open transaction as was asked."""
        self._is_end_repeated = False
        """True if it may have done so for an earlier request than the last one."""
        self._must_initialise = False
        self._error: Exception | None = None
        """Why the transaction has failed, or the producer is dead."""

    # --- records ----------------------------------------------------------------------------------------------

    def current(self, call: str = "send") -> int:
        """Return the number of the transaction that a record or an offset belongs to. Raises unless one is open."""
        if self.state is not ProducerTransactionState.OPEN:
            self.check_alive(call)
            raise TransactionConflict(f"{call}: {self._not_open()}")
        return self.number

    def check_open(self, number: int) -> None:
        """Raise unless the transaction with this number is still open."""
        if self.number != number:
            raise TransactionAborted(f"{self._name}: the transaction of the record has ended before it was queued")
        self.current()

    def written(self) -> None:
        """A record or an offset of the open transaction is being sent."""
        self._is_written = True

    def failed(self, error: Exception, number: int | None = None) -> bool:
        """Take an error because of which the open transaction, the one with this number, cannot be committed.

        Return True if it is the first one.
        """
        is_committing = self.state is ProducerTransactionState.COMMITTING and not self._is_end_sent
        may_fail = self.state in (ProducerTransactionState.OPEN, ProducerTransactionState.PREPARING) or is_committing
        if not may_fail or number not in (None, self.number):
            return False
        self.state, self._error = ProducerTransactionState.FAILED, error
        return True

    @property
    def reason(self) -> str:
        """Why the transaction has failed, as text."""
        return "abort_transaction was called" if self._error is None else _text(self._error)

    # --- calls ------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin the next transaction."""
        self.check_alive("begin_transaction")
        if self.state is not ProducerTransactionState.READY:
            raise TransactionConflict(f"begin_transaction: {self.state.value}")
        self.state = ProducerTransactionState.OPEN
        self.number += 1
        self._is_written = self._must_initialise = self._is_end_sent = self._is_end_repeated = False
        self._error = None

    def prepare(self) -> None:
        """Begin or continue to wait until all records are stored."""
        self.check_alive("prepare_transaction")
        if self.state not in (ProducerTransactionState.OPEN, ProducerTransactionState.PREPARING):
            raise TransactionConflict(f"prepare_transaction: {self._not_open()}")
        self.state = ProducerTransactionState.PREPARING

    def prepared(self) -> ProducerIdentity | None:
        """End the part of this producer. Return its identity; None if there is no record, and nothing to commit."""
        self.check_alive("prepare_transaction")
        self.state = ProducerTransactionState.PREPARED if self._is_written else ProducerTransactionState.READY
        return self.identity if self._is_written else None

    def commit(self) -> None:
        """Begin or continue to commit."""
        self.check_alive("commit_transaction")
        if self.state not in (ProducerTransactionState.OPEN, ProducerTransactionState.COMMITTING):
            raise TransactionConflict(f"commit_transaction: {self._not_open()}")
        self.state = ProducerTransactionState.COMMITTING

    def abort(self) -> None:
        """Begin or continue to abort."""
        if self.state is ProducerTransactionState.DEAD:
            self.check_alive("abort_transaction")
        if not self.may_abort and self.state is not ProducerTransactionState.PREPARED:
            raise TransactionConflict(f"abort_transaction: {self._not_open()}")
        self.state = ProducerTransactionState.ABORTING

    @property
    def may_abort(self) -> bool:
        """True unless there is nothing to abort, or the transaction may be committed already, or by another client."""
        if self.state is ProducerTransactionState.COMMITTING:
            return not self._is_end_sent
        return self.state in (
            ProducerTransactionState.OPEN,
            ProducerTransactionState.FAILED,
            ProducerTransactionState.PREPARING,
            ProducerTransactionState.ABORTING,
        )

    def check_alive(self, call: str) -> None:
        """Raise the error that ended the producer, or TransactionAborted if the transaction can only be aborted."""
        if self._error is None:
            return
        if self.state is ProducerTransactionState.DEAD:
            raise self._error
        if self.state is ProducerTransactionState.FAILED:
            raise TransactionAborted(
                f"{call}: the transaction of {self._name} has failed; call abort_transaction, then begin again. "
                f"Reason: {self.reason}"
            ) from self._error

    # --- requests ---------------------------------------------------------------------------------------------

    def next_request(self) -> CoordinatorRequest | None:
        """Return the request that is due. A transaction of which no broker knows ends without one."""
        if self.state is ProducerTransactionState.NEW:
            return self._initialise()
        if self.state not in (ProducerTransactionState.COMMITTING, ProducerTransactionState.ABORTING):
            return None
        if not self._is_written:
            self.state = ProducerTransactionState.READY
            return None
        if self._must_initialise:
            return self._initialise()
        assert self.identity is not None, "a transaction has an identity"
        self._is_end_repeated, self._is_end_sent = self._is_end_sent, True
        return EndTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            committed=self.state is ProducerTransactionState.COMMITTING,
        )

    def sent_again(self) -> None:
        """The same request is sent once more, because no response to it came, or a refusal that retries may end."""
        self._is_end_repeated = True

    def answered(self, identity: ProducerIdentity) -> None:
        """The request was carried out: this is the identity for the next transaction."""
        self.identity = identity
        self.state = ProducerTransactionState.READY

    def refused(self, refusal: Refusal) -> None:
        """Take a refusal that retries do not end."""
        code = refusal.error_code
        if self.state is ProducerTransactionState.ABORTING and self.is_temporary and code in _UNKNOWN_PRODUCER:
            self._die(TransactionConflict("the temporary transactional.id was deleted: use another producer"))
        elif code in _FENCED:
            self._die(
                ProducerFenced(
                    ErrorCode.PRODUCER_FENCED,
                    f"{self._name} is used by another producer; close this one ({refusal.message})",
                )
            )
        elif self.state is ProducerTransactionState.COMMITTING and self._is_end_repeated and code in _UNKNOWN_PRODUCER:
            self._die(
                TransactionOutcomeUnknown(
                    f"the transaction of {self._name} was committed or aborted: the response to a first commit was "
                    f"lost, and a second one was refused. Read what it wrote before it is written again ({refusal})"
                )
            )
        elif self.state is ProducerTransactionState.COMMITTING and code in _ABORTABLE:
            self._is_end_sent, self._must_initialise = False, code in _UNKNOWN_PRODUCER
            self.failed(refusal)
        elif (
            self.state is ProducerTransactionState.ABORTING and code in _UNKNOWN_PRODUCER and not self._must_initialise
        ):
            self._must_initialise = True
        else:
            self._die(refusal)

    def _initialise(self) -> InitProducerIdRequest:
        identity = self.identity
        return InitProducerIdRequest(
            transactional_id=self._transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=NO_PRODUCER_ID if identity is None else identity.producer_id,
            producer_epoch=-1 if identity is None else identity.producer_epoch,
        )

    # --- inside -----------------------------------------------------------------------------------------------

    @property
    def _name(self) -> str:
        return f"transactional.id {self._transactional_id!r}"

    def _die(self, error: Exception) -> None:
        self.state, self._error = ProducerTransactionState.DEAD, error

    def _not_open(self) -> str:
        return ProducerTransactionState.READY.value if self.state is ProducerTransactionState.NEW else self.state.value


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__
