"""A shard decides in order, answers what is committed, and survives appends that fail."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.coordinator.shard import TimerKey
from kraft.coordinator.shard_machine import RETRY_MS, UNCOMMITTED_BYTES_MAX
from kraft.model.errors import ErrorCode, Refusal
from tests.support.counter_shard import Add, AddLater, Fail, Read, WaitFor
from tests.unit.coordinator.counting_host import Host

UNWRITABLE = Refusal(ErrorCode.NOT_ENOUGH_REPLICAS, "too few replicas")
NOT_LEADER = Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this broker does not lead")


# --- replies -------------------------------------------------------------------------------------------------


def test_a_reply_is_sent_when_its_records_are_committed() -> None:
    host = Host()
    ticket = host.send(Add(5))
    assert host.answers == {}
    host.flush()
    assert host.log == [5]
    assert host.answers == {}
    host.commit()
    assert host.answers == {ticket: 5}
    assert (host.shard.committed, host.shard.latest, host.shard.is_settled) == (5, 5, True)


def test_a_reply_without_records_is_sent_at_once_if_everything_is_committed() -> None:
    host = Host()
    host.do(Add(5))
    ticket = host.send(Read())
    assert host.answers[ticket] == 5


def test_a_reply_without_records_waits_for_what_it_shows() -> None:
    host = Host()
    host.send(Add(5))
    ticket = host.send(Read())
    host.flush()
    assert ticket not in host.answers
    host.commit()
    assert host.answers[ticket] == 5


def test_a_reply_waits_for_the_batch_it_depends_on_and_no_later_one() -> None:
    host = Host()
    first = host.send(Add(1))
    host.flush()
    second = host.send(Add(1))
    host.flush()
    host.commit(1)
    assert host.answers == {first: 1}
    host.commit(2)
    assert host.answers == {first: 1, second: 2}


def test_another_request_may_answer_one_that_waits() -> None:
    host = Host()
    waiter = host.send(WaitFor(3))
    assert host.do(Add(2)) == 2
    assert waiter not in host.answers
    host.do(Add(1))
    assert host.answers[waiter] == 3
    assert waiter not in host.timers


def test_a_commit_that_takes_too_long_is_reported_and_its_records_stay() -> None:
    host = Host()
    ticket = host.send(Add(5))
    host.flush()
    (deadline,) = host.own_timers()
    assert host.timers[deadline].delay_ms == 5_000
    host.end_timer(deadline)
    assert host.answers == {ticket: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    # A reply that would wait for the same batch does not wait either.
    assert host.answers[host.send(Read())] is ErrorCode.COORDINATOR_NOT_AVAILABLE
    host.commit()
    assert host.do(Read()) == 5


def test_the_deadline_of_a_batch_is_removed_with_its_commit() -> None:
    host = Host()
    host.do(Add(5))
    assert host.timers == {}


# --- batches -------------------------------------------------------------------------------------------------


def test_commands_of_one_turn_are_one_batch() -> None:
    host = Host(batch_bytes_max=1_000_000)
    tickets = [host.send(Add(1)) for _ in range(10_000)]
    host.flush()
    assert (len(host.log), host.batches) == (10_000, 1)
    host.commit()
    assert [host.answers[ticket] for ticket in tickets] == list(range(1, 10_001))


def test_batches_are_bounded_and_in_order() -> None:
    host = Host(batch_bytes_max=200)
    for number in range(50):
        host.send(Add(number))
    host.flush()
    assert host.log == list(range(50))
    assert host.batches > 5


def test_one_batch_is_appended_at_a_time() -> None:
    host = Host(holds=True)
    host.send(Add(1))
    host.flush()
    host.send(Add(2))
    host.send(Add(3))
    host.flush()
    assert host.log == []
    host.append()
    assert (host.log, host.held) == ([1], None)
    host.flush()
    host.append()
    assert (host.log, host.batches) == ([1, 2, 3], 2)


def test_a_decision_that_is_too_large_is_refused_and_changes_nothing() -> None:
    host = Host()
    before = host.do(Add(1))
    waiter = host.send(WaitFor(2))
    assert host.do(Add(1, padding=1_000)) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert host.do(Add(1, records=100)) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert host.do(Read()) == before
    assert waiter not in host.answers


def test_a_decision_that_is_not_atomic_may_have_several_batches() -> None:
    host = Host()
    assert host.do(Add(1, records=100, is_atomic=False)) == 100
    assert host.batches > 1


def test_what_is_not_committed_is_bounded() -> None:
    host = Host(batch_bytes_max=10 << 20)
    commands = 0
    while (answer := host.answers.get(host.send(Add(1, padding=1 << 20)))) is None:
        host.flush()
        commands += 1
    assert answer is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert commands == UNCOMMITTED_BYTES_MAX // (1 << 20)
    host.commit()
    assert host.do(Add(1)) == commands + 1


# --- appends that fail ---------------------------------------------------------------------------------------


def test_a_failed_append_refuses_all_waiting_requests_and_drops_what_they_decided() -> None:
    host = Host()
    host.do(Add(1))
    waiter = host.send(WaitFor(100))
    host.fails = NOT_LEADER
    lost = host.send(Add(10))
    host.flush()
    assert host.answers[waiter] is host.answers[lost] is ErrorCode.NOT_COORDINATOR
    assert (host.shard.latest, host.shard.volatile) == (1, None)
    assert host.answers[host.send(Read())] is ErrorCode.COORDINATOR_NOT_AVAILABLE
    (reload,) = host.timers
    assert host.timers[reload].delay_ms == RETRY_MS
    host.end_timer(reload)
    assert host.do(Add(1)) == 2
    assert (host.log, host.loads) == ([1, 1], 2)


def test_the_shard_continues_from_what_is_in_the_log_and_not_committed() -> None:
    host = Host()
    in_log = host.send(Add(1))
    host.flush()
    host.fails = UNWRITABLE
    lost = host.send(Add(10))
    behind = host.send(Add(100))
    host.flush()
    assert host.answers == dict.fromkeys((in_log, lost, behind), ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert (host.shard.committed, host.shard.latest) == (0, 1)
    host.reload()
    assert (host.shard.committed, host.shard.latest) == (0, 1)
    read = host.send(Read())
    assert read not in host.answers
    host.commit()
    assert host.answers[read] == 1
    assert host.shard.committed == 1


def failed_with_a_batch_in_the_log() -> tuple[Host, TimerKey]:
    """A host whose second append has failed, while the first is not committed; and the deadline of the first."""
    host = Host()
    host.send(Add(1))
    host.flush()
    (deadline,) = host.own_timers()
    host.fails = UNWRITABLE
    host.send(Add(10))
    host.flush()
    return host, deadline


def test_a_batch_in_the_log_keeps_its_deadline_when_a_later_append_fails() -> None:
    host, deadline = failed_with_a_batch_in_the_log()
    host.reload()
    read = host.send(Read())
    assert read not in host.answers
    assert host.own_timers() == [deadline]
    host.end_timer(deadline)
    assert host.answers[read] is ErrorCode.COORDINATOR_NOT_AVAILABLE
    host.commit()
    assert host.do(Read()) == 1


def test_a_deadline_may_end_before_the_reload() -> None:
    host, deadline = failed_with_a_batch_in_the_log()
    host.end_timer(deadline)
    host.reload()
    assert host.answers[host.send(Read())] is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_what_was_decided_during_a_failed_append_is_dropped_too() -> None:
    host = Host(holds=True)
    host.send(Add(1))
    host.flush()
    later = host.send(Add(2))
    host.fails = UNWRITABLE
    host.append()
    assert host.answers[later] is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not host.shard.wants_flush
    assert host.shard.latest == 0


def test_a_failed_append_removes_the_timers_of_the_shard() -> None:
    host = Host()
    host.send(AddLater("later", 1, 1_000))
    timer = host.timers["later"]
    host.fails = UNWRITABLE
    host.do(Add(1))
    assert "later" not in host.timers
    # Even if it was about to end.
    host.run(host.shard.timer_ended(timer.key, timer.number))
    host.flush()
    assert host.log == []


def test_a_write_that_the_log_is_known_to_refuse_is_refused_alone() -> None:
    host = Host()
    host.do(Add(1))
    waiter = host.send(WaitFor(2))
    host.refusal = UNWRITABLE
    assert host.do(Add(1)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert host.do(Read()) == 1
    assert waiter not in host.answers
    host.refusal = None
    assert host.do(Add(1)) == 2
    assert host.answers[waiter] == 2


def test_a_bug_of_the_shard_changes_nothing() -> None:
    host = Host()
    host.send(Add(1))
    with pytest.raises(AssertionError, match="bug"):
        host.send(Fail())
    host.flush()
    host.commit()
    assert host.do(Read()) == 1


# --- timers --------------------------------------------------------------------------------------------------


def test_a_timer_that_ends_is_a_command() -> None:
    host = Host()
    host.do(AddLater("later", 3, 1_000))
    host.end_timer("later")
    host.flush()
    assert host.log == [3]


def test_a_timer_that_was_replaced_never_ends() -> None:
    host = Host()
    host.do(AddLater("later", 1, 1_000))
    replaced = host.timers["later"]
    host.do(AddLater("later", 2, 1_000))
    host.run(host.shard.timer_ended(replaced.key, replaced.number))
    host.flush()
    assert host.log == []
    host.end_timer("later")
    host.flush()
    assert host.log == [2]


def test_a_timer_that_was_removed_never_ends() -> None:
    host = Host()
    host.do(AddLater("later", 1, 1_000))
    removed = host.timers["later"]
    host.do(AddLater("later", 1, -1))
    host.run(host.shard.timer_ended(removed.key, removed.number))
    assert not host.shard.wants_flush


def test_a_timer_whose_decision_cannot_be_written_ends_again() -> None:
    host = Host()
    host.do(AddLater("later", 3, 1_000))
    host.refusal = UNWRITABLE
    host.end_timer("later")
    assert host.timers["later"].delay_ms == RETRY_MS
    host.refusal = None
    host.end_timer("later")
    host.flush()
    assert host.log == [3]


# --- all together --------------------------------------------------------------------------------------------

EVENTS = st.lists(st.sampled_from(["add", "read", "wait", "flush", "append", "fail", "commit", "timer"]), max_size=60)


@given(EVENTS)
def test_no_answer_shows_what_is_not_committed_and_every_request_is_answered(events: list[str]) -> None:
    host = Host(holds=True, batch_bytes_max=200)
    high_watermark = 0
    shown: set[int] = set()
    for event in events:
        match event:
            case "add":
                host.send(Add(1))
            case "read":
                host.send(Read())
            case "wait":
                host.send(WaitFor(host.shard.latest + 2))
            case "flush":
                host.run(host.shard.flush())
            case "append" if host.held is not None:
                host.append()
            case "fail" if host.held is not None:
                host.fails = UNWRITABLE
                host.append()
            case "commit":
                high_watermark = len(host.log)
                host.commit()
            case "timer" if host.timers:
                host.end_timer(next(iter(host.timers)))
        counts = {answer for answer in host.answers.values() if type(answer) is int}
        assert max(counts - shown, default=0) <= sum(host.log[:high_watermark])
        shown |= counts
        assert host.shard.committed == sum(host.log[:high_watermark])
    host.holds = False
    if host.held is not None:
        host.append()
    host.flush()
    host.commit()
    while host.timers:
        host.end_timer(next(iter(host.timers)))
        host.flush()
        host.commit()
    assert host.waiting == set()
    assert host.shard.committed == host.shard.latest == len(host.log)
