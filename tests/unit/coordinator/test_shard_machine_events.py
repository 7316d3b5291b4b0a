"""A shard reports what has happened once it is committed, and never what is undone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kraft.model.errors import ErrorCode, Refusal
from tests.support.counter_shard import Add, Read
from tests.unit.coordinator.counting_host import Host

UNWRITABLE = Refusal(ErrorCode.NOT_ENOUGH_REPLICAS, "too few replicas")
NOW_MS = 1_000


def test_an_event_is_reported_when_its_records_are_committed_with_the_time_of_its_decision() -> None:
    host = Host()
    host.send(Add(5, events=("joined", "started")))
    host.flush()
    host.now_ms += 200
    assert host.reported == []
    host.commit()
    assert host.reported == [("joined", NOW_MS), ("started", NOW_MS)]


def test_an_event_without_records_is_reported_at_once_if_everything_is_committed() -> None:
    host = Host()
    host.do(Add(5))
    host.send(Read(events=("started",)))
    assert host.reported == [("started", NOW_MS)]


def test_events_are_reported_in_the_order_of_their_decisions() -> None:
    host = Host(holds=True)
    host.send(Add(1, events=("first",)))
    host.run(host.shard.flush())
    host.send(Read(events=("second",)))
    host.send(Add(1, events=("third",)))
    host.append()
    host.run(host.shard.flush())
    host.append()
    host.commit()
    assert [event for event, _ in host.reported] == ["first", "second", "third"]


def test_an_event_whose_append_failed_is_never_reported() -> None:
    host = Host(fails=UNWRITABLE)
    host.send(Add(5, events=("joined",)))
    host.flush()
    host.reload()
    host.do(Add(1, events=("joined again",)))
    assert host.reported == [("joined again", NOW_MS)]


def test_a_failed_append_undoes_events_without_records_but_not_those_whose_records_are_in_the_log() -> None:
    host = Host()
    host.send(Add(5, events=("written",)))
    host.flush()
    host.send(Read(events=("volatile",)))
    host.fails = UNWRITABLE
    host.send(Add(1, events=("unwritten",)))
    host.flush()
    host.commit()
    assert [event for event, _ in host.reported] == ["written"]


def test_an_event_is_reported_although_the_commit_of_its_reply_took_too_long() -> None:
    host = Host()
    host.send(Add(5, events=("joined",)))
    host.flush()
    (deadline,) = host.own_timers()
    host.end_timer(deadline)
    host.commit()
    assert host.reported == [("joined", NOW_MS)]


STEPS = st.lists(st.sampled_from(["add", "read", "flush", "append", "fail", "commit"]), max_size=60)


@given(STEPS)
def test_events_of_records_are_reported_if_and_only_if_the_records_are_committed(steps: list[str]) -> None:
    host = Host(holds=True, batch_bytes_max=200)
    for number, step in enumerate(steps, start=1):
        if step == "add":
            host.send(Add(number, events=(f"added {number}",)))
        elif step == "read":
            host.send(Read(events=(f"read {number}",)))
        elif step == "flush":
            host.run(host.shard.flush())
        elif step == "commit":
            host.commit()
            added = [event for event, _ in host.reported if str(event).startswith("added")]
            assert added == [f"added {each}" for each in host.log]
        elif host.held is not None:
            host.fails = UNWRITABLE if step == "fail" else None
            host.append()
            if step == "fail":
                host.reload()
    decided = [int(str(event).split()[1]) for event, _ in host.reported]
    assert decided == sorted(decided)
