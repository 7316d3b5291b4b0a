"""Mistakes of users: one line that names the mistake and the remedy, exit code 1, no traceback, no hang."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kraft.local import cluster_files
from kraft.local.cluster_files import HOST, NodePlan
from kraft.local.free_ports import ReservedPorts
from kraft.server.identity import storage
from kraft.testing import Cluster
from tests.support.command_line import run
from tests.support.error_lines import replace, the_one_line

CLUSTER = "kJ2Yk0mVT0ma0wV2Yk0mVQ"
OTHER_CLUSTER = "AAAAAAAAAAAAAAAAAAAAAg"


@pytest.fixture(scope="module")
def other() -> Iterator[Cluster]:
    """A cluster of one node that runs."""
    with Cluster(nodes=1) as running:
        yield running


@pytest.fixture
def plan() -> Iterator[NodePlan]:
    with ReservedPorts(2) as (grpc_port, controller_port):
        yield NodePlan(node_id=1, grpc_port=grpc_port, controller_port=controller_port)


@pytest.fixture
def config(tmp_path: Path, plan: NodePlan) -> Path:
    """A node that could start, alone in its cluster, its directory formatted."""
    cluster_files.write(tmp_path, [plan], CLUSTER)
    return cluster_files.config_file(tmp_path, 1)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("num.partitions=many", "num.partitions=many: expected a whole number from 1 to 10000"),
        ("log.durability=maybe", "log.durability=maybe: expected fsync or page-cache"),
        ("listeners=GRPC://localhost", "'GRPC://localhost' is not a listener: expected NAME://host:port"),
        ("min.insync.replicas=2", "min.insync.replicas=2: above default.replication.factor=1"),
        ("zookeeper.connect=localhost:2181", "Kraft has no ZooKeeper: remove the line, and name the controllers in"),
        ("ssl.keystore.password=hush", "ssl.keystore.password: has no effect: no listener uses TLS: map one to SSL"),
        ("advertised.listeners=GRPC://0.0.0.0:9094", "means every interface, and clients need one address"),
    ],
)
def test_a_wrong_setting_stops_the_node_before_it_starts(config: Path, line: str, expected: str) -> None:
    config.write_text(f"{config.read_text()}{line}\n")
    message = the_one_line(run("server", "start", "-c", config))
    assert expected in message
    assert str(config) in message
    assert "hush" not in message


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    message = the_one_line(run("server", "start", "-c", tmp_path / "nowhere.properties"))
    assert "nowhere.properties: cannot read the configuration file: No such file or directory" in message


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
        message = the_one_line(run("server", "start", "-c", config))
    assert f"{HOST}:{port}" in message
    assert "in use" in message


def test_a_directory_of_another_cluster_is_refused(config: Path) -> None:
    replace(config, CLUSTER, OTHER_CLUSTER)
    message = the_one_line(run("server", "start", "-c", config))
    assert f"belongs to cluster {CLUSTER}, not to {OTHER_CLUSTER}: correct cluster.id or log.dirs in" in message


def test_a_directory_of_another_node_is_refused(config: Path) -> None:
    replace(config, "node.id=1", "node.id=2")
    replace(config, "controller.quorum.voters=1@", "controller.quorum.voters=2@")
    message = the_one_line(run("server", "start", "-c", config))
    assert "belongs to node 1, not to node 2: correct node.id or log.dirs in" in message


def test_a_directory_that_is_not_formatted_names_the_command(config: Path, tmp_path: Path) -> None:
    replace(config, "controller.quorum.voters=", f"controller.quorum.voters=2@{HOST}:9,")
    (tmp_path / "node-1" / storage.META_FILE).unlink()
    message = the_one_line(run("server", "start", "-c", config))
    assert f"is not formatted: run 'kraft storage format -c {config}'" in message


def test_a_directory_that_cannot_be_written_to_is_named(config: Path, tmp_path: Path) -> None:
    replace(config, f"{tmp_path}/node-1", "/proc/kraft")
    assert "/proc/kraft: cannot be written to:" in the_one_line(run("server", "start", "-c", config))


def test_a_second_process_on_a_directory_is_refused(other: Cluster, plan: NodePlan, tmp_path: Path) -> None:
    second = NodePlan(
        node_id=1,
        grpc_port=plan.grpc_port,
        controller_port=plan.controller_port,
        settings={"log.dirs": str(other.directory / "node-1")},
    )
    cluster_files.write(tmp_path, [second], other.cluster_id)
    message = the_one_line(run("server", "start", "-c", cluster_files.config_file(tmp_path, 1)))
    assert f"is in use by another process (pid {other.node(1).pid})" in message
    other.wait_ready()


def refused_at(address: str, *command: str) -> str:
    """Return the line of a command that finds no broker there; it runs again if this machine was too busy to look."""
    message = the_one_line(run(*command, "--bootstrap-server", address))
    for _ in range(4):
        if "no answer within the time allowed" in message:
            message = the_one_line(run(*command, "--bootstrap-server", address))
    return message


def test_an_address_of_another_listener_is_soon_refused_with_the_remedy(other: Cluster) -> None:
    (controller,) = re.findall(r"CONTROLLER://([^,\s]+)", other.node(1).config_path.read_text())
    commands = (("topics", "list"), ("topics", "create", "orders"), ("brokers", "list"))
    for address in (other.kafka_bootstrap_servers, controller):
        # Each waits for a second, so they wait at the same time.
        with ThreadPoolExecutor() as threads:
            refused = [threads.submit(refused_at, address, *command) for command in commands]
        for message in [each.result() for each in refused]:
            assert f"{address}: " in message
            assert " does not s" in message
            assert "use the address of a GRPC listener (default port 9094)" in message


def test_a_host_that_is_unknown_is_soon_refused() -> None:
    message = the_one_line(run("topics", "list", "--bootstrap-server", "no-such-host.invalid"))
    assert message == "kraft: no broker answered within 1 s (no-such-host.invalid:9094: unknown host)"


def test_a_name_that_is_no_utf_8_or_too_long_is_refused_at_once_by_either_protocol(
    other: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "kafka.properties").write_text("wire.protocol=kafka\n")
    kafka = ("--bootstrap-server", other.kafka_bootstrap_servers, "--command-config", tmp_path / "kafka.properties")
    for servers in (("--bootstrap-server", other.bootstrap_servers), kafka):
        for command in (("topics", "create"), ("groups", "describe")):
            message = the_one_line(run(*command, os.fsdecode(b"a\xff"), *servers))
            assert message == "kraft: INVALID_REQUEST: 'a\\udcff' is not valid Unicode at character 2: give it as UTF-8"
        message = the_one_line(run("topics", "create", "a" * 40_000, *servers))
        assert message.endswith("topic name 'aaaaaaaaaaaaaaaaaaaa...' has 40000 characters: use at most 249")


def test_ports_that_kraft_dev_cannot_have_are_named_with_the_remedy() -> None:
    with ReservedPorts(1, offsets=(0, 1, 2)) as (base_port,), socket.create_server((HOST, base_port + 2)):
        message = the_one_line(run("dev", "--nodes", "1", "--base-port", str(base_port)))
    assert f"node 1 cannot listen on port {base_port + 2} for GRPC: the port is in use: stop the process" in message
    assert "--base-port" in message


def test_an_advertised_address_that_the_node_cannot_reach_is_refused(config: Path) -> None:
    with ReservedPorts(1) as (nowhere,):
        config.write_text(f"{config.read_text()}advertised.listeners=GRPC://{HOST}:{nowhere}\n")
        message = the_one_line(run("server", "start", "-c", config))
    assert f"advertised.listeners names GRPC://{HOST}:{nowhere}, which this node itself cannot reach (conn" in message
    assert "set advertised.listeners=GRPC://host:port to where clients reach this node" in message


def test_an_advertised_name_that_nobody_knows_is_refused(config: Path) -> None:
    config.write_text(f"{config.read_text()}advertised.listeners=GRPC://no-such-host.invalid:9094\n")
    message = the_one_line(run("server", "start", "-c", config))
    assert "names GRPC://no-such-host.invalid:9094, which this node itself cannot reach (unknown host)" in message


def test_an_advertised_address_for_kafkas_clients_that_speaks_otherwise_is_refused(
    other: Cluster, config: Path
) -> None:
    with ReservedPorts(1) as (port,):
        (listening,) = (line for line in config.read_text().splitlines() if line.startswith("listeners="))
        replace(config, listening, f"{listening},PLAINTEXT://{HOST}:{port}")
        grpc = listening.partition("GRPC://")[2].partition(",")[0]
        advertised = f"GRPC://{grpc},PLAINTEXT://{other.node(1).address}"
        config.write_text(f"{config.read_text()}advertised.listeners={advertised}\n")
        message = the_one_line(run("server", "start", "-c", config))
    assert f"names PLAINTEXT://{other.node(1).address}, which this node itself cannot reach" in message


def test_an_advertised_address_of_another_node_is_refused(other: Cluster, config: Path) -> None:
    config.write_text(f"{config.read_text()}advertised.listeners=GRPC://{other.bootstrap_servers}\n")
    message = the_one_line(run("server", "start", "-c", config))
    assert f"{other.bootstrap_servers}, where node 1 of cluster {other.cluster_id!r} answers instead of this" in message


def test_an_advertised_address_that_only_others_reach_is_taken_when_the_file_says_so() -> None:
    with socket.create_server((HOST, 0)) as somebody_else:
        address = f"{HOST}:{somebody_else.getsockname()[1]}"
        settings = {"advertised.listeners": f"GRPC://{address}", "advertised.listeners.check.enable": "false"}
        with Cluster(nodes=1, overrides=settings) as cluster:
            assert "broker unfenced" in cluster.node(1).log_path.read_text()
