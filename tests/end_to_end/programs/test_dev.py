"""`kraft dev` as users run it: a real command, real nodes, Ctrl-C."""

from __future__ import annotations

import os
import re
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, Queue
from urllib.request import urlopen

import confluent_kafka
import kafka
import psutil
import pytest

from kraft.client import Admin
from kraft.local.free_ports import ReservedPorts
from kraft.local.launching import KRAFT
from tests.support.command_line import PROGRAMS
from tests.support.console_browser import Browser
from tests.support.waiting import until


class Dev:
    """A running `kraft dev` and what it has printed so far."""

    def __init__(self, *arguments: str) -> None:
        reading_end, writing_end = os.pipe()
        with open(os.devnull, "rb") as nothing, open(writing_end, "wb") as printed:
            self.process = PROGRAMS.start([*KRAFT, "dev", *arguments], nothing, printed, printed)
        self._reading_end = reading_end
        self.output = ""
        self._lines: Queue[str] = Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def wait_for(self, text: str, deadline_s: float = 60) -> None:
        try:
            while text not in self.output:
                self.output += self._lines.get(timeout=deadline_s)
        except Empty:
            raise AssertionError(f"{text!r} was not printed in time:\n{self.output}") from None

    def end(self, number: signal.Signals, deadline_s: float = 60) -> int:
        self.process.send_signal(number)
        return self.process.wait(deadline_s)

    def node_pids(self) -> list[int]:
        """Return the children of its one child, which forks them."""
        (forks,) = psutil.Process(self.process.pid).children()
        return [node.pid for node in forks.children()]

    def _read(self) -> None:
        with open(self._reading_end) as printed:
            for line in printed:
                self._lines.put(line)
        self._lines.put("(end of output)\n")


@pytest.fixture(name="start_dev")
def _start_dev(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Dev]]:
    monkeypatch.setenv("COLUMNS", "200")
    started = []

    def start_dev(*arguments: str) -> Dev:
        started.append(Dev(*arguments))
        return started[-1]

    yield start_dev
    for dev in started:
        if dev.process.poll() is None:
            dev.process.kill()
            dev.process.wait(30)


@pytest.fixture
def base_port() -> Iterator[str]:
    with ReservedPorts(1, offsets=[node + listener for node in (0, 100, 200) for listener in (0, 1, 2, 3, 4)]) as (
        port,
    ):
        yield str(port)


def test_three_nodes_answer_are_listed_and_end_with_control_c(start_dev: Callable[..., Dev], base_port: str) -> None:
    dev = start_dev("--nodes", "3", "--base-port", base_port)
    dev.wait_for("Ctrl-C stops it")
    print(dev.output)
    pids = dev.node_pids()
    assert len(pids) == 3
    assert all(str(pid) in dev.output for pid in pids)
    assert all(f"127.0.0.1:{int(base_port) + 2 + 100 * index}" in dev.output for index in range(3))
    assert "Metrics" not in dev.output
    assert dev.end(signal.SIGINT) == 0
    assert not any(psutil.pid_exists(pid) for pid in pids)


@pytest.mark.slow
def test_a_node_is_stopped_by_its_configuration_file_alone(
    start_dev: Callable[..., Dev], base_port: str, tmp_path: Path
) -> None:
    dev = start_dev("--nodes", "2", "--base-port", base_port, "--data-dir", str(tmp_path), "--metrics")
    dev.wait_for("Probes")
    (first, second) = re.findall(r"http://127\.0\.0\.1:\d+/metrics", dev.output)
    for address in (first, second):
        with urlopen(address, timeout=30) as answer:
            assert b"kafka_server_replicamanager_leadercount" in answer.read()
    (probe,) = re.findall(r"http://\S+/readyz", dev.output)
    with urlopen(probe.replace("readyz", "healthz"), timeout=30) as answer:
        assert answer.status == 200
    stopped = PROGRAMS.run([*KRAFT, "server", "stop", "-c", str(tmp_path / "node-2.properties")], 60)
    assert (stopped.returncode, stopped.stderr) == (0, "")
    assert stopped.stdout.startswith("Stopped node 2 of cluster ")
    dev.wait_for("No controller is active: 1 of 2 voters run")
    assert dev.end(signal.SIGINT) == 0


@pytest.mark.slow
def test_the_console_shows_the_cluster_and_ends_with_it(start_dev: Callable[..., Dev], base_port: str) -> None:
    dev = start_dev("--nodes", "1", "--base-port", base_port, "--console")
    dev.wait_for(f"Console: http://localhost:{int(base_port) + 4}/\n")
    pids = [each.pid for each in psutil.Process(dev.process.pid).children(recursive=True)]
    browser = Browser(int(base_port) + 4)
    assert ("Healthy" in browser.get("/clusters/dev").text, browser.get("/clusters/dev/topics").status) == (True, 200)
    assert dev.end(signal.SIGKILL) == -signal.SIGKILL
    # Not even by that is anything left behind.
    until(lambda: not any(psutil.pid_exists(each) for each in pids), "the node and the console have ended")


@pytest.mark.slow
def test_a_kept_cluster_comes_back_as_itself(start_dev: Callable[..., Dev], base_port: str, tmp_path: Path) -> None:
    arguments = ("--nodes", "1", "--data-dir", str(tmp_path))
    first = start_dev(*arguments, "--base-port", base_port)
    first.wait_for("Ctrl-C stops it")
    assert first.end(signal.SIGTERM) == 0
    meta = (tmp_path / "node-1" / "meta.properties").read_text()
    second = start_dev(*arguments)
    second.wait_for(f"127.0.0.1:{int(base_port) + 2}")
    assert second.end(signal.SIGINT) == 0
    assert (tmp_path / "node-1" / "meta.properties").read_text() == meta


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/none"])
def test_a_directory_that_cannot_be_written_to_is_refused_in_one_line(
    base_port: str, tmp_path: Path, place: str
) -> None:
    (tmp_path / "file").touch()
    directory = tmp_path / place
    refused = PROGRAMS.run([*KRAFT, "dev", "--base-port", base_port, "--data-dir", str(directory)], 60)
    assert (refused.returncode, refused.stdout) == (1, "")
    reason = {"file": "File exists", "file/below": "Not a directory", "/proc/none": "No such file or directory"}[place]
    assert refused.stderr == f"kraft: {directory}: cannot be written to: {reason}: choose another --data-dir\n"


@pytest.mark.slow
def test_nodes_that_nobody_gave_an_id_are_numbered_and_keep_their_numbers(
    start_dev: Callable[..., Dev], base_port: str, tmp_path: Path
) -> None:
    def identities() -> dict[str, str]:
        """Return the text of each node's `meta.properties`, which has its id."""
        return {path.parent.name: path.read_text() for path in sorted(tmp_path.glob("node-*/meta.properties"))}

    def numbers(identities: dict[str, str]) -> list[list[str]]:
        return [re.findall(r"^node\.id=(.*)$", text, re.MULTILINE) for text in identities.values()]

    arguments = ("--data-dir", str(tmp_path), "--base-port", base_port)
    one = start_dev("--nodes", "1", *arguments)
    one.wait_for("Ctrl-C stops it")
    assert one.end(signal.SIGINT) == 0
    before = identities()
    assert numbers(before) == [["1"]]

    three = start_dev("--nodes", "3", *arguments)
    three.wait_for("Ctrl-C stops it")
    with Admin(f"127.0.0.1:{int(base_port) + 2}") as admin:
        assert [broker.broker_id for broker in admin.describe_brokers()] == [1, 2, 3]
    assert three.end(signal.SIGINT) == 0
    after = identities()
    assert numbers(after) == [["1"], ["2"], ["3"]]
    assert after["node-1"] == before["node-1"]


@pytest.mark.slow
def test_a_node_that_dies_is_named_and_the_other_goes_on_without_a_controller(
    start_dev: Callable[..., Dev], base_port: str
) -> None:
    dev = start_dev("--nodes", "2", "--base-port", base_port)
    dev.wait_for("Ctrl-C stops it")
    first, last = dev.node_pids()
    os.kill(last, signal.SIGKILL)
    dev.wait_for("No controller is active: 1 of 2 voters run")
    assert re.search(r"node \d ended with exit code -9; the end of ", dev.output)
    assert dev.process.poll() is None
    assert psutil.pid_exists(first)

    os.kill(first, signal.SIGKILL)
    assert dev.process.wait(60) == 1
    dev.wait_for("(end of output)")
    assert re.search(r"kraft: node \d ended with exit code -9; the end of ", dev.output)


def _printed(dev: Dev, client: str) -> str:
    """Return the expression that is printed for a client."""
    (line,) = (line for line in dev.output.splitlines() if line.startswith(f"{client}: "))
    return line.removeprefix(f"{client}: ")


@pytest.mark.slow
def test_a_secured_cluster_prints_how_clients_connect_and_no_password(
    start_dev: Callable[..., Dev], base_port: str, tmp_path: Path
) -> None:
    arguments = ("--nodes", "3", "--data-dir", str(tmp_path))
    began = time.monotonic()
    dev = start_dev("--secure", "--base-port", base_port, *arguments)
    dev.wait_for("Next: ")
    # As a reader would copy it.
    producer = eval(_printed(dev, "kafka-python"), {"KafkaProducer": kafka.KafkaProducer})  # noqa: S307
    assert producer.send("orders", b"1").get(30).offset == 0
    print(f"kafka-python's first record: {time.monotonic() - began:.1f} s after the command")
    producer.close()
    confluent = eval(_printed(dev, "confluent-kafka"), {"Producer": confluent_kafka.Producer})  # noqa: S307
    confluent.produce("orders", b"2")
    assert confluent.flush(30) == 0
    command = shlex.split(_printed(dev, "Next"))
    listed = PROGRAMS.run([*KRAFT, *command[1:]], 60)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "orders" in listed.stdout
    without = PROGRAMS.run([*KRAFT, *command[1:-2]], 60)
    assert (without.returncode, without.stdout) == (1, "")
    password = (tmp_path / "security" / "admin.password").read_text().strip()
    assert dev.end(signal.SIGINT) == 0
    assert password not in dev.output

    # It stays as it was made.
    again = start_dev(*arguments, "--console")
    again.wait_for("Console: ")
    assert Browser(int(base_port) + 4).log_in("dev", "admin", password).status == 303
    assert _printed(again, "kafka-python") == _printed(dev, "kafka-python")
    assert PROGRAMS.run([*KRAFT, *command[1:]], 60).stdout == listed.stdout
    assert again.end(signal.SIGINT) == 0
    logs = "".join(log.read_text() for log in tmp_path.glob("node-*.log"))
    assert password not in logs + again.output


@pytest.mark.slow
def test_a_cluster_without_users_is_not_secured_afterwards(
    start_dev: Callable[..., Dev], base_port: str, tmp_path: Path
) -> None:
    arguments = ("--nodes", "1", "--base-port", base_port, "--data-dir", str(tmp_path))
    dev = start_dev(*arguments)
    dev.wait_for("Ctrl-C stops it")
    assert dev.end(signal.SIGINT) == 0
    refused = PROGRAMS.run([*KRAFT, "dev", "--secure", *arguments], 60)
    expected = f"kraft: {tmp_path} holds a cluster that is not secured: choose another --data-dir with --secure\n"
    assert (refused.returncode, refused.stderr) == (1, expected)
