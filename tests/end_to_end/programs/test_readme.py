"""README from top to bottom: each block of code is run as it stands, on real nodes, in an empty directory.

Only what WRITTEN_AS lists is replaced: README's ports, which another program may use, by free ones.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from msgspec import Struct

from kraft.client import Admin
from kraft.local.free_ports import ReservedPorts
from kraft.model.errors import Refusal
from tests.support.spark.spark_session import QUICK_WORKERS, SHORT_LIVED_JAVA
from tests.support.waiting import until

ROOT: Final = Path(__file__).parents[3]
README: Final = (ROOT / "README.md").read_text()
DEADLINE_S: Final = 120.0

NOT_RUN: Final = {
    "make demo ": "takes minutes, and `make test` is this test run; test_demo.py runs the demo",
    "pip install .": "takes minutes; `make setup` has installed this clone into the environment of the tests",
    "kraft server stop -c node-1.properties\nkraft storage grow": "run by quorum/test_growing_quorum.py, from README",
    "kraft topics describe --output json | python3": "run by quorum/test_growing_quorum.py, from README",
    "kraft dev --secure": "run by programs/test_dev.py",
    "kraft storage format -c server.properties --add-scram": "run by programs/test_secured_nodes.py",
    "listeners=INTERNAL": "names machines that do not exist",
    "listener.security.protocol.map=GRPC:SASL_SSL": "names certificates that do not exist",
    "security.protocol=SASL_SSL": "settings of a client, for the listener of the block before",
    ".venv/bin/python -m chaos": "takes minutes; test_chaos.py runs the program",
}
"""How the blocks begin that are not run, with the reason."""

FILES: Final = {
    "process.roles=": "node-1.properties",
    "from kraft.client import Admin, Producer\n\n\ndef test_": "test_x.py",
}
"""How the blocks begin that are files, with the names."""


class Block(Struct, frozen=True):
    """Block of code in README: the language after its backquotes, and its lines."""

    language: str
    text: str

    def begins(self, beginnings: dict[str, str]) -> str | None:
        return next((value for beginning, value in beginnings.items() if self.text.startswith(beginning)), None)


def blocks() -> list[Block]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert len(found) == README.count("```") / 2
    return [Block(language, text) for language, text in found]


class Reader:
    """Does what README says, in a directory, as one who copies its blocks."""

    def __init__(self, directory: Path, port: int) -> None:
        self.directory = directory
        self.address = f"localhost:{port + 2}"
        # 9092 of node 1, 9192 of node 2 and so on: the first digit becomes those that precede `092` in the free port.
        self._written_as = {":9": f":{port // 1_000}", "kraft dev --nodes 3": f"kraft dev --nodes 3 --base-port {port}"}
        self._environment = os.environ | {
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
            "PYTHONPATH": os.pathsep.join((str(QUICK_WORKERS), str(ROOT))),
            "KRAFT_BOOTSTRAP_SERVER": self.address,
            "HOME": str(directory),
            "XDG_STATE_HOME": str(directory / "state"),
            "JDK_JAVA_OPTIONS": SHORT_LIVED_JAVA,
        }
        self._number = 0

    def written(self, block: Block) -> str:
        text = block.text
        for original, replacement in self._written_as.items():
            text = text.replace(original, replacement)
        return text

    def run(self, block: Block) -> str:
        """Run a script or a program to its end, and return what it prints; it must succeed."""
        command = self._command(block)
        finished = subprocess.run(
            command,
            cwd=self.directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert finished.returncode == 0, f"{block.text}\n{finished.stdout}\n{finished.stderr}"
        return finished.stdout

    @contextmanager
    def running(self, block: Block) -> Iterator[Path]:
        """Run a block until the end of the context, and then end it as Ctrl-C does; yield the file of its output."""
        command = self._command(block)
        output = self.directory / f"output-{self._number}"
        with output.open("wb") as printed:
            process = subprocess.Popen(
                command,
                cwd=self.directory,
                env=self._environment | {"PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield output
            os.killpg(process.pid, signal.SIGINT)
            process.wait(DEADLINE_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(DEADLINE_S)

    def stop_nodes(self) -> None:
        file = self.directory / "node-1.properties"
        found = re.search("^cluster.id=(.+)$", file.read_text(), re.MULTILINE) if file.exists() else None
        if found is not None:
            stop = [sys.executable, "-m", "kraft", "server", "stop", "--cluster-id", found[1]]
            subprocess.run(stop, env=self._environment, timeout=DEADLINE_S, check=False)

    def _command(self, block: Block) -> Sequence[str]:
        self._number += 1
        if (name := block.begins(FILES)) is not None:
            (self.directory / name).write_text(self.written(block))
            pytest_run = ["-m", "pytest", "-q", "-p", "no:cacheprovider", name]
            return [sys.executable, *pytest_run] if name.endswith(".py") else ["true"]
        if block.language == "python":
            name = f"sample-{self._number}.py"
            (self.directory / name).write_text(self.written(block))
            return [sys.executable, name]
        # Commands that follow one another in a shell, of which each has to succeed.
        return ["bash", "-e", "-o", "pipefail", "-c", self.written(block)]


@pytest.fixture(name="reader")
def _reader(tmp_path: Path) -> Iterator[Reader]:
    offsets = [node + listener for node in (0, 100, 200, 300) for listener in (0, 1, 2)]
    with ReservedPorts(1, offsets, among=range(10_092, 32_092, 1_000)) as (port,):
        reader = Reader(tmp_path, port)
        try:
            yield reader
        finally:
            reader.stop_nodes()


def test_no_block_is_excused_that_is_not_there() -> None:
    for beginning in (*NOT_RUN, *FILES):
        assert [each.text.startswith(beginning) for each in blocks()].count(True) == 1, beginning


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(400)
def test_every_command_and_sample_runs_as_it_stands(reader: Reader) -> None:
    printed: dict[str, str] = {}
    with ExitStack() as dev, ExitStack() as members:
        consumers: list[Path] = []
        for block in blocks():
            if block.begins(NOT_RUN):
                continue
            if block.text.startswith("kraft dev"):
                output = dev.enter_context(reader.running(block))
                until(partial(_has_printed, output, "Ctrl-C"), "kraft dev does not run")
            elif block.text.startswith("process.roles="):
                dev.close()  # README says that it is stopped first.
                reader.run(block)
            elif block.text.startswith("kraft consume orders --group"):
                consumers = [members.enter_context(reader.running(block)) for _ in range(2)]
                until(lambda: _have_partitions(reader.address, 2), "no two members have partitions")
            elif "until Ctrl-C" in block.text:
                with reader.running(block) as output:
                    until(partial(_has_printed, output, "\n"), f"nothing is printed: {block.text}")
                    # A failure ends the program; KeyboardInterrupt, which comes later, is how it is meant to end.
                    assert "Traceback" not in output.read_text(), output.read_text()
            else:
                if block.text.startswith("kraft groups reset-offsets"):
                    members.close()  # README says that both are stopped first.
                printed[block.text] = reader.run(block)
                if block.text.startswith("seq 1 1000 | sed"):
                    until(partial(_all_are_read_by, consumers), "not all records are printed")
                    assert all(each.read_text().count("order ") > 100 for each in consumers)
    _check_what_is_printed(printed)


def _has_printed(output: Path, text: str) -> bool:
    return text in output.read_text()


def _have_partitions(address: str, members: int) -> bool:
    with Admin(address) as admin:
        try:
            (group,) = admin.describe_consumer_groups(["billing"])
        except Refusal:
            return False  # The group does not exist yet, or its coordinator has not been elected.
    return sum(bool(member.assignment) for member in group.members) == members


def _all_are_read_by(consumers: Sequence[Path]) -> bool:
    return sum(each.read_text().count("order ") for each in consumers) == 1_000


def _check_what_is_printed(printed: dict[str, str]) -> None:
    def of(words: str) -> str:
        return next(text for block, text in printed.items() if words in block)

    assert "1\n2\n3\n" in of("seq 1 1000 | kraft produce orders\n")
    assert "is healthy" in of("kraft cluster health  ")
    assert "Broker 4 unregistered." in of("kraft brokers unregister 4")
    assert "order " in of("consumer.seek_to_beginning")
    assert "customer-" in of("kraft log dump")
    assert of("kraft consume bills").count("order ") == 10
    assert "1 passed" in of("test_orders_survive")
    assert re.search(r"\|\s+\d+\|\s+\d+\|.*order ", of("SparkSession"))
