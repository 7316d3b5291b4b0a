"""The supervisor of the processes of one file, with processes that are no nodes; real ones are started end to end."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kraft.local import supervisor
from kraft.local.free_ports import ReservedPorts
from kraft.server.config import loading
from kraft.server.config.loading import ConfigError
from kraft.server.config.node_config import NodeConfig
from kraft.server.identity import storage
from kraft.server.identity.storage import SUPERVISOR_LOCK_FILE, StorageError

DEADLINE_S = 60


def config_of(directory: Path, more: str = "") -> NodeConfig:
    file = directory / "server.properties"
    with ReservedPorts(2, offsets=(0, 10)) as (grpc, controller):
        file.write_text(
            "process.roles=broker,controller\nnode.id=1\nnode.processes=2\n"
            f"controller.quorum.voters=1@127.0.0.1:{controller}\nlog.dirs={directory}/data\n"
            f"listeners=GRPC://127.0.0.1:{grpc},CONTROLLER://127.0.0.1:{controller}\n{more}"
        )
    return loading.load(file)


def test_it_imports_neither_grpc_nor_a_broker() -> None:
    large = ("grpc", "psutil", "kraft.server.broker", "kraft.server.replica", "kraft.rpc", "kraft.quorum")
    program = f"import sys, kraft.local.supervisor\nprint([name for name in {large} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


def test_a_node_that_is_the_whole_cluster_formats_all_its_processes_at_the_first_start(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    supervisor.check(config)
    first, second = storage.read_meta(tmp_path / "data"), storage.read_meta(tmp_path / "data" / "node.1001")
    assert first is not None
    assert second is not None
    assert (first.node_id, second.node_id, first.cluster_id) == (1, 1001, second.cluster_id)
    supervisor.check(config)
    assert storage.read_meta(tmp_path / "data" / "node.1001") == second


def test_a_process_that_was_added_has_to_be_formatted_first(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    storage.format(config, storage.random_cluster_id())
    with pytest.raises(StorageError, match=r"node.1001 is not formatted: run 'kraft storage format -c .*'"):
        supervisor.check(config)


def test_it_runs_once(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    with storage.lock(config, SUPERVISOR_LOCK_FILE), pytest.raises(StorageError, match="is in use by another process"):
        supervisor.run(config)


def test_a_port_of_any_process_that_is_in_use_is_found_before_one_is_started(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    (grpc, _) = config.listeners
    with socket.create_server((grpc.host, grpc.port + 10)), pytest.raises(ConfigError) as raised:
        supervisor.run(config)
    assert f"cannot listen on {grpc.host}:{grpc.port + 10} for GRPC of process 1001: the port is in use" in str(
        raised.value
    )


STUB = """
import os, signal, sys
number = int(sys.argv[-1])
if number in map(int, os.environ["STUBBORN"].split()):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
else:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
if number in map(int, os.environ["BROKEN"].split()):
    # One write, so that nothing of the other process stands in it.
    os.write(2, b"kraft: no disk\\n")
    sys.exit(1)
os.write(2, b"runs %d\\n" % number)
while True:
    signal.pause()
"""

SUPERVISE = """
import os, sys
from kraft.local import supervisor
from kraft.server.config.loading import load
command = [os.environ["COMMAND"], sys.argv[2]]
sys.exit(supervisor.run(load(sys.argv[1]), command, stop_deadline_s=0.5))
"""


@contextmanager
def supervising(directory: Path, **stubs: str) -> Iterator[subprocess.Popen[str]]:
    """Supervise processes that only seem to be nodes. Events go to the standard output."""
    stub = directory / "stub.py"
    stub.write_text(STUB)
    running = subprocess.Popen(
        [sys.executable, "-c", SUPERVISE, str(config_of(directory).file), str(stub)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"COMMAND": sys.executable, "STUBBORN": "", "BROKEN": "", "PYTHONUNBUFFERED": "1"} | stubs,
    )
    try:
        yield running
    finally:
        running.terminate()
        running.communicate(timeout=DEADLINE_S)


@pytest.mark.parametrize(("stubborn", "exit_code"), [("", 0), ("0", 1), ("0 1", 1)])
def test_a_process_that_does_not_stop_in_time_is_killed(tmp_path: Path, stubborn: str, exit_code: int) -> None:
    with supervising(tmp_path, STUBBORN=stubborn) as running:
        assert running.stderr is not None
        assert sorted(running.stderr.readline() for _ in range(2)) == ["runs 0\n", "runs 1\n"]
        running.terminate()
        said, _ = running.communicate(timeout=DEADLINE_S)
        assert running.returncode == exit_code
        assert said.count("node killed") == len(stubborn.split())


def test_a_process_that_cannot_be_started_is_tried_again(tmp_path: Path) -> None:
    with supervising(tmp_path, COMMAND=str(tmp_path / "missing")) as running:
        assert running.stdout is not None
        said = [running.stdout.readline() for _ in range(3)]
        assert [line.count("node not started") for line in said] == [1, 1, 1]
        running.terminate()
        assert running.wait(DEADLINE_S) == 0


def test_a_process_that_ends_with_an_error_at_the_start_ends_the_others(tmp_path: Path) -> None:
    with supervising(tmp_path, BROKEN="1") as running:
        _, errors = running.communicate(timeout=DEADLINE_S)
        assert running.returncode == 1
        assert [line for line in errors.splitlines() if not line.startswith("runs")] == ["kraft: no disk"]
