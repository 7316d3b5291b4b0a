"""A controller whose directory is lost comes back by its node's own advice, and counts again."""

from __future__ import annotations

import shutil
import time

from kraft.client import Admin
from kraft.model.describe_quorum import QuorumMember
from kraft.server.config import loading
from kraft.testing import Cluster, NodeProcess
from tests.support.command_line import run
from tests.support.records import create_topic
from tests.support.waiting import until

BACK_S = 60.0
CHANGE_S = 30.0
LOST = 3


def lose_directory(node: NodeProcess) -> None:
    """Delete the directory of a killed node, and format it as the node's own message says."""
    (directory,) = loading.load(node.config_path).log_dirs
    shutil.rmtree(directory)
    refused = run("server", "start", "-c", node.config_path)
    assert f"run 'kraft storage format -c {node.config_path}'" in refused.stderr, refused.stderr
    assert not run("storage", "format", "-c", node.config_path).returncode


def is_admitted(node: NodeProcess) -> bool:
    """Return whether the log of a node that lost its directory once says that its controller counts again."""
    return '"controller admitted: it counts again"' in node.log_path.read_text()


def voter(cluster: Cluster, node_id: int) -> QuorumMember:
    address = next(node.address for node in cluster.nodes if node.is_running and node.node_id != node_id)
    assert address is not None
    with Admin(address) as admin:
        return next(each for each in admin.describe_quorum().voters if each.node_id == node_id)


def test_a_replaced_controller_gets_the_log_and_takes_the_place_of_the_next_one() -> None:
    with Cluster(3) as cluster:
        create_topic(cluster.bootstrap_servers, "before", partitions=1, replication_factor=3)
        lost = cluster.node(LOST)
        lost.kill()
        lose_directory(lost)
        lost.start()

        until(lambda: is_admitted(lost), lambda: f"it stays behind: {voter(cluster, LOST)}", BACK_S)
        # The leader hears of it with the next response.
        until(lambda: not voter(cluster, LOST).is_learner, "the leader shows it as a learner", BACK_S)
        cluster.wait_ready()
        cluster.node(1).kill()
        killed_s = time.monotonic()
        left = f"{cluster.node(2).address},{lost.address}"
        create_topic(left, "after", partitions=1, replication_factor=2)
        assert time.monotonic() - killed_s < CHANGE_S
