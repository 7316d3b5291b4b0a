"""The handler for Python's logging: lines, bounds, and what it does where no broker is."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest

from kraft.client import InvalidSetting
from kraft.client.logging import JsonFormatter, LogHandler

NOWHERE = "127.0.0.1:1"


def line(**attributes: Any) -> dict[str, Any]:
    record = logging.makeLogRecord({"name": "orders", "levelname": "INFO", "msg": "hello", **attributes})
    found: dict[str, Any] = json.loads(JsonFormatter({"service": "shop"}).line(record))
    return found


@contextmanager
def logger_to(handler: LogHandler) -> Iterator[logging.Logger]:
    logger = logging.getLogger(f"test.{id(handler)}")
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield logger
    finally:
        logger.removeHandler(handler)
        handler.close()


def test_a_line_has_time_level_logger_message_and_its_fields() -> None:
    found = line(created=1_735_689_600.25, msecs=250.0, msg="%d %s", args=(3, "ü"), process=7, threadName="main")
    assert found.pop("host")
    assert found == {
        "@timestamp": "2025-01-01T00:00:00.250Z",
        "level": "INFO",
        "logger": "orders",
        "message": "3 ü",
        "process": 7,
        "thread": "main",
        "service": "shop",
    }


def test_an_exception_and_a_stack_are_in_the_line() -> None:
    try:
        raise ValueError("no card")
    except ValueError:
        found = line(exc_info=sys.exc_info(), stack_info="Stack: here")
    assert found["exception"].endswith("ValueError: no card")
    assert found["stack"] == "Stack: here"


def test_extras_are_in_the_line_whatever_they_are() -> None:
    class Unprintable:
        def __str__(self) -> str:
            raise RuntimeError

    found = line(order=5, where=object, huge=10**40, broken="\ud800", odd=Unprintable(), level="mine")
    assert str(found["order"]) == "5"
    assert found["where"] == "<class 'object'>"
    assert found["broken"] == "\\ud800"
    assert found["odd"] == "<RuntimeError from str()>"
    assert found["level"] == "INFO"


def test_a_call_of_a_logger_neither_waits_nor_raises_without_a_broker_and_drops_are_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    handler = LogHandler("logs", NOWHERE, queue_max=10, close_ms=200)
    with logger_to(handler) as logger:
        for number in range(1_500):
            logger.warning("line %d", number)
        assert handler.dropped > 0
    assert handler.sent == 0
    assert handler.dropped + handler.failed == 1_500
    assert "1500 log lines are lost" in capsys.readouterr().err


def test_a_line_waits_for_room_where_it_may_and_no_longer_than_said() -> None:
    handler = LogHandler("logs", NOWHERE, queue_max=1, when_full="block", block_ms=1, close_ms=100)
    with logger_to(handler) as logger:
        for number in range(20):
            logger.warning("line %d", number)
    assert handler.dropped + handler.failed == 20


def test_a_wrong_call_and_a_key_that_fails_do_not_end_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)

    def key(record: logging.LogRecord) -> str:
        raise KeyError(record.name)

    with logger_to(LogHandler("logs", NOWHERE, key=key, close_ms=100)) as logger:
        logger.warning("%d", "no number")
        logger.warning("no key")


def test_lines_of_the_client_itself_are_left_out() -> None:
    handler = LogHandler("logs", NOWHERE, queue_max=1, close_ms=100)
    for _ in range(3):
        handler.handle(logging.makeLogRecord({"name": "kraft.client", "msg": "reconnecting"}))
    handler.close()
    assert handler.dropped + handler.failed == 0


def test_the_close_has_a_deadline_and_a_line_after_it_is_dropped() -> None:
    handler = LogHandler("logs", NOWHERE, close_ms=100)
    with logger_to(handler) as logger:
        logger.warning("queued")
        closing = threading.Thread(target=handler.close)
        closing.start()
        closing.join(30)
        assert not closing.is_alive()
        logger.warning("too late")
        handler.flush()
    assert (handler.failed, handler.dropped) == (1, 1)


def test_a_filter_of_the_handler_is_asked() -> None:
    handler = LogHandler("logs", NOWHERE, close_ms=100, level="ERROR")
    handler.addFilter(lambda record: "secret" not in record.getMessage())
    with logger_to(handler) as logger:
        logger.warning("below the level")
        logger.error("a secret")
    assert handler.dropped + handler.failed == 0


@pytest.mark.parametrize("wrong", [{"when_full": "explode"}, {"queue_max": 0}, {"acks": "some"}, {"nothing": 1}])
def test_wrong_settings_are_told_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetting):
        LogHandler("logs", NOWHERE, **wrong)


class FakeProducer:
    """Takes lines, after the first calls have failed."""

    def __init__(self, *failures: Exception) -> None:
        self._failures = list(failures)
        self.lines: list[str] = []
        self.closed = 0

    def opened(self) -> FakeProducer:
        return self

    def produce_many(self, _: str, values: list[bytes], *__: object, **___: object) -> Future[Any]:
        if self._failures:
            raise self._failures.pop(0)
        self.lines += [json.loads(each)["message"] for each in values]
        future: Future[Any] = Future()
        future.set_result(None)
        return future

    def close(self, _: int) -> None:
        self.closed += 1


def sent_after(monkeypatch: pytest.MonkeyPatch, handler: LogHandler, lines: list[str]) -> None:
    monkeypatch.setattr("kraft.client.logging._RETRY_S", 0.001)
    with logger_to(handler) as logger:
        for each in lines:
            logger.warning(each)
            handler.flush()


def test_a_thread_that_cannot_open_its_producer_tries_again_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    handler, producer, failures = LogHandler("logs", NOWHERE), FakeProducer(), [OSError(24, "Too many open files")] * 3

    def opened() -> FakeProducer:
        if failures:
            raise failures.pop()
        return producer

    monkeypatch.setattr(handler, "_open", opened)
    sent_after(monkeypatch, handler, ["one", "two"])
    assert (producer.lines, handler.sent, handler.failed) == (["one", "two"], 2, 0)
    assert "log lines are not stored: OSError: [Errno 24] Too many open files" in capsys.readouterr().err


def test_an_unexpected_error_costs_the_lines_it_met_which_are_counted_and_later_ones_are_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handler, producer = LogHandler("logs", NOWHERE), FakeProducer(MemoryError())
    monkeypatch.setattr(handler, "_open", producer.opened)
    sent_after(monkeypatch, handler, ["lost", "later"])
    assert (producer.lines, handler.sent, handler.failed) == (["later"], 1, 1)
    assert producer.closed == 2, "that of the error, and that of the end"


def test_a_line_without_room_for_a_thread_neither_raises_nor_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    handler, producer = LogHandler("logs", NOWHERE), FakeProducer()
    monkeypatch.setattr(handler, "_open", producer.opened)
    start, failures = threading.Thread.start, [RuntimeError("can't start new thread")]

    def started(thread: threading.Thread) -> None:
        if failures:
            raise failures.pop()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", started)
    sent_after(monkeypatch, handler, ["one", "two"])
    assert (producer.lines, handler.failed) == (["one", "two"], 0)


def test_times_are_those_of_the_call() -> None:
    before = time.time()
    found = line()
    assert found["@timestamp"] >= time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(before))


def test_a_forked_process_says_once_that_grpc_does_not_work_there_and_does_not_hang() -> None:
    program = """
import logging, os, sys, threading
from kraft.client.logging import LogHandler

handler = LogHandler("logs", sys.argv[1], wire_protocol="grpc", close_ms=100)
logging.basicConfig(level=logging.INFO, handlers=[handler])
logging.info("of the parent")
child = os.fork()
for number in range(3):
    logging.info("line %d", number)
if child == 0:
    handler.close()
    os._exit(handler.failed)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
"""
    command = [sys.executable, "-c", program, NOWHERE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    (said,) = [each for each in done.stderr.splitlines() if "was forked" in each]
    assert "leave out wire_protocol" in said
