"""Nodes from configuration files as the README has them: formatted, started in the background, and stopped."""

from __future__ import annotations

import json
import re
import shutil
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from kraft.client import Admin
from kraft.local.cluster_files import HOST
from kraft.local.free_ports import ReservedPorts
from kraft.server.identity.storage import random_cluster_id
from kraft.testing import Cluster
from tests.support.command_line import run, running
from tests.support.error_lines import the_one_line
from tests.support.kafka.release_files import SECOND_BROKER_1, edited_as_told
from tests.support.records import create_topic, once_each, publish, read_all
from tests.support.waiting import until


class Machine:
    """Three configuration files, which name each other and no secret."""

    def __init__(self, directory: Path, ports: list[int]) -> None:
        self.cluster_id = random_cluster_id()
        self.directory = directory
        self.grpc, self.controller = ports[:3], ports[3:]
        self.waits: list[str] = []
        """What each start said while it took long."""
        self.configs = [self._write(node_id) for node_id in (1, 2, 3)]

    def _write(self, node_id: int) -> Path:
        voters = ",".join(f"{number}@{HOST}:{port}" for number, port in enumerate(self.controller, 1))
        file = self.directory / f"server-{node_id}.properties"
        file.write_text(
            f"process.roles=broker,controller\nnode.id={node_id}\ncluster.id={self.cluster_id}\n"
            f"controller.quorum.voters={voters}\nlog.dirs={self.directory}/data/node-{node_id}\n"
            f"listeners=GRPC://{HOST}:{self.grpc[node_id - 1]},CONTROLLER://{HOST}:{self.controller[node_id - 1]}\n"
        )
        return file

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self.grpc)

    def start(self, config: Path) -> tuple[str, int]:
        """Start a node; return the command's output and the node's pid."""
        done = run("server", "start", "-c", config, "--daemon")
        assert done.returncode == 0, done.stderr
        said, where = done.stdout.splitlines()
        self.waits.append(done.stderr)
        return said, int(where.split()[1].rstrip(","))

    def log(self, node_id: int) -> list[str]:
        lines = (self.directory / "data" / f"node-{node_id}.log").read_text().splitlines()
        return [json.loads(line)["event"] for line in lines]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with ReservedPorts(6) as ports:
        made = Machine(tmp_path, ports)
        yield made
        run("server", "stop", "--cluster-id", made.cluster_id)


def test_a_file_of_kafka_with_zookeeper_starts_once_it_is_edited_as_its_errors_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its id is in the environment, as in a container."""
    monkeypatch.setenv("KAFKA_BROKER_ID", "1")
    file = tmp_path / "server-1.properties"
    file.write_text(SECOND_BROKER_1.replace("broker.id=1\n", "").replace("/tmp/", f"{tmp_path}/"))
    refused = run("server", "start", file)
    assert refused.returncode == 1
    edited = edited_as_told(file.read_text(), refused.stderr)
    with ReservedPorts(3) as (kafka_port, controller_port, grpc_port):
        # The file's own ports may be in use here, and so may the one that a GRPC listener gets.
        edited = edited.replace("9093", str(kafka_port)).replace("9094", str(controller_port))
        file.write_text(edited.replace("listeners=", f"listeners=GRPC://{HOST}:{grpc_port},"))
        assert run("kafka-server-start.sh", "-daemon", file).returncode == 0
    servers = f"localhost:{kafka_port}"
    reading = "--topic t --offset 0 --partition 0 --max-messages 1"
    try:
        for line, stdin, printed in (
            (f"kafka-topics.sh --create --bootstrap-server {servers} --topic t", b"", "Created topic t.\n"),
            (f"kafka-console-producer.sh --broker-list {servers} --topic t", b"pizza\n", ""),
            (f"kafka-console-consumer.sh --bootstrap-server {servers} {reading}", b"", "pizza\n"),
        ):
            done = run(*line.split(), stdin=stdin)
            assert (done.returncode, done.stdout) == (0, printed), done.stderr
    finally:
        assert run("server", "stop", "-c", file).returncode == 0


@pytest.mark.slow
def test_three_nodes_start_in_the_background_serve_and_are_stopped_together(machine: Machine) -> None:
    for config in machine.configs:
        assert run("storage", "format", "-c", config).returncode == 0
    started = [machine.start(config) for config in machine.configs]
    waits = "is running, but not in service: it needs all 3 controllers at the first start, and only"
    assert [said for said, _ in started] == [
        f"Node 1 {waits} 1 is running: start controllers 2, 3.",
        f"Node 2 {waits} 2 are running: start controller 3.",
        "Node 3 is in service.",
    ]
    assert machine.waits[0].startswith("Waiting for node 1: ")
    for number, (_, pid) in enumerate(started, 1):
        assert (machine.directory / "data" / f"node-{number}" / ".lock").read_text() == f"{pid}\n"
    with Admin(machine.bootstrap_servers) as admin:  # "in service" is said of node 3 alone
        until(lambda: len(admin.describe_cluster().brokers) == 3, "not all three brokers have registered")
    create_topic(machine.bootstrap_servers, "orders", partitions=1)
    publish(machine.bootstrap_servers, "orders", range(100))
    assert read_all(machine.bootstrap_servers, "orders") == once_each(100)

    first = run("server", "stop", "-c", machine.configs[0])
    assert first.stdout == f"Stopped node 1 of cluster {machine.cluster_id} (pid {started[0][1]}).\n"
    with Admin(machine.bootstrap_servers) as admin:
        assert {broker.node_id for broker in admin.describe_cluster().brokers} <= {1, 2, 3}
    both = run("server", "stop", "--cluster-id", machine.cluster_id)
    assert (both.returncode, re.findall(r"node (\d)", both.stdout)) == (0, ["2", "3"])
    assert not any(psutil.pid_exists(pid) and _runs(pid) for _, pid in started)
    assert all(machine.log(node_id)[-1] == "node stopped" for node_id in (1, 2, 3))
    assert "no matching node of this user runs" in the_one_line(
        run("server", "stop", "--cluster-id", machine.cluster_id)
    )


@pytest.mark.slow
def test_a_node_beside_a_quorum_of_one_says_that_it_must_be_grown_first(machine: Machine) -> None:
    one, two, _ = machine.configs
    one.write_text(re.sub(r"voters=([^,]+),\S+", r"voters=\1", one.read_text()))
    for config in (one, two):
        assert run("storage", "format", "-c", config).returncode == 0
    assert machine.start(one)[0] == "Node 1 is in service."
    said = the_one_line(run("server", "start", "-c", two, "--daemon"))
    assert "controller.quorum.voters differ: node 1 has [1], node 2 has [1, 2, 3]" in said
    assert "grow that one first" in said
    assert "only 2 are running" not in said


@pytest.mark.slow
def test_a_broker_that_the_controllers_refuse_says_so_while_it_is_waited_for(machine: Machine) -> None:
    one, two, _ = machine.configs
    one.write_text(re.sub(r"voters=([^,]+),\S+", r"voters=\1", one.read_text()))
    assert machine.start(one)[0] == "Node 1 is in service."
    secret = machine.directory / "secret"
    secret.write_text("another secret than that of this machine\n")
    secret.chmod(0o600)
    alone = re.sub(r"voters=([^,]+),\S+", r"voters=\1", two.read_text())
    alone = re.sub(r",controller$", "", re.sub(r",CONTROLLER\S+", "", alone), flags=re.MULTILINE)
    two.write_text(f"{alone}cluster.secret.file={secret}\n")
    assert run("storage", "format", "-c", two).returncode == 0
    said = f"Waiting for node 2: it does not listen on GRPC://{HOST}:{machine.grpc[1]} yet"
    with running("kraft", "server", "start", "-c", two, "--daemon") as starting:
        assert starting.stderr.readline().decode().startswith(said)
        why = starting.stderr.readline().decode()
    assert why.startswith(f"{said}, because it is not registered: ")
    assert "its cluster secret differs" in why


def start_and_lose(machine: Machine, *, killed: tuple[int, ...], lost: tuple[int, ...]) -> None:
    """Start the three nodes, kill some, and delete and format the directories of some of these."""
    for config in machine.configs:
        assert run("storage", "format", "-c", config).returncode == 0
    with ThreadPoolExecutor() as together:  # Each waits for the others.
        pids = [pid for _, pid in together.map(machine.start, machine.configs)]
    for node_id in killed:
        process = psutil.Process(pids[node_id - 1])
        process.kill()
        process.wait(10)
    for node_id in lost:
        shutil.rmtree(machine.directory / "data" / f"node-{node_id}")
        assert run("storage", "format", "-c", machine.configs[node_id - 1]).returncode == 0


@pytest.mark.slow
def test_an_empty_controller_that_nobody_can_admit_names_the_one_to_start(machine: Machine) -> None:
    start_and_lose(machine, killed=(2, 3), lost=(3,))
    said, _ = machine.start(machine.configs[2])
    assert said.endswith("and only 1 is running: start controller 2."), said
    described = run("quorum", "describe", "--bootstrap-server", f"{HOST}:{machine.grpc[0]}")
    assert (
        "voter 3 lost its metadata log and does not count until a leader admits it: start voter 2" in described.stderr
    )
    assert [line.split()[-1] for line in described.stdout.splitlines()[-3:]] == ["Follower", "Unreachable", "Learner"]
    assert "controller is a learner: it does not count until the leader has admitted it" in machine.log(3)


@pytest.mark.slow
def test_after_two_of_three_directories_are_lost_the_last_metadata_log_is_named(machine: Machine) -> None:
    start_and_lose(machine, killed=(1, 3), lost=(1, 3))
    said, _ = machine.start(machine.configs[0])
    assert said.endswith("and only 1 is running: start controller 3."), said
    late = the_one_line(run("server", "start", "-c", machine.configs[2], "--daemon", "--timeout-ms", "12000"))
    assert "only controller 2 may have it: do not delete it" in late
    described = run("quorum", "describe", "--replication", "--bootstrap-server", f"{HOST}:{machine.grpc[1]}")
    assert [line.split()[-1] for line in described.stdout.splitlines()] == ["Status", "Learner", "Follower", "Learner"]
    assert described.stderr.endswith(
        "voters 1 and 3 have lost their metadata logs; only node 2 has the metadata: do not delete it\n"
    )


@pytest.mark.slow
def test_a_node_that_cannot_start_in_the_background_says_why(machine: Machine) -> None:
    (config, *_) = machine.configs
    assert "is not formatted: run 'kraft storage format" in the_one_line(
        run("server", "start", "-c", config, "-daemon")
    )
    run("storage", "format", "-c", config)
    with socket.create_server((HOST, machine.grpc[0])):
        output = the_one_line(run("server", "start", "-c", config, "--daemon"))
    assert f"{HOST}:{machine.grpc[0]}" in output
    _, pid = machine.start(config)
    output = the_one_line(run("server", "start", "-c", config, "--daemon"))
    assert f"node 1 is already running (pid {pid})" in output
    assert f"(pid {pid})" not in (machine.directory / "data" / "node-1.log").read_text(), "the running node writes it"


def test_a_single_node_is_in_service_when_it_is_said_to_be_and_its_output_can_be_thrown_away(machine: Machine) -> None:
    (config, *_) = machine.configs
    config.write_text(re.sub(r"voters=([^,]+),\S+", r"voters=\1", config.read_text()))
    done = run("server", "start", "-c", config, "--daemon", "--log-file", "/dev/null")
    assert done.stdout.startswith("Node 1 is in service.\npid "), done.stderr
    with Admin(f"{HOST}:{machine.grpc[0]}") as admin:
        admin.create_topic("at-once", 1, 1)
    assert not (machine.directory / "data" / "node-1.log").exists()


@pytest.mark.slow
def test_a_node_in_service_without_one_of_its_log_directories_names_it(machine: Machine) -> None:
    (config, *_) = machine.configs
    other = machine.directory / "other"
    config.write_text(
        re.sub(r"voters=([^,]+),\S+", r"voters=\1", config.read_text()).replace("/node-1\n", f"/node-1,{other}\n")
    )
    assert run("storage", "format", "-c", config).returncode == 0
    assert machine.start(config)[0] == "Node 1 is in service."
    assert run("server", "stop", "-c", config).returncode == 0
    shutil.rmtree(other)
    said, _ = machine.start(config)
    assert said.startswith(f"Node 1 is in service, without a log directory that cannot be used: {other} "), said


def test_nodes_that_a_launcher_started_are_left_to_it(machine: Machine) -> None:
    with Cluster(1) as launched:
        output = the_one_line(run("server", "stop", "--cluster-id", launched.cluster_id))
        assert "no matching node of this user runs" in output
        launched.wait_ready()


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
