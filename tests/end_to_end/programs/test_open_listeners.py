"""A node with a listener that other machines could reach: closed, or open because somebody said so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from kraft.local import cluster_files
from kraft.local.cluster_files import HOST, NodePlan
from kraft.local.free_ports import ReservedPorts
from kraft.local.local_cluster import LocalCluster
from tests.support.command_line import PROGRAMS, run
from tests.support.error_lines import replace, the_one_line

CLUSTER: Final = "kJ2Yk0mVT0ma0wV2Yk0mVQ"

UNRESOLVED: Final = "127.1"
"""Names are not resolved to see whether they are this machine. This one is, so nothing is opened to the network."""


@pytest.fixture
def plan() -> Iterator[NodePlan]:
    with ReservedPorts(3) as (kafka_port, grpc_port, controller_port):
        yield NodePlan(node_id=1, kafka_port=kafka_port, grpc_port=grpc_port, controller_port=controller_port)


@pytest.fixture
def config(tmp_path: Path, plan: NodePlan) -> Path:
    cluster_files.write(tmp_path, [plan], CLUSTER)
    file = cluster_files.config_file(tmp_path, 1)
    advertised = f"PLAINTEXT://{HOST}:{plan.kafka_port},GRPC://{HOST}:{plan.grpc_port}"
    file.write_text(f"{file.read_text()}advertised.listeners={advertised}\n")
    return file


@pytest.mark.parametrize("name", ["PLAINTEXT", "GRPC"])
@pytest.mark.parametrize("host", ["", "0.0.0.0", UNRESOLVED])
def test_an_open_listener_is_refused_with_both_remedies(config: Path, name: str, host: str) -> None:
    replace(config, f"{name}://{HOST}:", f"{name}://{host}:")
    config.write_text(config.read_text() + f"advertised.listeners={name}://broker-1.example:9092\n")
    said = the_one_line(run("server", "start", "-c", config))
    assert f"{name}://{host}:" in said
    assert "is open to other machines without authentication: let clients log in, with" in said
    assert f"listener.security.protocol.map={name}:SASL_SSL, or, in a network that you trust, set" in said
    assert f"allow.unauthenticated.listeners={name} (in a container ALLOW_PLAINTEXT_LISTENER=yes)" in said


def _warnings_of_open_listeners(directory: Path, plan: NodePlan) -> list[str]:
    """Return what the log says of open listeners of a node that comes into service."""
    cluster = LocalCluster(directory, [plan], launch=PROGRAMS.launch)
    cluster.start()
    try:
        cluster.wait_ready()
    finally:
        cluster.stop()
    lines = cluster.nodes[1].log_path.read_text().splitlines()
    found = [json.loads(line) for line in lines if line.startswith("{")]
    return [each["reason"] for each in found if each.get("key") == "listeners"]


def test_an_open_listener_starts_once_the_file_allows_it(config: Path, plan: NodePlan, tmp_path: Path) -> None:
    replace(config, f"listeners=PLAINTEXT://{HOST}", f"listeners=PLAINTEXT://{UNRESOLVED}")
    config.write_text(f"{config.read_text()}allow.unauthenticated.listeners=PLAINTEXT\n")
    (warning,) = _warnings_of_open_listeners(tmp_path, plan)
    assert "is open to other machines, and clients are not authenticated: anybody who reaches it can read" in warning


def test_a_container_starts_open_once_its_environment_allows_it(
    config: Path, plan: NodePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace(config, f"listeners=PLAINTEXT://{HOST}", f"listeners=PLAINTEXT://{UNRESOLVED}")
    monkeypatch.setenv("ALLOW_PLAINTEXT_LISTENER", "yes")
    (warning,) = _warnings_of_open_listeners(tmp_path, plan)
    assert f"PLAINTEXT://{UNRESOLVED}:{plan.kafka_port} is open to other machines" in warning
