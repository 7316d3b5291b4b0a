from __future__ import annotations

import pytest

from kraft.log.format.record_batch import SEQUENCE_MAX, BatchHeader, build_batch, read_header
from kraft.log.format.record_codec import Record
from kraft.log.recovery.producer_state import Accept, Duplicate, ProducerStates
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import Offset


def batch(sequence: int, count: int = 1, epoch: int = 0, offset: int = 0, producer_id: int = 7) -> BatchHeader:
    records = [Record(0, 1000, None, b"v")] * count
    return read_header(
        build_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    )._replace(base_offset=offset)


def states(*headers: BatchHeader) -> ProducerStates:
    known = ProducerStates()
    for header in headers:
        known.update(header)
    return known


def refused(known: ProducerStates, header: BatchHeader) -> ErrorCode:
    with pytest.raises(Refusal) as refusal:
        known.check(header)
    return refusal.value.error_code


def test_a_batch_that_continues_the_sequence_is_accepted() -> None:
    assert states(batch(0, count=3)).check(batch(3)) == Accept()


def test_a_gap_is_out_of_order() -> None:
    assert refused(states(batch(0, count=3)), batch(4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_retry_gets_the_offsets_of_the_first_time() -> None:
    known = states(batch(0, count=3, offset=100), batch(3, count=2, offset=200))
    assert known.check(batch(0, count=3)) == Duplicate(
        base_offset=Offset(100), last_offset=Offset(102), timestamp_ms=1_000
    )
    assert known.check(batch(3, count=2)) == Duplicate(
        base_offset=Offset(200), last_offset=Offset(201), timestamp_ms=1_000
    )


def test_a_retry_of_another_size_is_no_duplicate() -> None:
    assert refused(states(batch(0, count=3)), batch(0, count=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_five_batches_are_remembered_and_no_more() -> None:
    known = states(*(batch(sequence, offset=sequence) for sequence in range(6)))
    assert isinstance(known.check(batch(1)), Duplicate)
    assert refused(known, batch(0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_sequence_wraps_to_zero() -> None:
    known = states(batch(SEQUENCE_MAX))
    assert known.check(batch(0)) == Accept()
    assert refused(known, batch(1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_sequence_wraps_inside_a_batch() -> None:
    known = states(batch(SEQUENCE_MAX - 1, count=4))
    assert known.check(batch(2)) == Accept()


@pytest.mark.parametrize("counts", [(1, 1, 1, 1, 1), (2, 1, 3, 1, 2), (7, 7, 7, 7, 7)], ids=str)
@pytest.mark.parametrize("before_wrap", range(36))
def test_retries_are_found_wherever_the_sequence_wraps(before_wrap: int, counts: tuple[int, ...]) -> None:
    known, sent, sequence = ProducerStates(), [], SEQUENCE_MAX + 1 - before_wrap
    for number, count in enumerate(counts):
        sent.append(batch(sequence & SEQUENCE_MAX, count, offset=100 * number))
        assert known.check(sent[-1]) == Accept()
        known.update(sent[-1])
        sequence += count
        for retried in sent:
            assert known.check(retried._replace(base_offset=0)) == Duplicate(
                base_offset=Offset(retried.base_offset), last_offset=retried.last_offset, timestamp_ms=1_000
            )
    assert known.check(batch(sequence & SEQUENCE_MAX)) == Accept()


def test_a_retry_is_found_on_a_replica_that_remembers_more_than_an_earlier_leader() -> None:
    sent = [batch(0, offset=0), batch(1, count=2, offset=1)]
    leader, follower = states(*sent), states(*sent)
    leader.expire(0, 1_000)
    leader.expire(1_000, 1_000)
    retried = batch(0, offset=3)
    assert leader.check(retried) == Accept()
    follower.update(retried)
    found = Duplicate(base_offset=Offset(1), last_offset=Offset(2), timestamp_ms=1_000)
    assert follower.check(batch(1, count=2)) == found


def test_an_unknown_producer_may_begin_anywhere() -> None:
    assert ProducerStates().check(batch(42)) == Accept()


def test_a_new_epoch_begins_at_zero() -> None:
    known = states(batch(5))
    assert known.check(batch(0, epoch=1)) == Accept()
    assert refused(known, batch(6, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_old_epoch_is_fenced() -> None:
    assert refused(states(batch(0, epoch=3)), batch(1, epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_the_batches_of_an_old_epoch_are_no_duplicates_of_the_new_one() -> None:
    known = states(batch(0, epoch=0), batch(0, epoch=1, offset=1), batch(1, epoch=1, offset=2))
    assert isinstance(known.check(batch(0, epoch=1)), Duplicate)
    assert refused(known, batch(0, epoch=0)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_marker_raises_the_epoch_and_has_no_sequence() -> None:
    marker = batch(-1, epoch=2, offset=9)._replace(attributes=0x30)
    known = states(batch(5, epoch=1), marker)
    assert refused(known, batch(6, epoch=1)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert known.check(batch(0, epoch=2)) == Accept()


def test_producers_do_not_mix() -> None:
    known = states(batch(5, producer_id=1))
    assert known.check(batch(0, producer_id=2)) == Accept()
    assert known.check(read_header(build_batch([Record(0, 1, None, None)]))) == Accept()
    assert len(known) == 1


def test_it_says_whether_a_truncation_affects_it() -> None:
    known = states(batch(0, offset=10))
    assert known.reaches(Offset(10))
    assert not known.reaches(Offset(11))


def test_a_producer_is_forgotten_when_nothing_of_it_changed_for_so_long() -> None:
    known = states(batch(0, producer_id=9), batch(0, producer_id=8))
    assert known.expire(now_ms=1_000, expiration_ms=500) == 0, "timestamps are the client's, and may be old"
    known.update(batch(1, producer_id=8, offset=5))
    assert known.expire(now_ms=1_499, expiration_ms=500) == 0
    assert known.expire(now_ms=1_500, expiration_ms=500) == 1
    assert (known.get(9), known.get(8) is not None) == (None, True)
