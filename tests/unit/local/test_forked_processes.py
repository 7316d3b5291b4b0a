"""Processes of a fork server look like processes of their own, to themselves and to their launcher."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from kraft.local.forked_processes import ForkedProcess, ForkServer
from kraft.local.launching import Process, launch
from tests.unit.local import forked_program

COMMAND = (sys.executable, "-m", forked_program.__name__)


@pytest.fixture(scope="module")
def server() -> ForkServer:
    return ForkServer(forked_program.PRELOAD)


def started(server: ForkServer, log: Path, *arguments: str) -> Process:
    """Start the program with a pipe that holds a word."""
    return _started(server.launch, log, *arguments)


def _started(how: Any, log: Path, *arguments: str) -> Process:
    reading_end, writing_end = os.pipe()
    os.write(writing_end, b"hello")
    try:
        with log.open("ab") as output:
            process: Process = how([*COMMAND, *arguments], output, reading_end, "PASSED")
    finally:
        os.close(reading_end)
        os.close(writing_end)
    return process


def facts(log: Path) -> dict[str, Any]:
    """Wait until the program has printed everything, and return what."""
    until_s = time.monotonic() + 60
    while "an error" not in log.read_text():
        assert time.monotonic() < until_s, "the program printed nothing"
        # Polled: it is another process.
        time.sleep(0.01)
    found: dict[str, Any] = json.loads(log.read_text().splitlines()[0])
    return found


def test_a_forked_process_is_like_one_of_its_own(
    server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_LAUNCHER", "set")
    found: list[dict[str, Any]] = []
    for how in (launch, server.launch):
        log = tmp_path / f"log-{len(found)}"
        process = _started(how, log, "exit", "now")
        assert process.wait(60) == 3
        assert process.poll() == 3
        found.append(facts(log))
        assert found[-1].pop("pid") == process.pid == found[-1].pop("session")
    # The list of descriptors is read through one more.
    assert {len(each.pop("descriptors")) for each in found} == {5}
    assert found[0].pop("variables") == found[1].pop("variables")
    assert [each.pop("is_preloaded") for each in found] == [False, True]
    assert [each.pop("is_garbage_sought_in_imports") for each in found] == [True, False]
    assert found[0] == found[1] == {"arguments": ["exit", "now"], "variable": "set", "passed": "hello", "input": ""}


@pytest.mark.parametrize(
    ("how", "code", "last_words"),
    [
        ("return", 0, []),
        ("exit without a code", 0, []),
        ("0", 0, []),
        ("7", 7, []),
        ("259", 3, []),
        ("exit with words", 1, ["words"]),
        ("error", 1, ["ValueError: error"]),
    ],
)
def test_it_ends_as_a_process_of_its_own_does(
    server: ForkServer, tmp_path: Path, how: str, code: int, last_words: list[str]
) -> None:
    for number, launched in enumerate((launch, server.launch)):
        log = tmp_path / str(number)
        assert _started(launched, log, "end", how).wait(60) == code
        lines = log.read_text().splitlines()
        # The output is flushed at the end, the errors at once.
        assert lines[-2:] == ["the thread has ended", "the callback is called"]
        assert lines[2:-2][-1:] == last_words


def test_it_ends_by_signals_and_its_handle_reaches_nothing_afterwards(server: ForkServer, tmp_path: Path) -> None:
    for number, log in ((signal.SIGTERM, tmp_path / "terminated"), (signal.SIGKILL, tmp_path / "killed")):
        process = started(server, log, "sleep")
        facts(log)
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.05)
        process.send_signal(number)
        assert process.wait(60) == -number
        process.kill()
        process.terminate()


def test_it_gets_an_environment_of_any_size_and_without_an_encoding(
    server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / os.fsdecode(b"caf\xe9")
    directory.mkdir()
    monkeypatch.chdir(directory)
    monkeypatch.setenv("OF_THE_LAUNCHER", os.fsdecode(b"caf\xe9"))
    for number in range(4):
        monkeypatch.setenv(f"LARGE_{number}", "x" * 100_000)
    process = started(server, tmp_path / "log", "exit", os.fsdecode(b"\xff"))
    assert process.wait(60) == 3
    found = facts(tmp_path / "log")
    assert (found["variable"], found["arguments"]) == ("caf\udce9", ["exit", "\udcff"])


def test_nothing_of_a_command_stays_in_the_server(
    server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = started(server, tmp_path / "running", "sleep")
    its_server = psutil.Process(running.pid).parent()
    assert its_server is not None
    before = its_server.num_fds()
    for name in its_server.environ():
        if name not in ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH"):
            monkeypatch.delenv(name, raising=False)
    assert started(server, tmp_path / "next", "exit").wait(60) == 3
    assert facts(tmp_path / "next")["variables"] == sorted({*os.environ, "PASSED", "PYTHONPATH"})
    until_s = time.monotonic() + 60
    while its_server.num_fds() > before:
        # The last one is closed after the status was written.
        assert time.monotonic() < until_s, "the server holds descriptors of a command"
        time.sleep(0.01)
    running.terminate()
    assert running.wait(60) == -signal.SIGTERM


def test_a_forked_child_of_the_launcher_has_a_server_of_its_own(server: ForkServer, tmp_path: Path) -> None:
    running = started(server, tmp_path / "running", "sleep")
    facts(tmp_path / "running")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            process = started(server, tmp_path / "of_the_child", "sleep")
            parents = {psutil.Process(each.pid).ppid() for each in (running, process)}
            process.kill()
            code = 3 - len(parents)
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert running.poll() is None
    assert started(server, tmp_path / "next", "exit").wait(60) == 3
    running.terminate()
    assert running.wait(60) == -signal.SIGTERM


def test_several_run_at_the_same_time(server: ForkServer, tmp_path: Path) -> None:
    logs = [tmp_path / str(number) for number in range(4)]
    processes = [started(server, log, "sleep", str(number)) for number, log in enumerate(logs)]
    assert [facts(log)["arguments"][1] for log in logs] == ["0", "1", "2", "3"]
    processes[2].kill()
    assert processes[2].wait(60) == -signal.SIGKILL
    assert [process.poll() is None for process in processes] == [True, True, False, True]
    for process in processes:
        process.kill()
        process.wait(60)


def test_a_killed_server_is_reported_once_and_replaced(tmp_path: Path) -> None:
    server = ForkServer(forked_program.PRELOAD)
    process = started(server, tmp_path / "first", "sleep")
    facts(tmp_path / "first")
    assert isinstance(process, ForkedProcess)
    parent = psutil.Process(process.pid).parent()
    assert parent is not None
    parent.kill()
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.2)
    process.terminate()
    assert process.wait(60) == -signal.SIGKILL, "nobody knows how it ends"
    with pytest.raises(ConnectionError):
        started(server, tmp_path / "second", "exit")
    assert started(server, tmp_path / "third", "exit").wait(60) == 3


def test_an_interrupted_start_leaves_no_response_for_the_next_one(
    server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = started(server, tmp_path / "running", "sleep")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("socket.recv_fds", interrupted)
        with pytest.raises(KeyboardInterrupt):
            started(server, tmp_path / "interrupted", "exit")
    assert started(server, tmp_path / "next", "exit").wait(60) == 3
    running.terminate()
    assert running.wait(60) == -signal.SIGTERM, "the server before reports it still"


def test_the_server_ends_with_its_launcher(tmp_path: Path) -> None:
    program = (
        "import os, psutil\n"
        "from kraft.local.forked_processes import ForkServer\n"
        f"server = ForkServer({forked_program.PRELOAD!r})\n"
        "end, _ = os.pipe()\n"
        f"process = server.launch({[*COMMAND, 'exit']!r}, open('{tmp_path}/log', 'wb'), end, 'PASSED')\n"
        "os.write(_, b'hello')\n"
        "print(psutil.Process().children()[0].pid)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert not psutil.pid_exists(int(done.stdout))
