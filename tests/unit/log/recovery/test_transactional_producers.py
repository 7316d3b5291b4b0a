"""Which batches and markers a leader accepts within transactions, and what it remembers of them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from kraft.log.append_work import AppendOrigin
from kraft.log.format.control_record import EndTransactionMarker, MarkerType, build_marker, marker_in
from kraft.log.format.record_batch import BatchHeader, build_batch, read_header
from kraft.log.format.record_codec import Record
from kraft.log.recovery.producer_state import Accept, Duplicate, ProducerStates, RecentBatches
from kraft.log.transactions.aborted import AbortedTxn
from kraft.log.transactions.verification import NOT_REQUIRED
from kraft.model.errors import ErrorCode, Refusal

COMMIT, ABORT = MarkerType.COMMIT, MarkerType.ABORT
UNVERIFIED = AppendOrigin(guard=NOT_REQUIRED)
Step = tuple[BatchHeader, EndTransactionMarker | None]


def batch(
    sequence: int, offset: int = 0, *, epoch: int = 0, count: int = 1, producer_id: int = 7, transactional: bool = True
) -> BatchHeader:
    built = build_batch(
        [Record(0, 1000, None, b"v")] * count,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    return read_header(built)._replace(base_offset=offset)


def marker(
    kind: MarkerType, offset: int = 0, *, epoch: int = 0, coordinator_epoch: int = 0, producer_id: int = 7
) -> Step:
    built = build_marker(EndTransactionMarker(type=kind, coordinator_epoch=coordinator_epoch), producer_id, epoch, 1000)
    header = read_header(built)
    return header._replace(base_offset=offset), marker_in(header, built)


def states(*steps: BatchHeader | Step) -> ProducerStates:
    known = ProducerStates()
    for step in steps:
        update(known, step)
    return known


def update(known: ProducerStates, step: BatchHeader | Step) -> AbortedTxn | None:
    return known.update(step) if isinstance(step, BatchHeader) else known.update(*step)


def refused(known: ProducerStates, header: BatchHeader, origin: AppendOrigin = UNVERIFIED) -> ErrorCode:
    with pytest.raises(Refusal) as refusal:
        known.check(header, None, origin)
    return refusal.value.error_code


def refused_marker(known: ProducerStates, step: Step, transaction_version: int = 0) -> ErrorCode:
    with pytest.raises(Refusal) as refusal:
        known.check(*step, coordinator(transaction_version))
    return refusal.value.error_code


def coordinator(transaction_version: int) -> AppendOrigin:
    return AppendOrigin(is_coordinator=True, transaction_version=transaction_version)


# --- batches -------------------------------------------------------------------------------------------------


def test_the_first_transactional_batch_opens_a_transaction_and_the_marker_ends_it() -> None:
    known = states(batch(0, 10, count=3), batch(3, 20))
    assert known.transactions.first_undecided == 10
    assert known.has_open_transaction(7, epoch=0)
    update(known, marker(COMMIT, 21))
    assert known.transactions.first_undecided != 10
    assert not known.has_open_transaction(7, epoch=0)


def test_a_batch_outside_of_the_open_transaction_is_refused() -> None:
    known = states(batch(0))
    assert refused(known, batch(1, transactional=False)) is ErrorCode.INVALID_TXN_STATE
    update(known, marker(COMMIT, 1))
    assert known.check(batch(1, transactional=False)) == Accept()


def test_a_batch_is_a_duplicate_only_of_one_in_the_open_transaction() -> None:
    known = states(batch(0, 10), batch(1, 11))
    assert isinstance(known.check(batch(0), None, UNVERIFIED), Duplicate)
    assert isinstance(known.check(batch(1), None, UNVERIFIED), Duplicate)
    update(known, marker(ABORT, 12))
    assert refused(known, batch(1)) is ErrorCode.UNKNOWN_PRODUCER_ID
    update(known, batch(2, 13))
    assert isinstance(known.check(batch(2), None, UNVERIFIED), Duplicate)
    assert refused(known, batch(1)) is ErrorCode.UNKNOWN_PRODUCER_ID


def test_a_batch_without_transaction_is_a_duplicate_whatever_has_ended() -> None:
    known = states(batch(0, 10), marker(COMMIT, 11), batch(1, 12, transactional=False))
    assert isinstance(known.check(batch(1, transactional=False), None, UNVERIFIED), Duplicate)


def test_the_sequence_goes_on_after_a_marker_of_the_same_epoch() -> None:
    known = states(batch(0, count=3), marker(COMMIT, 3))
    assert known.check(batch(3), None, UNVERIFIED) == Accept()
    assert refused(known, batch(0, count=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_after_a_marker_that_bumps_the_epoch_the_old_epoch_is_refused_and_the_new_one_begins_at_zero() -> None:
    known = states(batch(0), marker(ABORT, 1, epoch=1))
    assert refused(known, batch(1)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(known, batch(0)) is ErrorCode.INVALID_PRODUCER_EPOCH, "no duplicate: its transaction has ended"
    assert refused(known, batch(1, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert known.check(batch(0, epoch=1), None, UNVERIFIED) == Accept()


def test_a_coordinator_writes_records_without_sequences_in_order_of_epochs() -> None:
    origin = AppendOrigin(is_coordinator=True, guard=NOT_REQUIRED)
    known = states(batch(-1, epoch=1), batch(-1, 1, epoch=1))
    assert known.check(batch(-1, epoch=1), None, origin) == Accept()
    assert refused(known, batch(-1, epoch=0), origin) is ErrorCode.INVALID_PRODUCER_EPOCH


# --- markers -------------------------------------------------------------------------------------------------


def test_a_marker_of_an_old_coordinator_is_fenced() -> None:
    known = states(batch(0), marker(COMMIT, 1, coordinator_epoch=5), batch(1, 2))
    assert refused_marker(known, marker(ABORT, coordinator_epoch=4)) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert known.check(*marker(ABORT, coordinator_epoch=5), coordinator(0)) == Accept()
    assert known.has_open_transaction(7, epoch=0)


def test_a_marker_of_an_old_producer_epoch_is_refused() -> None:
    known = states(batch(0, epoch=3))
    for version in (0, 2):
        assert refused_marker(known, marker(COMMIT, epoch=2), version) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_the_marker_of_version_2_bumps_the_epoch_or_was_written_before() -> None:
    known = states(batch(0, epoch=3))
    assert refused_marker(known, marker(COMMIT, epoch=3), 2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert known.check(*marker(COMMIT, epoch=3), coordinator(1)) == Accept()
    assert known.check(*marker(COMMIT, epoch=4), coordinator(2)) == Accept()
    update(known, marker(COMMIT, 1, epoch=4))
    assert known.check(*marker(COMMIT, epoch=4), coordinator(2)) == Accept(), "the response may have been lost"


def test_a_marker_for_an_unknown_producer_is_accepted_and_fences_its_old_epochs() -> None:
    known = ProducerStates()
    assert known.check(*marker(ABORT, epoch=2), coordinator(2)) == Accept()
    assert update(known, marker(ABORT, epoch=2)) is None, "it ends no transaction here"
    assert refused(known, batch(0, epoch=1)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_an_abort_is_returned_with_the_last_stable_offset_behind_it() -> None:
    known = states(batch(0, 10), batch(0, 20, producer_id=8))
    assert update(known, marker(ABORT, 30, producer_id=8)) == AbortedTxn(8, 20, 30, 10)
    assert update(known, marker(ABORT, 31)) == AbortedTxn(7, 10, 31, 32)
    update(known, batch(1, 40))
    assert update(known, marker(COMMIT, 41)) is None


# --- verification --------------------------------------------------------------------------------------------


def test_only_a_verified_batch_opens_a_transaction() -> None:
    known = ProducerStates()
    assert refused(known, batch(0), AppendOrigin()) is ErrorCode.INVALID_TXN_STATE
    guard = known.verifications.begin(7, epoch=0, sequence=0, begins_at_zero=False)
    assert known.check(batch(0), None, AppendOrigin(guard=guard)) == Accept()
    update(known, batch(0))
    assert known.check(batch(1), None, AppendOrigin()) == Accept(), "the transaction is known here"
    update(known, marker(COMMIT, 1))
    assert refused(known, batch(1), AppendOrigin()) is ErrorCode.INVALID_TXN_STATE


def test_a_marker_invalidates_the_guard_of_a_verification_under_way() -> None:
    known = ProducerStates()
    guard = known.verifications.begin(7, epoch=0, sequence=0, begins_at_zero=False)
    known.check(*marker(ABORT), coordinator(transaction_version=0))
    update(known, marker(ABORT))
    later = known.verifications.begin(7, epoch=0, sequence=0, begins_at_zero=False)
    assert refused(known, batch(0), AppendOrigin(guard=guard)) is ErrorCode.INVALID_TXN_STATE
    assert known.check(batch(0), None, AppendOrigin(guard=later)) == Accept()


def test_the_bumped_marker_of_the_last_transaction_leaves_the_guard_of_the_next_one() -> None:
    known = states(batch(0))
    guard = known.verifications.begin(7, epoch=1, sequence=0, begins_at_zero=True)
    known.check(*marker(COMMIT, epoch=1), coordinator(transaction_version=2))
    update(known, marker(COMMIT, 1, epoch=1))
    assert known.check(batch(0, epoch=1), None, AppendOrigin(guard=guard)) == Accept()
    known.check(*marker(COMMIT, epoch=1), coordinator(transaction_version=0))
    assert refused(known, batch(0, epoch=1), AppendOrigin(guard=guard)) is ErrorCode.INVALID_TXN_STATE


def test_a_batch_behind_one_that_waits_for_verification_is_out_of_order() -> None:
    known = ProducerStates()
    guard = known.verifications.begin(7, epoch=0, sequence=3, begins_at_zero=False)
    assert known.verifications.begin(7, epoch=0, sequence=5, begins_at_zero=False) is guard
    origin = AppendOrigin(guard=guard)
    assert refused(known, batch(5), origin) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert known.check(batch(3), None, origin) == Accept()


def test_a_producer_that_gets_an_epoch_per_transaction_begins_at_zero() -> None:
    known = ProducerStates()
    guard = known.verifications.begin(7, epoch=0, sequence=4, begins_at_zero=True)
    assert refused(known, batch(4), AppendOrigin(guard=guard)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_old_epoch_is_reported_rather_than_a_missing_transaction() -> None:
    assert refused(states(marker(COMMIT, epoch=4)), batch(0, epoch=3), AppendOrigin()) is (
        ErrorCode.INVALID_PRODUCER_EPOCH
    )


# --- expiry and recovery -------------------------------------------------------------------------------------


def test_a_producer_with_an_open_transaction_does_not_expire() -> None:
    known = states(batch(0), batch(0, 1, producer_id=8, transactional=False))
    known.verifications.begin(9, epoch=0, sequence=0, begins_at_zero=False)
    for now_ms in (0, 1_000):
        known.expire(now_ms, expiration_ms=1_000)
    assert list(known.states) == [7]
    assert len(known.verifications) == 0
    update(known, marker(COMMIT, 2))
    for now_ms in (2_000, 3_000):
        known.expire(now_ms, expiration_ms=1_000)
    assert len(known) == 0


@pytest.mark.parametrize("seed", range(200))
def test_a_replay_from_any_state_restores_the_same_state(seed: int) -> None:
    random = Random(seed)
    steps = history(random, random.randrange(120))
    live = states(*steps)
    taken, scanned_from = random.randint(0, len(steps)), random.randint(0, len(steps))
    # The snapshot may be ahead of the scan; what lies between a snapshot and the scan is scanned first.
    found = ProducerStates(states(*steps[:taken]).states)
    for part in (steps[taken:scanned_from], steps[scanned_from:]):
        recent = RecentBatches()
        for header, marker in part:
            recent.note(header, marker)
        found.replay(recent)
    assert found.states == live.states
    assert found.transactions.first_undecided == live.transactions.first_undecided


def history(random: Random, count: int) -> Sequence[Step]:
    """Return what a leader could have written for two producers."""
    known = ProducerStates()
    steps: list[Step] = []
    for offset in range(count):
        producer_id = random.choice((7, 8))
        state = known.get(producer_id)
        epoch = 0 if state is None else state.epoch
        if random.random() < 0.3:
            kind = random.choice((COMMIT, ABORT))
            bump = random.choice((0, 0, 1))
            step = marker(kind, offset, epoch=epoch + bump, coordinator_epoch=offset // 9, producer_id=producer_id)
        else:
            is_open = known.has_open_transaction(producer_id, epoch)
            sequence = 0 if state is None else state.last_sequence + 1
            is_transactional = is_open or random.random() < 0.6
            step = (
                batch(sequence, offset, epoch=epoch, producer_id=producer_id, transactional=is_transactional),
                None,
            )
        known.check(*step, AppendOrigin(is_coordinator=step[1] is not None, guard=NOT_REQUIRED))
        known.update(*step)
        steps.append(step)
    return steps
