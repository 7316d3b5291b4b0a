"""The cluster that tests are given: real nodes, killed, paused and started again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kraft.client import Admin, Producer
from kraft.model.errors import KraftError
from kraft.testing import Cluster, NodeFailed
from tests.support.command_line import kraft


def test_a_cluster_is_ready_inside_and_gone_afterwards() -> None:
    with Cluster(nodes=3) as cluster:
        pids = {node.pid for node in cluster.nodes}
        memory = [node.resident_bytes() for node in cluster.nodes]
        assert len(pids) == 3
        assert len(cluster.bootstrap_servers.split(",")) == 3
        print("resident memory of idle nodes:", [f"{size / 1e6:.0f} MB" for size in memory])
        assert max(memory) < 120_000_000
    assert not any(node.is_running for node in cluster.nodes)
    assert not cluster.directory.exists()


def test_a_forked_process_that_ends_leaves_the_cluster_to_its_parent() -> None:
    program = (
        "import os, sys\n"
        "from kraft.testing import Cluster\n"
        "with Cluster(nodes=1) as cluster:\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        sys.exit()\n"
        "    assert os.waitpid(child, 0) == (child, 0)\n"
        "    print(cluster.node(1).is_running, cluster.directory.exists())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "True True\n"


def test_users_with_variables_that_are_not_utf_8_have_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAME", os.fsdecode(b"caf\xe9"))
    with Cluster(nodes=1) as cluster:
        assert cluster.node(1).is_running


def test_a_cluster_survives_its_nodes_deaths() -> None:
    with Cluster(nodes=3) as cluster:
        cluster.node(1).kill()
        cluster.wait_ready()
        cluster.node(1).start()
        cluster.wait_ready()
        cluster.node(2).terminate()
        cluster.node(2).start()
        cluster.wait_ready()
        cluster.kill()
        cluster.start()
        cluster.wait_ready()


def test_roles_can_be_parted() -> None:
    with Cluster(nodes=2, roles=["controller", "broker"], overrides={"num.partitions": "2"}) as cluster:
        assert [node.is_controller for node in cluster.nodes] == [True, False]
        assert cluster.node(1).address is None
        assert cluster.bootstrap_servers == cluster.node(2).address


def test_settings_that_no_node_takes_are_refused_before_the_start() -> None:
    with pytest.raises(ValueError, match=r"num\.partitions=none: expected"):
        Cluster(nodes=1, overrides={"num.partitions": "none"})


def test_a_failing_test_shows_the_nodes_logs() -> None:
    with pytest.raises(RuntimeError) as raised, Cluster(nodes=1):
        raise RuntimeError("the test's own failure")
    assert "the end of node 1's log" in raised.value.__notes__[0]


def test_a_node_that_cannot_start_is_reported_with_its_log() -> None:
    cluster = Cluster(nodes=1)
    cluster.node(1).config_path.write_text("nothing=here\n")
    with pytest.raises(NodeFailed, match=r"process\.roles is missing"), cluster:
        raise AssertionError("never ready")
    assert not cluster.directory.exists()


def test_a_secured_cluster_serves_clients_that_log_in(tmp_path: Path) -> None:
    roles = ["controller", "broker", "broker,controller"]
    with Cluster(nodes=3, roles=roles, directory=tmp_path / "cluster", secure=True) as cluster:
        assert cluster.security is not None
        with Admin(cluster.bootstrap_servers, **cluster.client_settings) as admin:
            admin.create_topic("orders", 1, 2)
        with Producer(cluster.bootstrap_servers, **cluster.client_settings) as producer:
            producer.send("orders", b"1").result(30)
        config = str(cluster.security.client)
        printed = kraft(
            cluster, "consume", "orders", "--from-beginning", "--max-messages", "1", "--command-config", config
        )
        assert printed == "1\n"
        with (
            pytest.raises(KraftError, match="security"),
            Admin(cluster.bootstrap_servers, default_api_timeout_ms=2_000) as stranger,
        ):
            stranger.list_topics()
        cluster.node(3).terminate()
        cluster.node(3).start()
        cluster.wait_ready()
        loose = [
            str(each.relative_to(cluster.directory))
            for each in cluster.directory.rglob("*")
            # The launcher's files for nodes have no secrets.
            if each.stat().st_mode & 0o077 and each.suffix != ".properties"
        ]
        assert loose == []


def test_an_open_cluster_needs_no_settings() -> None:
    with Cluster(nodes=1) as cluster:
        assert (cluster.client_settings, cluster.security) == ({}, None)
