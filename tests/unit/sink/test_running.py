"""The sink's steps: what is committed, and when it stops reading."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any, cast

import pytest

from kraft.client import Consumer, ErrorCode, PartitionColumns, Refusal, TopicPartition
from kraft.client.model.settings import ConsumerSettings, settings_of
from kraft.log.format.record_batch import TimestampType
from kraft.log.format.record_codec import RecordColumns
from kraft.sink import running
from kraft.sink.config import sink_config
from kraft.sink.counts import Counts
from kraft.sink.delivery import Batch, Delivery
from kraft.sink.running import Sink
from tests.support.waiting import until

PLACE, OTHER = TopicPartition("logs", 0), TopicPartition("logs", 1)
CONFIG = sink_config(
    {
        "bootstrap.servers": "localhost:9094",
        "topics": "logs",
        "group.id": "sink",
        "connection.url": "http://localhost:9200",
        "index": "logs",
        "errors.deadletterqueue.topic.name": "dead-letters",
        "batch.size": "2",
        "max.in.flight.requests": "2",
        "linger.ms": "0",
    }
)


class FakeConsumer:
    """Returns the parts that it was given, one a poll."""

    def __init__(self) -> None:
        self.parts: list[PartitionColumns] = []
        self.commits: list[dict[TopicPartition, int]] = []
        self.is_paused = False
        self.revoked: Callable[[Iterable[TopicPartition]], None]

    def subscribe(self, _: object, *, on_revoked: Callable[[Iterable[TopicPartition]], None], on_lost: object) -> None:
        self.revoked = on_revoked

    def poll_batches(self, *_: int) -> list[PartitionColumns]:
        return [self.parts.pop(0)] if self.parts and not self.is_paused else []

    def commit(self, offsets: dict[TopicPartition, int]) -> None:
        self.commits.append(offsets)

    def assignment(self) -> list[TopicPartition]:
        return [PLACE, OTHER]

    def paused(self) -> list[TopicPartition]:
        return [PLACE, OTHER] if self.is_paused else []

    def pause(self, *_: TopicPartition) -> None:
        self.is_paused = True

    def resume(self, *_: TopicPartition) -> None:
        self.is_paused = False


class FakeDelivery:
    """Settles a batch once it may, or at once those without the first record."""

    def __init__(self) -> None:
        self.may_settle = threading.Event()
        self.holds_first_only = False
        self.offsets: list[int] = []

    def settle(self, batch: Batch, _: object) -> int:
        offsets = [each.record.offset for each in batch.documents]
        assert (self.holds_first_only and 0 not in offsets) or self.may_settle.wait(30)
        self.offsets += offsets
        return batch.number


class Running:
    """A sink with fakes around it."""

    def __init__(self, senders: ThreadPoolExecutor) -> None:
        self.consumer, self.delivery = FakeConsumer(), FakeDelivery()
        fakes = cast(Consumer, self.consumer), cast(Delivery, self.delivery)
        self.sink = Sink(CONFIG, *fakes, senders, Counts())

    def reads(self, first: int, count: int, place: TopicPartition = PLACE) -> None:
        offsets = list(range(first, first + count))
        values: list[Any] = [b"{}"] * count
        columns = RecordColumns(offsets, [0] * count, [None] * count, values, [()] * count)
        stamped = TimestampType.CREATE_TIME
        self.consumer.parts.append(
            PartitionColumns(partition=place, timestamp_type=stamped, columns=columns, next_offset=first + count)
        )

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.sink.step()

    def ends(self) -> dict[TopicPartition, int]:
        """Let everything settle, and return the last positions."""
        self.delivery.may_settle.set()
        for _ in range(10):
            self.sink.end()
            self.sink.step()
        self.sink.end()
        return {partition: offset for commit in self.consumer.commits for partition, offset in commit.items()}


def test_nothing_is_committed_before_it_is_settled() -> None:
    with ThreadPoolExecutor(2) as senders:
        running = Running(senders)
        running.delivery.holds_first_only = True
        running.reads(0, 5)

        def later_ones_are_settled() -> bool:
            running.sink.step()
            return running.delivery.offsets == [2, 3, 4]

        until(later_ones_are_settled, lambda: running.delivery.offsets)
        running.steps(2)
        running.sink._commit()
        assert (running.delivery.offsets, running.consumer.commits) == ([2, 3, 4], []), "the first one is under way"
        assert running.ends() == {PLACE: 5}


def test_reading_stops_while_requests_wait_and_goes_on_after() -> None:
    with ThreadPoolExecutor(2) as senders:
        running = Running(senders)
        for number in range(20):
            running.reads(10 * number, 10)
        running.steps(30)
        assert len(running.consumer.parts) == 19, "one part is five requests, and two are sent"
        running.delivery.may_settle.set()
        until(lambda: bool(running.ends()) and not running.consumer.parts, lambda: len(running.consumer.parts))
        assert running.ends() == {PLACE: 200}


def test_a_partition_that_another_member_has_is_not_committed_any_more() -> None:
    with ThreadPoolExecutor(2) as senders:
        running = Running(senders)
        running.reads(0, 2)
        running.reads(0, 1, OTHER)
        running.steps(3)
        running.consumer.revoked([PLACE])
        assert running.ends() == {OTHER: 1}


class EndingConsumer(FakeConsumer):
    """Notes its settings; its first poll is the end."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.settings = settings
        made.append(self)

    def __enter__(self) -> EndingConsumer:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def poll_batches(self, *_: int) -> list[PartitionColumns]:
        raise KeyboardInterrupt


made: list[EndingConsumer] = []


class ClosedAtOnce:
    def close(self, *, timeout_ms: int) -> None:
        assert timeout_ms == 0, "dead letters that wait are sent again by the next sink"


def test_nothing_but_the_sink_commits_and_only_committed_records_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_check_login", "_have_dead_letters"):
        monkeypatch.setattr(running, name, lambda _: None)
    monkeypatch.setattr(running, "Producer", lambda **_: nullcontext(ClosedAtOnce()))
    monkeypatch.setattr(running, "Consumer", EndingConsumer)
    running.run(CONFIG, lambda _: None)
    settings = settings_of(ConsumerSettings, "localhost:9094", made.pop().settings)
    assert (settings.enable_auto_commit, settings.isolation_level) == (False, "read_committed")


class FakeAdmin:
    """Knows these topics, and refuses to create any, as one does without the right to."""

    topics: tuple[str, ...] = ()

    def __init__(self, **_: object) -> None:
        return

    def __enter__(self) -> FakeAdmin:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def find_topics(self, names: list[str]) -> list[str]:
        return [each for each in names if each in self.topics]

    def create_topics(self, _: object) -> None:
        raise Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Create is not allowed")


def test_a_topic_of_dead_letters_that_is_there_needs_no_right_to_create_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "Admin", FakeAdmin)
    with pytest.raises(running.CannotLoad, match="topic dead-letters cannot be created: TOPIC_AUTHORIZATION_FAILED"):
        running._have_dead_letters(CONFIG)
    monkeypatch.setattr(FakeAdmin, "topics", ("dead-letters",))
    running._have_dead_letters(CONFIG)
