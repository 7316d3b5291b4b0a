"""A batch is settled once each of its records is in the index or in the dead letters."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, cast

import pytest
import structlog

from kraft.client import Delay, ErrorCode, Producer, Refusal, TopicPartition
from kraft.client.model.errors import BufferExhausted
from kraft.sink import delivery
from kraft.sink.counts import Counts
from kraft.sink.delivery import Batch, Delivery, Stopped
from kraft.sink.documents import Document, Item, ItemError, Record, Refused
from kraft.sink.engine import EngineAway, LoginRefused, Overloaded, RequestRefused

INDEXED, BUSY = Item(201), Item(429, ItemError("rejected_execution_exception"))
NO_NUMBER = Item(400, ItemError("mapper_parsing_exception", "no number"))


class FakeEngine:
    """Answers as told, with an item for each document or an error; then it indexes everything."""

    def __init__(self, *answers: list[Item] | Exception) -> None:
        self._answers = list(answers)
        self.asked: list[list[int]] = []

    def bulk(self, documents: Sequence[Document]) -> tuple[list[Item], int]:
        self.asked.append([each.record.offset for each in documents])
        answer = self._answers.pop(0) if self._answers else [INDEXED] * len(documents)
        if isinstance(answer, Exception):
            raise answer
        return answer, 100


class FakeProducer:
    """Keeps letters; those of the first calls fail."""

    def __init__(self, *failures: Exception) -> None:
        self._failures = list(failures)
        self.letters: list[tuple[str, bytes, dict[str, bytes]]] = []

    def send(self, topic: str, value: bytes, *, key: bytes | None, headers: Sequence[tuple[str, bytes]]) -> Future[Any]:
        future: Future[Any] = Future()
        if self._failures:
            future.set_exception(self._failures.pop(0))
        else:
            self.letters.append((topic, value, dict(headers)))
            future.set_result(None)
        return future


def settled(engine: FakeEngine, producer: FakeProducer, count: int = 3, none: Sequence[Refused] = ()) -> Counts:
    counts = Counts()
    documents = [Document(record(offset), b"{}\n{}\n") for offset in range(count)]
    batch = Batch(number=5, began_s=0, documents=documents, refused=list(none))
    delivery = Delivery("dead", cast(Producer, producer), (1, 1), counts, threading.Event())
    assert delivery.settle(batch, engine) == 5
    return counts


def record(offset: int) -> Record:
    return Record("logs", 0, offset, 0, b"key", b"value", [("own", b"1")])


def test_only_what_was_put_off_is_sent_again() -> None:
    engine = FakeEngine([INDEXED, BUSY, BUSY], [INDEXED, BUSY])
    settled(engine, FakeProducer())
    assert engine.asked == [[0, 1, 2], [1, 2], [2]]


def test_all_is_sent_again_while_the_engine_is_away() -> None:
    engine = FakeEngine(EngineAway("connection refused"), EngineAway("status 503"))
    with structlog.testing.capture_logs() as logged:
        settled(engine, FakeProducer())
    assert engine.asked == [[0, 1, 2]] * 3
    assert [(each["event"], each["documents"]) for each in logged] == [
        ("delivery will be retried", 3),
        ("delivery will be retried", 3),
        ("search engine answers again", 3),
    ]


def test_what_is_refused_is_a_dead_letter_with_its_place_its_headers_and_the_reason() -> None:
    producer = FakeProducer()
    counts = settled(FakeEngine([INDEXED, NO_NUMBER, INDEXED]), producer)
    assert producer.letters == [
        (
            "dead",
            b"value",
            {
                "own": b"1",
                "__connect.errors.topic": b"logs",
                "__connect.errors.partition": b"0",
                "__connect.errors.offset": b"1",
                "__connect.errors.exception.class.name": b"mapper_parsing_exception",
                "__connect.errors.exception.message": b"no number",
            },
        )
    ]
    assert counts.said().startswith("0 records read: 2 documents indexed, 0 already there, 1 dead letter,")


def test_a_record_that_is_no_document_is_a_dead_letter_without_a_request() -> None:
    engine, producer = FakeEngine(), FakeProducer()
    settled(engine, producer, 0, [Refused(record(9), "not_a_document", "no object")])
    assert engine.asked == []
    assert len(producer.letters) == 1


def test_a_dead_letter_is_sent_until_it_is_stored() -> None:
    producer = FakeProducer(Refusal(ErrorCode.NOT_ENOUGH_REPLICAS, "one is missing"))
    settled(FakeEngine([NO_NUMBER]), producer, 1)
    assert len(producer.letters) == 1


def test_a_record_that_is_too_large_with_its_headers_is_a_dead_letter_without_its_value() -> None:
    producer = FakeProducer(Refusal(ErrorCode.MESSAGE_TOO_LARGE, "too large"))
    settled(FakeEngine([NO_NUMBER]), producer, 1)
    ((_, value, headers),) = producer.letters
    assert value == b""
    assert headers["__connect.errors.offset"] == b"0"


def test_a_dead_letter_whose_key_alone_is_too_large_goes_without_it() -> None:
    too_large = Refusal(ErrorCode.MESSAGE_TOO_LARGE, "too large")
    producer = FakeProducer(too_large, too_large)
    settled(FakeEngine([NO_NUMBER]), producer, 1)
    ((_, _, headers),) = producer.letters
    assert headers["__connect.errors.exception.message"].startswith(b"(key left out, it is too large) (value left out")


def test_a_dead_letter_waits_for_room_in_the_producer() -> None:
    producer = FakeProducer()
    send, failures = producer.send, [BufferExhausted("the buffers are full")]

    def full_at_first(*given: Any, **named: Any) -> Future[Any]:
        if failures:
            raise failures.pop()
        return send(*given, **named)

    producer.send = full_at_first  # type: ignore[method-assign]  # Of one instance.
    settled(FakeEngine([NO_NUMBER]), producer, 1)
    assert len(producer.letters) == 1


def test_a_request_that_is_too_large_is_halved_down_to_the_one_document() -> None:
    too_large = RequestRefused("status 413")
    engine, producer = FakeEngine(too_large, [INDEXED], too_large, too_large, [INDEXED]), FakeProducer()
    settled(engine, producer)
    assert engine.asked == [[0, 1, 2], [0], [1, 2], [1], [2]]
    assert [letter[2]["__connect.errors.offset"] for letter in producer.letters] == [b"1"]


def test_a_request_that_finds_no_room_three_times_is_halved() -> None:
    engine, producer = FakeEngine(*[Overloaded("status 429")] * 3), FakeProducer()
    settled(engine, producer)
    assert engine.asked == [[0, 1, 2]] * 3 + [[0], [1, 2]]
    assert producer.letters == []


def test_a_pause_is_as_long_as_the_engine_asks_for_and_no_longer_than_the_longest() -> None:
    waited: list[float] = []

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waited.append(timeout or 0)
            return False

    delivery = Delivery("dead", cast(Producer, FakeProducer()), (1, 9_000), Counts(), Stop())
    batch = Batch(number=1, began_s=0, documents=[Document(record(0), b"")], refused=[])
    delivery.settle(batch, FakeEngine(Overloaded("status 429", 3), EngineAway("status 503", 3_600)))
    assert waited == [3, 9]


def test_a_sink_that_ends_gives_up() -> None:
    stop = threading.Event()
    stop.set()
    delivery = Delivery("dead", cast(Producer, FakeProducer()), (1_000, 1_000), Counts(), stop)
    batch = Batch(number=1, began_s=0, documents=[Document(record(0), b"")], refused=[])
    with pytest.raises(Stopped):
        delivery.settle(batch, FakeEngine(EngineAway("connection refused")))


def test_a_login_that_is_not_taken_any_more_is_told_with_the_remedy() -> None:
    with structlog.testing.capture_logs() as logged:
        settled(FakeEngine(LoginRefused("engine:9200: status 401")), FakeProducer())
    line, _ = logged
    assert line["reason"].startswith("engine:9200: status 401: if the login has changed, correct it in the file")


THERE = Item(409, ItemError("version_conflict_engine_exception"))


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([[INDEXED, THERE, THERE]], [1]),
        ([EngineAway("no answer in time"), [THERE, THERE, INDEXED]], []),
        ([[INDEXED, BUSY, BUSY], [THERE, INDEXED]], []),
    ],
    ids=["found at the first try", "of the same request", "put off before"],
)
def test_records_whose_ids_are_there_already_are_told_once_with_the_remedy(
    answers: list[list[Item] | Exception], said: list[int]
) -> None:
    with structlog.testing.capture_logs() as logged:
        settled(FakeEngine(*answers), FakeProducer())
    lines = [each for each in logged if "remedy" in each]
    assert [each["offset"] for each in lines] == said
    assert all("document.id.prefix" in each["remedy"] for each in lines)


class SlowProducer(FakeProducer):
    """Stores a letter once somebody has asked what it waits for."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: Future[Any] = Future()

    def send(self, *given: Any, **named: Any) -> Future[Any]:
        super().send(*given, **named)
        return self._waiting

    def longest_delay(self) -> Delay:
        self._waiting.set_result(None)
        reason = "UNKNOWN_TOPIC_OR_PARTITION: there is no topic 'dead'"
        return Delay(partition=TopicPartition("dead", 0), reason=reason, waited_ms=6_000)


def test_what_dead_letters_wait_for_is_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "_TOLD_AFTER_S", 0.01)
    with structlog.testing.capture_logs() as logged:
        settled(FakeEngine(), SlowProducer(), 0, [Refused(record(9), "mapper_parsing_exception", "no number")])
    assert logged[0]["event"] == "dead letters are not stored yet"
    assert "kraft topics create" in logged[0]["reason"]
