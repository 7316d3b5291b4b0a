"""What a person gets wrong with a node: one line that names it and the remedy, exit code 1, no traceback, no hang."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import kraft
from kraft.server import cluster_files, storage
from kraft.server.cluster_files import HOST, NodePlan
from kraft.server.free_ports import ReservedPorts
from kraft.testing import Cluster

CLUSTER = "kJ2Yk0mVT0ma0wV2Yk0mVQ"
OTHER_CLUSTER = "AAAAAAAAAAAAAAAAAAAAAg"


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kraft", *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": str(Path(kraft.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def the_one_line(finished: subprocess.CompletedProcess[str]) -> str:
    """What the person reads: the only line that is no log line of the node."""
    lines = [line for line in finished.stderr.splitlines() if not line.startswith("{")]
    assert finished.returncode == 1, finished.stderr
    assert len(lines) == 1, finished.stderr
    assert lines[0].startswith("kraft: ")
    return lines[0]


@pytest.fixture
def plan() -> NodePlan:
    reserved = ReservedPorts(2)
    grpc_port, controller_port = reserved.ports
    reserved.release()
    return NodePlan(node_id=1, grpc_port=grpc_port, controller_port=controller_port)


@pytest.fixture
def config(tmp_path: Path, plan: NodePlan) -> Path:
    """A node that could start, alone in its cluster, its directory formatted."""
    cluster_files.write(tmp_path, [plan], CLUSTER)
    return cluster_files.config_file(tmp_path, 1)


def replace(config: Path, old: str, new: str) -> None:
    text = config.read_text()
    assert old in text
    config.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("num.partitions=many", "num.partitions=many: expected a whole number from 1 to 10000"),
        ("log.durability=maybe", "log.durability=maybe: expected fsync or page-cache"),
        ("listeners=GRPC://localhost", "'GRPC://localhost' is no listener: expected NAME://host:port"),
        ("min.insync.replicas=2", "min.insync.replicas=2: above default.replication.factor=1"),
        ("zookeeper.connect=localhost:2181", "there is no ZooKeeper here: name the controllers in controller.quorum"),
        ("ssl.keystore.password=hush", "ssl.keystore.password: security is not built yet"),
        ("advertised.listeners=GRPC://0.0.0.0:9094", "is every interface, which no client can dial"),
    ],
)
def test_a_wrong_setting_stops_the_node_before_it_starts(config: Path, line: str, expected: str) -> None:
    config.write_text(f"{config.read_text()}{line}\n")
    told = the_one_line(run("server", "start", "-c", config))
    assert expected in told
    assert str(config) in told
    assert "hush" not in told


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    told = the_one_line(run("server", "start", "-c", tmp_path / "nowhere.properties"))
    assert "nowhere.properties: cannot read the configuration file: No such file or directory" in told


def test_an_unknown_key_is_warned_of_with_its_nearest_neighbour_and_the_node_starts() -> None:
    with Cluster(nodes=1, overrides={"num.partition": "3"}) as cluster:
        events = [json.loads(line) for line in cluster.node(1).log_path.read_text().splitlines()]
    (warning,) = [event for event in events if event.get("key") == "num.partition"]
    assert warning["level"] == "warning"
    assert warning["reason"] == "unknown key: has no effect: did you mean num.partitions?"


@pytest.mark.parametrize("listener", ["GRPC", "CONTROLLER"])
def test_a_port_in_use_is_named(config: Path, plan: NodePlan, listener: str) -> None:
    port = plan.grpc_port if listener == "GRPC" else plan.controller_port
    with socket.create_server((HOST, port or 0)):
        told = the_one_line(run("server", "start", "-c", config))
    assert f"{HOST}:{port}" in told
    assert "in use" in told


def test_a_directory_of_another_cluster_is_refused(config: Path) -> None:
    replace(config, CLUSTER, OTHER_CLUSTER)
    told = the_one_line(run("server", "start", "-c", config))
    assert f"belongs to cluster {CLUSTER}, not to {OTHER_CLUSTER}: correct cluster.id or log.dirs in" in told


def test_a_directory_of_another_node_is_refused(config: Path) -> None:
    replace(config, "node.id=1", "node.id=2")
    replace(config, "controller.quorum.voters=1@", "controller.quorum.voters=2@")
    told = the_one_line(run("server", "start", "-c", config))
    assert "belongs to node 1, not to node 2: correct node.id or log.dirs in" in told


def test_a_directory_that_is_not_formatted_names_the_command(config: Path, tmp_path: Path) -> None:
    replace(config, "controller.quorum.voters=", f"controller.quorum.voters=2@{HOST}:9,")
    (tmp_path / "node-1" / storage.META_FILE).unlink()
    told = the_one_line(run("server", "start", "-c", config))
    assert f"is not formatted: run 'kraft storage format -c {config}'" in told


def test_a_directory_that_cannot_be_written_to_is_named(config: Path, tmp_path: Path) -> None:
    replace(config, f"{tmp_path}/node-1", "/proc/kraft")
    assert "/proc/kraft: cannot be written to:" in the_one_line(run("server", "start", "-c", config))


def test_a_second_process_on_a_directory_is_refused(plan: NodePlan, tmp_path: Path) -> None:
    with Cluster(nodes=1) as cluster:
        other = NodePlan(
            node_id=1,
            grpc_port=plan.grpc_port,
            controller_port=plan.controller_port,
            settings={"log.dirs": str(cluster.directory / "node-1")},
        )
        cluster_files.write(tmp_path, [other], cluster.cluster_id)
        told = the_one_line(run("server", "start", "-c", cluster_files.config_file(tmp_path, 1)))
        assert f"is in use by another process (pid {cluster.node(1).pid})" in told
        cluster.wait_ready()


def test_ports_that_kraft_dev_cannot_have_are_named_with_the_remedy(plan: NodePlan) -> None:
    base_port = (plan.grpc_port or 0) - 2
    with socket.create_server((HOST, base_port + 2)):
        told = the_one_line(run("dev", "--nodes", "1", "--base-port", str(base_port)))
    assert f"port {base_port + 2}, for GRPC of node 1: the port is in use: stop what has it" in told
    assert "--base-port" in told
