from __future__ import annotations

import errno
import io
import json
import logging
import os
from pathlib import Path
from uuid import UUID

import pytest
import structlog

from kraft.server.config.components import LoggingSettings
from kraft.server.config.loading import ConfigError
from kraft.server.process import logging_setup

pytestmark = pytest.mark.usefixtures("own_logging")


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_one_json_line_with_its_facts_as_fields() -> None:
    stream = io.StringIO()
    logging_setup.configure(LoggingSettings(level="INFO"), stream)
    structlog.get_logger().info("isr shrank", topic="orders", partition=3, isr=[1, 2], topic_id=UUID(int=1), key=b"k")
    (line,) = lines(stream)
    assert list(line)[:3] == ["timestamp", "level", "event"]
    del line["timestamp"]
    assert line == {
        "level": "info",
        "event": "isr shrank",
        "topic": "orders",
        "partition": 3,
        "isr": [1, 2],
        "topic_id": "00000000-0000-0000-0000-000000000001",
        "key": "k",
    }


def test_events_below_the_level_are_not_written() -> None:
    stream = io.StringIO()
    logging_setup.configure(LoggingSettings(level="WARNING"), stream)
    structlog.get_logger().info("quiet")
    logging.getLogger("some.library").info("quiet")
    structlog.get_logger().warning("loud")
    assert [line["event"] for line in lines(stream)] == ["loud"]


def test_each_module_has_a_logger_whose_level_can_be_changed_after_its_first_event() -> None:
    stream = io.StringIO()
    logging_setup.configure(LoggingSettings(level="INFO"), stream)
    log, own, package = structlog.get_logger(), logging.getLogger(__name__), logging.getLogger("tests.unit")
    try:
        log.debug("before")
        own.setLevel(logging.DEBUG)
        log.debug("own level")
        own.setLevel(logging.NOTSET)
        package.setLevel(logging.ERROR)
        log.warning("level of the package")
        package.setLevel(logging.NOTSET)
        log.info("after")
    finally:
        own.setLevel(logging.NOTSET)
        package.setLevel(logging.NOTSET)
    assert [line["event"] for line in lines(stream)] == ["own level", "after"]


def test_libraries_come_out_the_same_way() -> None:
    stream = io.StringIO()
    logging_setup.configure(LoggingSettings(level="INFO"), stream)
    logging.getLogger("grpc").info("inside")
    logging.getLogger("pysyncobj.syncobj").warning("lost %s", "node 2")
    (line,) = lines(stream)
    assert (line["level"], line["event"], line["logger"]) == ("warning", "lost node 2", "pysyncobj.syncobj")


def test_at_debug_libraries_are_heard_in_full() -> None:
    stream = io.StringIO()
    logging_setup.configure(LoggingSettings(level="DEBUG"), stream)
    logging.getLogger("grpc").debug("inside")
    assert [line["event"] for line in lines(stream)] == ["inside"]


@pytest.mark.parametrize("json_lines", [True, False])
def test_an_exception_is_logged_with_its_place(json_lines: bool) -> None:
    stream = io.StringIO()
    logging_setup.configure(LoggingSettings(level="INFO"), stream, json_lines=json_lines)
    try:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError:
        structlog.get_logger().exception("append failed", topic="orders")
        logging.getLogger("library").exception("append failed")
    assert stream.getvalue().count(os.strerror(errno.ENOSPC)) == 2
    if json_lines:
        assert all("Traceback" in str(line["exception"]) for line in lines(stream))


def test_a_terminal_gets_columns_instead_of_json() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    logging_setup.configure(LoggingSettings(level="INFO"), stream)
    structlog.get_logger().info("isr shrank", partition=3)
    assert "isr shrank" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


class ExecuteBatchError(Exception):
    """An exception like gRPC's own."""


@pytest.mark.parametrize(("level", "is_heard"), [("INFO", False), ("DEBUG", True)])
def test_a_caller_that_disconnects_before_its_answer_is_no_error_of_the_node(level: str, is_heard: bool) -> None:
    stream = io.StringIO()
    logging_setup.configure(LoggingSettings(level=level), stream)
    for error in (ExecuteBatchError("Failed execute_batch"), ValueError("a bug")):
        try:
            raise error
        except Exception:
            logging.getLogger("grpc._cython.cygrpc").exception("raised by servicer method")
    logged = [str(line["exception"]) for line in lines(stream)]
    assert ["ExecuteBatchError" in each for each in logged] == ([True, False] if is_heard else [False])


# --- log.file ------------------------------------------------------------------------------------------------------


def events_in(file: Path) -> list[object]:
    return [json.loads(line)["event"] for line in file.read_text().splitlines()]


def test_events_are_written_to_the_file_as_json_and_to_standard_error_as_before(tmp_path: Path) -> None:
    stream, file = io.StringIO(), tmp_path / "logs" / "node-1.log"
    logging_setup.configure(LoggingSettings(file=file), stream, json_lines=False)
    structlog.get_logger().info("isr shrank", partition=3)
    logging.getLogger("some.library").warning("hot")
    assert events_in(file) == ["isr shrank", "hot"]
    assert f"{file.stat().st_mode & 0o777:o}" == "600"
    assert "isr shrank" in stream.getvalue()
    assert "{" not in stream.getvalue()


def test_a_full_file_is_renamed_and_so_many_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "node-1.log"
    settings = LoggingSettings(file=file, file_bytes_max=1_000, file_backups_max=2)
    logging_setup.configure(settings, io.StringIO())
    for number in range(100):
        structlog.get_logger().info(f"event {number}")
    files = [tmp_path / "node-1.log.2", tmp_path / "node-1.log.1", file]
    assert sorted(tmp_path.iterdir()) == sorted(files)
    assert all(each.stat().st_size <= 1_000 for each in files)
    kept = [event for each in files for event in events_in(each)]
    assert kept == [f"event {number}" for number in range(100 - len(kept), 100)]


def test_a_file_that_a_node_began_is_gone_on_with(tmp_path: Path) -> None:
    file = tmp_path / "node-1.log"
    file.write_text('{"event": "node stopped"}\n')
    logging_setup.configure(LoggingSettings(file=file), io.StringIO())
    structlog.get_logger().info("node process started")
    assert events_in(file) == ["node stopped", "node process started"]


def test_a_file_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"^log.file={tmp_path}: cannot be written to: Is a directory: choose"):
        logging_setup.configure(LoggingSettings(file=tmp_path), io.StringIO())


def test_a_disk_that_fails_is_reported_once_and_costs_the_node_nothing() -> None:
    stream = io.StringIO()
    # Every write to it fails as on a full disk.
    logging_setup.configure(LoggingSettings(file=Path("/dev/full")), stream)
    for number in range(3):
        structlog.get_logger().info(f"event {number}")
    written = stream.getvalue().splitlines()
    reported = [line for line in written if not line.startswith("{")]
    assert reported == [
        "kraft: log.file cannot be written to, events go to standard error only: [Errno 28] No space left on device"
    ]
    assert len(written) == 4


def test_each_event_of_a_process_that_shares_its_output_names_its_node() -> None:
    stream = io.StringIO()
    logging_setup.configure(LoggingSettings(level="INFO"), stream, node=1001)
    structlog.get_logger().info("isr shrank", partition=3)
    structlog.get_logger().info("node stopped", node=1001)
    assert [line["node"] for line in lines(stream)] == [1001, 1001]


@pytest.mark.parametrize("json_lines", [True, False])
def test_what_a_stranger_sends_moves_no_cursor_and_forges_no_line(json_lines: bool) -> None:
    stream = io.StringIO()
    logging_setup.configure(LoggingSettings(level="INFO"), stream, json_lines)
    forged = "x\x1b]0;pwned\x07\x9b2J\u202e\x85kraft: lost\nkraft: lost"
    structlog.get_logger().info("group member joined", client=forged)
    written = stream.getvalue()
    assert not any(each in written for each in ("\x1b]", "\x07", "\x9b", "\u202e", "\x85"))
    assert written.count("\n") == 1
    if json_lines:
        assert json.loads(written)["client"] == forged
