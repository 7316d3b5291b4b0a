from __future__ import annotations

import pytest

from kraft.client.model.errors import (
    DeliveryTimeout,
    ProducerFenced,
    TransactionAborted,
    TransactionConflict,
    TransactionOutcomeUnknown,
)
from kraft.client.sans_io.send_batch import ProducerIdentity
from kraft.client.sans_io.transactions import ProducerTransactions, ProducerTransactionState
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import ProducerEpoch, ProducerId, TopicPartition
from kraft.wire.schema.end_txn import EndTxnRequest
from kraft.wire.schema.init_producer_id import InitProducerIdRequest

UNKNOWN_PRODUCER = [ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_ID_MAPPING]
FENCED = [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH]
TIMEOUT = DeliveryTimeout(TopicPartition("orders", 0), 120_000, "NOT_ENOUGH_REPLICAS")


def identity(epoch: int) -> ProducerIdentity:
    return ProducerIdentity(producer_id=ProducerId(7), producer_epoch=ProducerEpoch(epoch))


def end(epoch: int, *, committed: bool) -> EndTxnRequest:
    return EndTxnRequest(transactional_id="payments", producer_id=7, producer_epoch=epoch, committed=committed)


def refusal(code: ErrorCode) -> Refusal:
    return Refusal(code, "because")


def ready(*, is_temporary: bool = False) -> ProducerTransactions:
    transactions = ProducerTransactions("payments", 60_000, is_temporary=is_temporary)
    assert isinstance(transactions.next_request(), InitProducerIdRequest)
    transactions.answered(identity(4))
    return transactions


def opened(*, is_written: bool = True, is_temporary: bool = False) -> ProducerTransactions:
    transactions = ready(is_temporary=is_temporary)
    transactions.begin()
    if is_written:
        transactions.written()
    return transactions


def test_a_producer_is_initialised_with_its_id_and_the_timeout_of_its_transactions() -> None:
    transactions = ProducerTransactions("payments", 60_000)
    with pytest.raises(TransactionConflict, match="begin_transaction: the producer has not been initialised"):
        transactions.begin()
    for call in (transactions.commit, transactions.abort):
        with pytest.raises(TransactionConflict, match="no transaction is open: call begin_transaction first"):
            call()
    request = InitProducerIdRequest(transactional_id="payments", transaction_timeout_ms=60_000)
    assert transactions.next_request() == request
    assert transactions.next_request() == request, "a lost response is asked for again"
    transactions.answered(identity(0))
    assert transactions.next_request() is None
    transactions.begin()
    assert transactions.identity == identity(0)


@pytest.mark.parametrize("committed", [True, False])
def test_the_end_of_a_transaction_gives_the_identity_of_the_next(committed: bool) -> None:
    transactions = opened()
    transactions.commit() if committed else transactions.abort()
    assert transactions.next_request() == end(4, committed=committed)
    assert transactions.next_request() == end(4, committed=committed), "a retry has the same epoch"
    transactions.answered(identity(5))
    transactions.begin()
    assert (transactions.identity, transactions.number) == (identity(5), 2)


@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_of_which_no_broker_knows_ends_without_a_request(committed: bool) -> None:
    transactions = opened(is_written=False)
    transactions.commit() if committed else transactions.abort()
    assert transactions.next_request() is None
    assert (transactions.state, transactions.identity) == (ProducerTransactionState.READY, identity(4))


def test_records_belong_to_an_open_transaction() -> None:
    transactions = ready()
    with pytest.raises(TransactionConflict, match="send: no transaction is open: call begin_transaction first"):
        transactions.current()
    transactions.begin()
    assert transactions.current() == 1
    transactions.check_open(1)
    transactions.commit()
    with pytest.raises(TransactionConflict, match="send: the transaction is being committed"):
        transactions.check_open(1)


def test_a_record_does_not_get_into_the_transaction_after_its_own() -> None:
    transactions = opened(is_written=False)
    transactions.abort()
    transactions.next_request()
    transactions.begin()
    with pytest.raises(TransactionAborted, match="has ended before it was queued"):
        transactions.check_open(1)
    transactions.check_open(2)


@pytest.mark.parametrize("call", ["commit", "abort"])
def test_what_is_not_open_is_not_ended(call: str) -> None:
    with pytest.raises(TransactionConflict, match=f"{call}_transaction: no transaction is open"):
        getattr(ready(), call)()


def test_a_transaction_is_not_begun_in_another() -> None:
    with pytest.raises(TransactionConflict, match="begin_transaction: a transaction is open: commit or abort it first"):
        opened().begin()


def test_a_failed_record_leaves_only_the_abort() -> None:
    transactions = opened()
    assert transactions.failed(TIMEOUT)
    assert not transactions.failed(TIMEOUT), "the first error is the reason"
    for call in (transactions.begin, transactions.commit, transactions.current):
        with pytest.raises(TransactionAborted, match="call abort_transaction, then begin again") as caught:
            call()
        assert caught.value.__cause__ is TIMEOUT
    transactions.abort()
    assert transactions.next_request() == end(4, committed=False)
    transactions.answered(identity(5))
    transactions.begin()
    transactions.check_alive("send")


def test_a_record_that_fails_during_the_commit_fails_the_transaction() -> None:
    transactions = opened()
    transactions.commit()
    assert transactions.failed(TIMEOUT)
    assert transactions.next_request() is None
    with pytest.raises(TransactionAborted):
        transactions.check_alive("commit_transaction")


def test_an_error_of_an_earlier_transaction_does_not_fail_the_present_one() -> None:
    transactions = opened()
    transactions.abort()
    transactions.next_request()
    transactions.answered(identity(5))
    transactions.begin()
    assert not transactions.failed(TIMEOUT, number=1)
    assert transactions.failed(TIMEOUT, number=2)


def test_a_commit_whose_outcome_is_unknown_can_only_be_repeated() -> None:
    transactions = opened()
    transactions.commit()
    may_abort = [transactions.may_abort]
    transactions.next_request()
    may_abort.append(transactions.may_abort)
    assert may_abort == [True, False], "the coordinator may have decided the transaction since the request"
    with pytest.raises(TransactionConflict, match="call commit_transaction until it returns"):
        transactions.abort()
    assert not transactions.failed(TIMEOUT)
    transactions.commit()
    assert transactions.next_request() == end(4, committed=True)


def test_an_abort_whose_outcome_is_unknown_is_repeated() -> None:
    transactions = opened()
    transactions.abort()
    transactions.next_request()
    with pytest.raises(TransactionConflict, match="call abort_transaction until it returns"):
        transactions.begin()
    transactions.abort()
    assert transactions.next_request() == end(4, committed=False)


@pytest.mark.parametrize("code", [ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE])
def test_a_commit_that_the_coordinator_refuses_is_followed_by_an_abort(code: ErrorCode) -> None:
    transactions = opened()
    transactions.commit()
    transactions.next_request()
    transactions.refused(refusal(code))
    with pytest.raises(TransactionAborted, match=f"{code.name}: because"):
        transactions.check_alive("commit_transaction")
    transactions.abort()
    assert transactions.next_request() == end(4, committed=False)


@pytest.mark.parametrize("code", UNKNOWN_PRODUCER)
@pytest.mark.parametrize("committed", [True, False])
def test_a_producer_that_the_coordinator_does_not_know_is_initialised_with_its_identity(
    code: ErrorCode, committed: bool
) -> None:
    transactions = opened()
    transactions.commit() if committed else transactions.abort()
    transactions.next_request()
    transactions.refused(refusal(code))
    if committed:
        with pytest.raises(TransactionAborted):
            transactions.check_alive("commit_transaction")
        transactions.abort()
    assert transactions.next_request() == InitProducerIdRequest(
        transactional_id="payments", transaction_timeout_ms=60_000, producer_id=7, producer_epoch=4
    )
    transactions.answered(identity(0))
    transactions.begin()
    assert transactions.identity == identity(0)


@pytest.mark.parametrize("code", UNKNOWN_PRODUCER)
@pytest.mark.parametrize("is_temporary", [True, False])
def test_a_commit_that_was_sent_before_and_is_not_known_has_an_unknown_outcome(
    code: ErrorCode, is_temporary: bool
) -> None:
    """Perhaps the first one has committed, and its response was lost."""
    transactions = opened(is_temporary=is_temporary)
    transactions.commit()
    transactions.next_request()
    transactions.sent_again()
    transactions.refused(refusal(code))
    with pytest.raises(TransactionOutcomeUnknown, match="Read what it wrote before"):
        transactions.check_alive("commit_transaction")
    assert not transactions.may_abort
    assert transactions.next_request() is None


def test_a_commit_that_timed_out_and_is_called_again_was_sent_before() -> None:
    transactions = opened(is_temporary=True)
    for _ in range(2):
        transactions.commit()
        transactions.next_request()
    transactions.refused(refusal(UNKNOWN_PRODUCER[0]))
    assert transactions.state is ProducerTransactionState.DEAD


@pytest.mark.parametrize("code", [*UNKNOWN_PRODUCER, ErrorCode.INVALID_REQUEST])
def test_a_producer_that_cannot_be_initialised_again_is_dead(code: ErrorCode) -> None:
    transactions = opened()
    transactions.abort()
    transactions.next_request()
    transactions.refused(refusal(UNKNOWN_PRODUCER[0]))
    transactions.next_request()
    transactions.refused(refusal(code))
    assert transactions.state is ProducerTransactionState.DEAD


@pytest.mark.parametrize("code", FENCED)
@pytest.mark.parametrize("call", ["init", "commit", "abort"])
def test_a_fenced_producer_can_only_be_closed(code: ErrorCode, call: str) -> None:
    transactions = ProducerTransactions("payments", 60_000) if call == "init" else opened()
    if call != "init":
        getattr(transactions, call)()
    transactions.next_request()
    transactions.refused(refusal(code))
    assert transactions.next_request() is None
    assert not transactions.may_abort
    for each in (transactions.begin, transactions.commit, transactions.abort, transactions.current):
        with pytest.raises(ProducerFenced, match="is used by another producer; close this one") as caught:
            each()
        assert caught.value.error_code is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_TXN_STATE,
    ],
)
def test_any_other_refusal_ends_the_producer(code: ErrorCode) -> None:
    transactions = ProducerTransactions("payments", 60_000)
    transactions.next_request()
    transactions.refused(refusal(code))
    with pytest.raises(Refusal) as caught:
        transactions.begin()
    assert caught.value.error_code is code


def test_an_abort_that_comes_too_late_ends_the_producer() -> None:
    """The transaction is committed: only another producer with this identity can have done so."""
    transactions = opened()
    transactions.abort()
    transactions.next_request()
    transactions.refused(refusal(ErrorCode.INVALID_TXN_STATE))
    assert transactions.state is ProducerTransactionState.DEAD


@pytest.mark.parametrize("code", FENCED)
def test_a_record_that_is_refused_by_its_epoch_does_not_end_the_producer(code: ErrorCode) -> None:
    """The coordinator may have aborted the transaction after its timeout; the abort asks it."""
    transactions = opened()
    assert transactions.failed(refusal(code))
    transactions.abort()
    assert transactions.next_request() == end(4, committed=False)
