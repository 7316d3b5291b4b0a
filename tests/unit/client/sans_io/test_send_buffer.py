from __future__ import annotations

import random
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft.client.model.errors import ClientClosed, DeliveryTimeout
from kraft.client.model.settings import ProducerSettings, settings_of
from kraft.client.sans_io.column_records import ColumnRecords
from kraft.client.sans_io.send_buffer import Attempt, BatchOutcome, Delivered, Failed, SendBuffer
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition
from kraft.model.produce import ProducePartitionResult
from tests.support.client.fake_partition import FakePartition
from tests.unit.client.sans_io.sends import (
    ORDERS,
    Told,
    buffer_with,
    drain,
    identity,
    new_buffer,
    payloads,
    put,
    result,
    sequences,
)


def test_batches_are_numbered_in_the_order_of_their_records() -> None:
    buffer = buffer_with()
    put(buffer, b"a", b"b", b"c")

    attempts = drain(buffer)

    assert payloads(attempts) == [b"a", b"b", b"c"]
    assert sequences(attempts) == [(1, 1), (1, 2), (1, 3)]


def test_records_linger_until_the_batch_is_full_or_time_is_up() -> None:
    buffer = buffer_with(batch_size=150, linger_ms=10)
    put(buffer, b"x" * 20)
    assert drain(buffer, now_ms=9) == []
    assert buffer.next_deadline_ms(9) == 10
    assert len(drain(buffer, now_ms=10)) == 1

    put(buffer, b"x" * 20, b"x" * 20, b"x" * 20, now_ms=10)
    assert len(drain(buffer, now_ms=10)) == 1


def test_many_records_fill_the_open_batch_before_the_next_one() -> None:
    buffer = new_buffer(batch_size=1_000, linger_ms=10)
    records = ColumnRecords([None] * 20, [b"x" * 79] * 20, [()] * 20, [7] * 20)
    ends = list(accumulate(records.sizes()))
    assert ends[:2] == [100, 200]
    # 61 bytes are the batch's header: nine records fit into one, and six beside three.
    assert buffer.fitting(ORDERS, ends, 0) == 9
    put(buffer, b"y" * 79, b"y" * 79, b"y" * 79)
    assert buffer.fitting(ORDERS, ends, 0) == 6
    assert buffer.append(ORDERS, records[0:6], 600, Told(), 0, more_follow=True), "no more fit"
    assert buffer.fitting(ORDERS, ends, 6) == 15
    put(buffer, b"y" * 900)
    assert buffer.fitting(ORDERS, ends, 6) == 15, "a batch without room for one is followed by a new one"
    assert buffer.fitting(ORDERS, [5_000, 5_100], 0) == 1, "a large record goes alone"


def test_a_batch_is_full_with_so_many_records_as_it_may_have() -> None:
    buffer = new_buffer(batch_size=1_000, linger_ms=10, batch_num_messages=3)
    records = ColumnRecords([None] * 5, [b"x"] * 5, [()] * 5, [7] * 5)
    ends = list(accumulate(records.sizes()))
    assert buffer.fitting(ORDERS, ends, 0) == 3
    put(buffer, b"y")
    assert buffer.fitting(ORDERS, ends, 0) == 2
    assert buffer.append(ORDERS, records[0:2], ends[1], Told(), 0), "the third record fills it"
    assert buffer.fitting(ORDERS, ends, 2) == 5


def test_what_piles_up_while_the_leader_does_not_answer_leaves_in_few_batches() -> None:
    buffer = buffer_with(batch_size=1_000, linger_ms=5)
    put(buffer, b"first")
    (attempt,) = drain(buffer, now_ms=10)
    buffer.lost(attempt, "the connection was reset", 10)
    for now_ms in range(11, 51):
        put(buffer, b"%d" % now_ms, now_ms=now_ms)
        assert drain(buffer, now_ms=now_ms) == [], "it waits before it tries again"
    attempts = drain(buffer, now_ms=1_000)
    assert payloads(attempts) == [b"first", *(b"%d" % number for number in range(11, 51))]
    # Forty records of about 25 bytes each, in batches of a thousand bytes.
    assert len(attempts) <= 3


def test_what_piles_up_while_enough_is_in_flight_leaves_in_few_batches() -> None:
    buffer = buffer_with(batch_size=1_000, linger_ms=0, max_in_flight_requests_per_connection=2)
    for number in range(20):
        put(buffer, b"%d" % number)
        drain(buffer)
    assert len(buffer.unfinished()) == 2, "two batches with a record each, and the others together in an open one"


def test_a_batch_does_not_linger_while_somebody_waits_for_memory() -> None:
    buffer = buffer_with(batch_size=1_000, linger_ms=1_000)
    put(buffer, b"a")
    buffer.is_hurried = True
    assert len(drain(buffer)) == 1


def test_a_request_takes_one_batch_of_each_partition_up_to_its_bound() -> None:
    buffer = buffer_with(batch_size=1, max_request_size=1_000)
    others = [TopicPartition("orders", number) for number in range(1, 4)]
    for partition in others:
        put(buffer, b"x" * 350, b"y", partition=partition)

    first = buffer.drain("b1", others, 0)
    second = buffer.drain("b1", others, 0)

    assert [attempt.batch.partition.partition for attempt in first] == [1, 2]
    assert [attempt.batch.partition.partition for attempt in second] == [3]


def test_no_more_than_five_batches_of_a_partition_are_in_flight() -> None:
    buffer = buffer_with()
    put(buffer, *[b"x"] * 7)
    attempts = drain(buffer)
    assert len(attempts) == 5

    buffer.answered(attempts[0], result(base_offset=0), 0)
    assert sequences(drain(buffer)) == [(1, 6)]


def test_a_retry_is_never_more_than_five_batches_behind_the_newest() -> None:
    # Brokers remember five batches of a producer; an older one that was stored would not be recognised.
    buffer = buffer_with()
    put(buffer, *[b"x"] * 8)
    attempts = drain(buffer)
    for attempt in attempts[1:]:
        buffer.answered(attempt, result(base_offset=0), 0)
    buffer.answered(attempts[0], result(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND), 0)

    (again,) = drain(buffer, now_ms=1_000)
    assert sequences([again]) == [(1, 1)]
    buffer.answered(again, result(base_offset=0), 1_000)
    assert sequences(drain(buffer, now_ms=1_000)) == [(1, 6), (1, 7), (1, 8)]


def test_the_first_batch_of_a_partition_goes_alone() -> None:
    # A broker takes any first sequence of a producer that it does not know, so the second must not overtake the first.
    buffer = new_buffer()
    put(buffer, b"a", b"b", b"c")
    (first,) = drain(buffer)
    buffer.answered(first, result(ErrorCode.NOT_LEADER_OR_FOLLOWER), 0)
    (first,) = drain(buffer, now_ms=1_000)
    buffer.answered(first, result(base_offset=0), 1_000)
    assert payloads(drain(buffer, now_ms=1_000)) == [b"b", b"c"]


def test_nothing_is_sent_before_there_is_a_producer_id() -> None:
    buffer = SendBuffer(settings_of(ProducerSettings, "b:1", {"batch_size": 1, "linger_ms": 0}), lambda: 0.5)
    put(buffer, b"a")
    assert buffer.needs_identity
    assert drain(buffer) == []

    buffer.give_identity(identity(7))
    assert sequences(drain(buffer)) == [(7, 0)]


def test_without_idempotence_batches_carry_no_producer_id() -> None:
    buffer = SendBuffer(settings_of(ProducerSettings, "b:1", {"acks": 1, "linger_ms": 0}), lambda: 0.5)
    put(buffer, b"a")
    assert not buffer.needs_identity
    assert sequences(drain(buffer)) == [(-1, -1)]


def test_a_retry_sends_the_same_bytes_after_the_backoff() -> None:
    buffer = buffer_with()
    put(buffer, b"a")
    (attempt,) = drain(buffer)
    first_bytes = attempt.batch.encoded

    assert buffer.answered(attempt, result(ErrorCode.NOT_LEADER_OR_FOLLOWER), 50) == []

    assert drain(buffer, now_ms=149) == []
    assert buffer.next_deadline_ms(50) == 150
    (again,) = drain(buffer, now_ms=150)
    assert again.batch.encoded is first_bytes


def test_a_retry_waits_until_everything_in_flight_was_answered_and_keeps_the_order() -> None:
    buffer = buffer_with()
    put(buffer, b"a", b"b", b"c")
    a, b, c = drain(buffer)

    buffer.lost(a, "the stream broke", 0)
    assert drain(buffer, now_ms=10_000) == []
    buffer.lost(b, "the stream broke", 0)
    buffer.lost(c, "the stream broke", 0)

    assert payloads(drain(buffer, now_ms=10_000)) == [b"a", b"b", b"c"]


def test_batches_that_fail_together_are_one_failure_and_the_backoff_grows_with_failures() -> None:
    buffer = buffer_with()
    put(buffer, b"a", b"b")
    now_ms, waits_ms = 0, []
    for _ in range(6):
        for attempt in drain(buffer, now_ms=now_ms):
            buffer.lost(attempt, "down", now_ms)
        deadline_ms = buffer.next_deadline_ms(now_ms)
        assert deadline_ms is not None
        waits_ms.append(deadline_ms - now_ms)
        now_ms = deadline_ms
    assert waits_ms == [100, 200, 400, 800, 1_000, 1_000]


def test_a_new_leader_gets_what_the_old_one_did_not_answer_at_once() -> None:
    buffer = buffer_with()
    told = put(buffer, b"a", b"b")
    old = drain(buffer, leader="b1")
    assert drain(buffer, leader="b2") == []

    buffer.leader_moved(ORDERS, "b2")
    new = drain(buffer, leader="b2")

    assert sequences(new) == [(1, 1), (1, 2)]
    # What the old leader says now no longer counts.
    assert buffer.answered(old[0], result(base_offset=9), 0) == []
    assert told.delivered_offsets == []


def test_the_failures_of_a_former_leader_do_not_delay_what_the_new_one_gets() -> None:
    buffer = buffer_with()
    put(buffer, b"a")
    for now_ms in (0, 200):
        (attempt,) = drain(buffer, leader="b1", now_ms=now_ms)
        buffer.lost(attempt, "down", now_ms)
    assert drain(buffer, leader="b2", now_ms=200) == []

    buffer.leader_moved(ORDERS, "b2")
    (attempt,) = drain(buffer, leader="b2", now_ms=200)

    buffer.lost(attempt, "down", 200)
    assert buffer.next_deadline_ms(200) == 300, "the backoff does not begin anew"


def test_partitions_take_turns_if_a_request_has_no_room_for_all() -> None:
    buffer = new_buffer(max_request_size=100)
    partitions = [TopicPartition("orders", number) for number in range(3)]
    for partition in partitions:
        # Five batches of each may be in flight once its first is stored.
        put(buffer, b"first", partition=partition)
    for attempt in drain(buffer):
        buffer.answered(attempt, result(base_offset=0), 0)
    put(buffer, b"a", b"a", b"a", b"a", partition=partitions[0])
    put(buffer, b"b", b"b", partition=partitions[1])
    put(buffer, b"c", partition=partitions[2])
    assert payloads(drain(buffer)) == [b"a", b"b", b"c", b"a", b"b", b"a", b"a"]


def test_without_idempotence_the_old_leader_is_waited_for() -> None:
    buffer = buffer_with(acks=1)
    put(buffer, b"a")
    drain(buffer, leader="b1")
    buffer.leader_moved(ORDERS, "b2")
    assert drain(buffer, leader="b2") == []


def test_a_refusal_fails_its_batch_and_later_ones_get_new_sequences() -> None:
    buffer = buffer_with()
    put(buffer, b"bad", b"good", b"later")
    bad, good, later = drain(buffer)

    outcomes = buffer.answered(bad, result(ErrorCode.INVALID_RECORD, message="no key in a compacted topic"), 0)
    assert [str(outcome.error) for outcome in outcomes if isinstance(outcome, Failed)] == [
        "INVALID_RECORD: orders-0: no key in a compacted topic"
    ]
    for attempt in (good, later):
        assert buffer.answered(attempt, result(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), 0) == []

    assert drain(buffer, now_ms=1_000) == []
    assert buffer.needs_identity
    buffer.give_identity(identity(2))
    again = drain(buffer, now_ms=1_000)
    assert (payloads(again), sequences(again)) == ([b"good"], [(2, 0)])
    buffer.answered(again[0], result(base_offset=1), 1_000)
    assert sequences(drain(buffer, now_ms=1_000)) == [(2, 1)]


def test_a_gap_that_is_not_ours_fails_all_that_was_sent_and_nothing_that_was_not() -> None:
    buffer = buffer_with(max_in_flight_requests_per_connection=2)
    put(buffer, b"a", b"b", b"c")
    a, _ = drain(buffer)

    outcomes = buffer.answered(a, result(ErrorCode.UNKNOWN_PRODUCER_ID), 0)

    assert [outcome.batch.records[0].value for outcome in outcomes] == [b"a", b"b"]
    buffer.give_identity(identity(2))
    rest = drain(buffer)
    assert (payloads(rest), sequences(rest)) == ([b"c"], [(2, 0)])


def test_out_of_order_behind_a_batch_that_is_retried_is_retried_too() -> None:
    buffer = buffer_with()
    put(buffer, b"a", b"b")
    a, b = drain(buffer)
    buffer.answered(a, result(ErrorCode.NOT_ENOUGH_REPLICAS), 0)
    assert buffer.answered(b, result(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), 0) == []
    assert sequences(drain(buffer, now_ms=1_000)) == [(1, 1), (1, 2)]


def test_a_batch_that_was_stored_before_counts_as_delivered() -> None:
    buffer = buffer_with()
    put(buffer, b"a")
    (attempt,) = drain(buffer)
    (outcome,) = buffer.answered(attempt, result(ErrorCode.DUPLICATE_SEQUENCE_NUMBER), 0)
    assert isinstance(outcome, Delivered)
    assert outcome.base_offset == -1


def test_a_batch_above_the_topics_bound_is_split_until_it_fits() -> None:
    buffer = new_buffer(batch_size=10_000)
    put(buffer, b"a", b"b", b"c", b"d")
    log = FakePartition(leader_id=1, size_max=100)
    deliveries: list[BatchOutcome] = []
    for round_number in range(1, 9):
        buffer.give_identity(identity(round_number))
        for attempt in drain(buffer, now_ms=round_number * 10_000):
            code, offset = log.append(attempt.batch.encoded or b"")
            deliveries += buffer.answered(attempt, result(code, offset), round_number * 10_000)

    assert [record.value for record in log.records()] == [b"a", b"b", b"c", b"d"]
    assert all(isinstance(outcome, Delivered) for outcome in deliveries)
    assert buffer.memory_used == 0


def test_one_record_above_the_topics_bound_is_refused_with_the_brokers_words() -> None:
    buffer = buffer_with()
    put(buffer, b"x" * 200)
    (attempt,) = drain(buffer)
    (outcome,) = buffer.answered(attempt, result(ErrorCode.MESSAGE_TOO_LARGE, message="max.message.bytes=100"), 0)
    assert isinstance(outcome, Failed)
    assert "max.message.bytes=100" in str(outcome.error)


def test_what_is_too_old_fails_with_the_partition_and_the_last_reason() -> None:
    buffer = buffer_with()
    put(buffer, b"a")
    (attempt,) = drain(buffer)
    buffer.answered(attempt, result(ErrorCode.NOT_ENOUGH_REPLICAS, message="1 of 2 in sync"), 0)

    assert buffer.expire(119_999) == []
    (outcome,) = buffer.expire(120_000)

    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, DeliveryTimeout)
    assert str(outcome.error) == (
        "orders-0: not acknowledged within delivery.timeout.ms=120000; last reason: NOT_ENOUGH_REPLICAS: 1 of 2 in sync"
    )
    assert buffer.memory_used == 0


def test_what_could_never_be_sent_fails_with_the_trouble_of_the_cluster() -> None:
    buffer = buffer_with()
    put(buffer, b"a")
    buffer.trouble = "orders-0 has no leader"
    (outcome,) = buffer.expire(120_000)
    assert isinstance(outcome, Failed)
    assert "orders-0 has no leader" in str(outcome.error)


def test_after_an_expired_batch_that_was_stored_the_sequence_continues() -> None:
    buffer = buffer_with()
    put(buffer, b"a")
    put(buffer, b"b", now_ms=60_000)
    a, b = drain(buffer, now_ms=60_000)
    buffer.lost(b, "the stream broke", 60_000)
    buffer.expire(120_000)

    (again,) = drain(buffer, now_ms=120_000)
    assert sequences([again]) == [(1, 2)]
    assert buffer.answered(again, result(base_offset=2), 120_000)
    assert not buffer.needs_identity
    assert again.batch is not a.batch


def test_closing_gives_up_everything_and_says_why_it_was_not_stored() -> None:
    buffer = buffer_with(linger_ms=10_000, batch_size=1_000)
    put(buffer, b"a")
    buffer.trouble = "no broker answered"
    (outcome,) = buffer.abandon()
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, ClientClosed)
    assert "no broker answered" in str(outcome.error)
    assert buffer.waiting() == []


def test_unfinished_batches_are_known_by_the_batch_they_were_put_into() -> None:
    buffer = buffer_with(batch_size=10_000, linger_ms=10_000)
    put(buffer, b"a", b"b")
    assert buffer.unfinished() == set()
    buffer.close_batches()
    before = buffer.unfinished()

    (attempt,) = drain(buffer)
    buffer.answered(attempt, result(ErrorCode.MESSAGE_TOO_LARGE), 0)

    assert buffer.unfinished() == before


# --- the promise: what is delivered is stored once and in order, whatever happens on the way ----------------------


class _Scenario:
    """One partition of two brokers that share a log, and a network that loses requests and answers."""

    def __init__(self, seed: int, records: int) -> None:
        self.chance = random.Random(seed)
        self.buffer = new_buffer(batch_size=120, delivery_timeout_ms=40_000, request_timeout_ms=5_000)
        self.log = FakePartition(leader_id=1)
        self.told = [put(self.buffer, b"%d" % number, now_ms=number * 10) for number in range(records)]
        self.identities = 1
        self.leader = "b1"
        self.now_ms = records * 10
        self.in_flight: list[Attempt] = []

    def run(self) -> None:
        for step in range(2_000):
            self.settle(self.buffer.expire(self.now_ms))
            if not self.buffer.waiting():
                return
            if self.buffer.needs_identity:
                self.identities += 1
                self.buffer.give_identity(identity(self.identities))
            if self.chance.random() < 0.1:
                self.leader = self.chance.choice(["b1", "b2"])
                self.buffer.leader_moved(ORDERS, self.leader)
            self.in_flight += drain(self.buffer, self.leader, self.now_ms)
            self.answer_some(is_calm=step > 400)
            self.now_ms += self.chance.choice([1, 50, 500, 2_000])
        pytest.fail("the producer never finished")

    def answer_some(self, is_calm: bool) -> None:
        """Requests are carried out in their order; what follows a broken stream is not."""
        fate = 1.0 if is_calm else self.chance.random()
        if fate < 0.15:
            self.break_stream(self.chance.randint(0, len(self.in_flight)))
            return
        for attempt in self.in_flight:
            self.settle(self.buffer.answered(attempt, self.carry_out(attempt, is_calm), self.now_ms))
        self.in_flight = []

    def break_stream(self, carried_out: int) -> None:
        for attempt in self.in_flight[:carried_out]:
            self.carry_out(attempt, is_calm=True)
        for attempt in self.in_flight:
            self.buffer.lost(attempt, "the stream broke", self.now_ms)
        self.in_flight = []

    def carry_out(self, attempt: Attempt, is_calm: bool) -> ProducePartitionResult:
        fate = 1.0 if is_calm else self.chance.random()
        if fate < 0.1:
            return result(self.chance.choice([ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS]))
        if fate < 0.13:
            return result(ErrorCode.INVALID_RECORD)
        assert attempt.batch.encoded is not None
        code, offset = self.log.append(attempt.batch.encoded)
        if fate < 0.2 and code is ErrorCode.NONE:
            return result(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        return result(code, offset)

    def settle(self, outcomes: list[BatchOutcome]) -> None:
        for outcome in outcomes:
            for receipt, first, count in outcome.batch.receipts:
                if isinstance(outcome, Delivered):
                    receipt.delivered(outcome.batch, first, count, outcome.base_offset, -1)
                else:
                    receipt.failed(outcome.error)


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32), records=st.integers(1, 40))
def test_whatever_happens_delivered_records_are_stored_once_and_in_order(seed: int, records: int) -> None:
    scenario = _Scenario(seed, records)
    scenario.run()

    stored = [int(record.value or b"") for record in scenario.log.records()]
    assert stored == sorted(set(stored)), "stored twice, or out of order"
    for number, told in enumerate(scenario.told):
        assert len(told.delivered_offsets) + len(told.errors) == 1, "told once what became of it"
        if told.delivered_offsets:
            assert stored[told.delivered_offsets[0]] == number
        elif isinstance(told.errors[0], Refusal):
            assert told.errors[0].error_code is ErrorCode.INVALID_RECORD, "the brokers lost nothing"
        else:
            assert isinstance(told.errors[0], DeliveryTimeout)
    assert scenario.buffer.memory_used == 0
