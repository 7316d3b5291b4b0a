"""Records on their way from threads to the event loop."""

from __future__ import annotations

import threading

import pytest

from kraft.client.model.errors import BufferExhausted, ClientClosed
from kraft.client.threads import inbox as inboxes
from kraft.client.threads.inbox import Inbox, SentRecord
from kraft.client.threads.record_future import RecordFuture


def record(value: bytes, topic: str = "orders", partition: int | None = None, transaction: int = 0) -> SentRecord:
    return topic, partition, transaction, None, value, (), 7, RecordFuture()


def new_inbox(max_block_ms: int = 1_000, bytes_max: int = 1 << 30, *, is_event_loop: bool = False) -> Inbox:
    return Inbox(max_block_ms, bytes_max, lambda: is_event_loop)


def test_records_are_taken_in_runs_of_one_destination() -> None:
    inbox = new_inbox()
    sent = [
        record(b"a"),
        record(b"b"),
        record(b"c", partition=1),
        record(b"d", partition=1, transaction=2),
        record(b"e", "others", 1, 2),
        record(b"f"),
    ]
    for each in sent:
        inbox.put(each)
    runs = inbox.take()
    assert [(run.topic, run.partition, run.transaction, run.records.values) for run in runs] == [
        ("orders", None, 0, [b"a", b"b"]),
        ("orders", 1, 0, [b"c"]),
        ("orders", 1, 2, [b"d"]),
        ("others", 1, 2, [b"e"]),
        ("orders", None, 0, [b"f"]),
    ]
    assert [future for run in runs for future in run.receipt.futures] == [each[-1] for each in sent]
    assert runs[0].records.times_ms == [7, 7]


def test_the_event_loop_is_called_for_the_first_record_after_it_found_none() -> None:
    inbox = new_inbox()
    assert [inbox.put(record(b"a")), inbox.put(record(b"b"))] == [True, False]
    assert inbox.take()
    assert not inbox.put(record(b"c")), "it looks again by itself"
    assert inbox.take()
    assert not inbox.take()
    assert inbox.put(record(b"d"))


def test_a_full_inbox_makes_the_thread_wait_until_the_event_loop_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inboxes, "INBOX_RECORDS_MAX", 2)
    inbox = new_inbox(60_000)
    for value in (b"a", b"b"):
        inbox.put(record(value))
    third = threading.Thread(target=inbox.put, args=(record(b"c"),))
    third.start()
    taken: list[bytes | None] = []
    while len(taken) < 3:
        taken += [value for run in inbox.take() for value in run.records.values]
    third.join()
    assert taken == [b"a", b"b", b"c"]


def test_an_inbox_that_stays_full_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inboxes, "INBOX_RECORDS_MAX", 1)
    inbox = new_inbox(1)
    inbox.put(record(b"a"))
    with pytest.raises(BufferExhausted, match=r"stayed full for max\.block\.ms=1"):
        inbox.put(record(b"b"))


def test_records_that_are_parked_take_room_until_they_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inboxes, "INBOX_RECORDS_MAX", 2)
    inbox = new_inbox(1)
    inbox.put(record(b"a"))
    inbox.put(record(b"b"))
    (run,) = inbox.take()
    inbox.park(run)
    with pytest.raises(BufferExhausted):
        inbox.put(record(b"c"))
    inbox.unpark(run)
    inbox.put(record(b"c"))


def test_the_bytes_of_large_records_are_limited_until_these_are_queued() -> None:
    inbox = new_inbox(1, bytes_max=5_000)
    for _ in range(100):
        inbox.put(record(b"x" * 1_000))
    for _ in range(3):
        inbox.put(record(b"x" * 2_000))
    with pytest.raises(BufferExhausted, match=r"buffer\.memory=5000"):
        inbox.put(record(b"x"))
    (run,) = inbox.take()
    with pytest.raises(BufferExhausted):
        inbox.put(record(b"x"))
    inbox.ended(run)
    inbox.put(record(b"x"))


def test_the_thread_of_the_event_loop_does_not_wait_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inboxes, "INBOX_RECORDS_MAX", 1)
    inbox = new_inbox(60_000, is_event_loop=True)
    for value in (b"a", b"b"):
        inbox.put(record(value))
    assert [run.records.values for run in inbox.take()] == [[b"a", b"b"]]


def test_a_closed_inbox_takes_nothing() -> None:
    inbox = new_inbox()
    inbox.put(record(b"a"))
    inbox.close()
    with pytest.raises(ClientClosed):
        inbox.put(record(b"b"))
    assert [run.records.values for run in inbox.take()] == [[b"a"]]


def test_no_record_of_many_threads_is_left_behind() -> None:
    inbox, called = new_inbox(60_000), threading.Semaphore(0)

    def send(thread: int) -> None:
        for number in range(3_000):
            if inbox.put(record(b"%d" % number, partition=thread)):
                called.release()

    threads = [threading.Thread(target=send, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    taken: dict[int | None, list[bytes | None]] = {}
    while sum(map(len, taken.values())) < 9_000:
        # Only a call makes the event loop look again once it found nothing.
        assert called.acquire(timeout=60)
        while runs := inbox.take():
            for run in runs:
                taken.setdefault(run.partition, []).extend(run.records.values)
    for thread in threads:
        thread.join()
    assert taken == {thread: [b"%d" % number for number in range(3_000)] for thread in range(3)}


class _LooksInBetween(Inbox):
    """The event loop takes all records right after a thread has read the mark, if `is_due`."""

    is_due = False
    _mark = False

    @property
    def _is_watched(self) -> bool:
        mark = self._mark
        if self.is_due:
            self.is_due = False
            while self.take():
                pass
        return mark

    @_is_watched.setter
    def _is_watched(self, mark: bool) -> None:
        self._mark = mark


def test_the_event_loop_is_called_again_if_it_took_a_record_while_its_thread_looked_at_the_mark() -> None:
    inbox = _LooksInBetween(1_000, 1 << 30, lambda: False)
    inbox.put(record(b"a"))
    inbox.is_due = True
    assert not inbox.put(record(b"b")), "it is taken already"
    assert inbox.put(record(b"c")), "nobody else would call the event loop"


class _PutsInBetween(_LooksInBetween):
    """A thread puts a record right before the event loop clears the mark, if `is_late`."""

    is_late = False

    @property
    def _is_watched(self) -> bool:
        return self._mark

    @_is_watched.setter
    def _is_watched(self, mark: bool) -> None:
        if self.is_late:
            self.is_late = False
            assert not self.put(record(b"late")), "the event loop will look once more"
        self._mark = mark


def test_the_event_loop_takes_a_record_whose_thread_found_the_mark_right_before_it_was_cleared() -> None:
    inbox = _PutsInBetween(1_000, 1 << 30, lambda: False)
    inbox.put(record(b"a"))
    inbox.take()
    inbox.is_late = True
    assert [run.records.values for run in inbox.take()] == [[b"late"]]
    assert not inbox.put(record(b"b")), "it will look again by itself"
