"""`SendBuffer` in transactions."""

from __future__ import annotations

from kraft.client.model.errors import DeliveryTimeout, TransactionAborted
from kraft.client.sans_io.send_buffer import Attempt, Failed, SendBuffer
from kraft.log.format.record_batch import read_header
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition
from tests.unit.client.sans_io.sends import drain, identity, new_buffer, payloads, put, result, sequences

OTHER = TopicPartition("orders", 1)


def begun(**settings: object) -> SendBuffer:
    """The same as `new_buffer`, in a transaction whose identity has producer id 1."""
    buffer = new_buffer(transactional_id="payments", **settings)
    buffer.begin_transaction(identity(1))
    return buffer


def known(**settings: object) -> SendBuffer:
    """The same, after the first record of the partition was stored: sequence 1 is next, and five may be in flight."""
    buffer = begun(**settings)
    put(buffer, b"first")
    (attempt,) = drain(buffer)
    buffer.answered(attempt, result(base_offset=0), 0)
    return buffer


def given_up(attempts: list[Attempt], outcomes: list[object]) -> bool:
    failed = [
        each.batch for each in outcomes if isinstance(each, Failed) and isinstance(each.error, TransactionAborted)
    ]
    return failed == [each.batch for each in attempts]


def test_batches_are_marked_as_transactional() -> None:
    buffer = begun()
    put(buffer, b"a")
    (attempt,) = drain(buffer)
    assert read_header(attempt.batch.encoded or b"").is_transactional


def test_no_lane_asks_for_a_producer_id() -> None:
    buffer = begun()
    put(buffer, b"a")
    (attempt,) = drain(buffer)
    buffer.answered(attempt, result(ErrorCode.UNKNOWN_PRODUCER_ID), 0)
    put(buffer, b"b")
    assert not buffer.needs_identity


def test_each_transaction_begins_with_sequence_0() -> None:
    buffer = begun()
    for number in (1, 2, 3):
        buffer.begin_transaction(identity(number))
        for sequence in (0, 1):
            put(buffer, b"a")
            attempts = drain(buffer)
            assert sequences(attempts) == [(number, sequence)]
            buffer.answered(attempts[0], result(base_offset=0), 0)


def test_a_transaction_in_which_nothing_was_sent_leaves_its_identity_to_the_next() -> None:
    buffer = begun()
    put(buffer, b"dropped")
    assert len(buffer.give_up("aborted")) == 1
    buffer.begin_transaction(identity(1))
    put(buffer, b"sent")
    assert sequences(drain(buffer)) == [(1, 0)]


def test_what_is_given_up_is_dropped_unless_it_is_in_flight() -> None:
    buffer = known()
    told = put(buffer, b"a")
    (in_flight,) = drain(buffer)
    put(buffer, b"b")
    put(buffer, b"c", partition=OTHER)
    outcomes = buffer.give_up("a record has failed")
    assert [type(each) for each in outcomes] == [Failed, Failed]
    assert "the transaction of the records is aborted: a record has failed" in str(outcomes[0])
    assert buffer.unfinished() == {in_flight.batch.serial}
    assert len(buffer.answered(in_flight, result(base_offset=1), 0)) == 1
    assert (buffer.unfinished(), buffer.memory_used, told.errors) == (set(), 0, [])


def test_what_is_in_flight_is_not_sent_again_once_it_is_given_up() -> None:
    for code in (None, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        buffer = known()
        put(buffer, b"a", b"b")
        attempts = drain(buffer)
        buffer.give_up("aborted")
        outcomes: list[object] = []
        for attempt in reversed(attempts):
            if code is None:
                outcomes[:0] = buffer.lost(attempt, "the stream broke", 0)
            else:
                outcomes[:0] = buffer.answered(attempt, result(code), 0)
        assert [each.batch for each in outcomes if isinstance(each, Failed)] == [each.batch for each in attempts]
        assert drain(buffer, now_ms=60_000) == []


def test_what_a_former_leader_has_is_dropped_once_it_is_given_up() -> None:
    buffer = known()
    put(buffer, b"a")
    attempts = drain(buffer)
    buffer.give_up("aborted")
    buffer.leader_moved(attempts[0].batch.partition, "b2")
    assert given_up(attempts, list(buffer.expire(0)))


def test_the_next_transaction_is_sent_again() -> None:
    buffer = known()
    put(buffer, b"a")
    buffer.give_up("aborted")
    buffer.begin_transaction(identity(2))
    put(buffer, b"b")
    attempts = drain(buffer)
    assert (payloads(attempts), sequences(attempts)) == ([b"b"], [(2, 0)])


def test_an_expired_batch_is_an_error_of_its_own() -> None:
    buffer = begun()
    told = put(buffer, b"a")
    (outcome,) = buffer.expire(120_000)
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, DeliveryTimeout)
    assert told.errors == []


def test_a_batch_that_is_too_large_continues_with_its_sequences_under_the_same_identity() -> None:
    buffer = known(batch_size=1_000)
    put(buffer, *(b"%d" % number for number in range(4)))
    buffer.close_batches()
    put(buffer, b"4")
    too_large, behind = drain(buffer)
    assert buffer.answered(too_large, result(ErrorCode.MESSAGE_TOO_LARGE), 0) == []
    assert drain(buffer, now_ms=1_000) == [], "a batch behind it is still in flight"
    buffer.answered(behind, result(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), 0)
    attempts = drain(buffer, now_ms=1_000)
    assert payloads(attempts) == [b"%d" % number for number in range(5)]
    assert sequences(attempts) == [(1, 1), (1, 3), (1, 5)]


def test_a_batch_before_one_that_is_too_large_keeps_its_sequences() -> None:
    buffer = known(batch_size=1_000)
    put(buffer, b"0")
    buffer.close_batches()
    put(buffer, b"1", b"2")
    before, too_large = drain(buffer)
    buffer.answered(before, result(ErrorCode.NOT_ENOUGH_REPLICAS), 0)
    buffer.answered(too_large, result(ErrorCode.MESSAGE_TOO_LARGE), 0)
    assert sequences(drain(buffer, now_ms=1_000)) == [(1, 1), (1, 2), (1, 3)]


def test_a_batch_is_not_split_while_a_broker_may_still_receive_what_was_behind_it() -> None:
    """Its records would be stored twice, under the sequences that the halves leave free."""
    buffer = known(batch_size=1_000)
    put(buffer, b"0", b"1")
    buffer.close_batches()
    put(buffer, b"2")
    too_large, behind = drain(buffer)
    buffer.lost(behind, "the stream broke", 0)
    (outcome,) = buffer.answered(too_large, result(ErrorCode.MESSAGE_TOO_LARGE), 0)
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, Refusal)


def test_the_end_of_the_last_transaction_is_waited_for_in_short_pauses() -> None:
    buffer = begun()
    put(buffer, b"a")
    pauses, now_ms = [], 0
    for _ in range(6):
        (attempt,) = drain(buffer, now_ms=now_ms)
        buffer.answered(attempt, result(ErrorCode.CONCURRENT_TRANSACTIONS), now_ms)
        due_ms = buffer.next_deadline_ms(now_ms)
        assert due_ms is not None
        pauses.append(due_ms - now_ms)
        now_ms = due_ms
    assert pauses == [20, 40, 80, 100, 100, 100]
