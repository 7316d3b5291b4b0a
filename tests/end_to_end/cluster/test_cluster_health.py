"""`kraft cluster health` on running nodes: what it finds in each of several disasters, and its exit code."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kraft.client import Admin, NewTopic
from kraft.testing import Cluster
from tests.support.command_line import run, run_kraft
from tests.support.records import publish
from tests.support.waiting import until

HEALTHY, FAILED, DEGRADED, CRITICAL = 0, 1, 3, 4

FULL_NODE = 3
SOON = {"broker.session.timeout.ms": "1500", "replica.lag.time.max.ms": "1000"}


@pytest.fixture(name="cluster")
def _cluster() -> Iterator[Cluster]:
    # A disk of which no share is enough counts as full, once something was to be appended.
    full = {FULL_NODE: {"log.free.space.min.bytes": str(1 << 60)}}
    with Cluster(3, overrides=SOON, node_overrides=full) as cluster:
        yield cluster
        # With its quorum lost, a node cannot stop in order.
        cluster.kill()


def health(cluster: Cluster, *options: str) -> tuple[int, dict[str, Any]]:
    """Return the exit code and what was found."""
    ran = run("cluster", "health", "--output", "json", *options, "--bootstrap-server", cluster.bootstrap_servers)
    return ran.returncode, json.loads(ran.stdout)


def finds(cluster: Cluster, code: int, *words: str) -> Callable[[], bool]:
    """Return whether the command ends with this code, and one finding has each of the texts."""

    def is_found() -> bool:
        ended_with, report = health(cluster)
        whats = [each["what"] for each in report["findings"]]
        return ended_with == code and all(any(word in what for what in whats) for word in words)

    return is_found


def test_what_is_wrong_is_found_and_the_exit_code_tells_how_bad_it_is(cluster: Cluster) -> None:
    until(finds(cluster, HEALTHY), "it is not healthy from the beginning")
    ran = run_kraft(cluster, "cluster", "health")
    assert ran.stdout.startswith(f"Cluster {cluster.cluster_id} is healthy: controller ")
    assert run_kraft(cluster, "cluster", "health", "--quiet").stdout == ""

    with Admin(cluster.bootstrap_servers) as admin:
        placed = [[1, 2, FULL_NODE]]
        admin.create_topics([NewTopic(topic="orders", configs={"min.insync.replicas": "1"}, assignments=placed)])
    publish(cluster.bootstrap_servers, "orders", range(10))
    full = f"broker {FULL_NODE} refuses appends in "
    until(finds(cluster, CRITICAL, full, "1 partition under-replicated: orders-0"), "a full disk is not found")

    cluster.node(FULL_NODE).kill()
    gone = f"broker {FULL_NODE} is not in service"
    until(finds(cluster, DEGRADED, gone, f"voter {FULL_NODE} unreachable"), "a dead node is not found")

    cluster.node(2).kill()
    until(
        finds(cluster, CRITICAL, "no controller is active: node 1 reaches 1 of 3 voters"), "a lost quorum is not found"
    )

    cluster.node(1).kill()
    ran = run("cluster", "health", "--bootstrap-server", cluster.bootstrap_servers)
    assert ran.returncode == FAILED
    assert ran.stderr.startswith("kraft: no broker answered within 1 s")


def test_a_command_that_waits_says_why_and_tells_below_its_error_what_is_wrong(cluster: Cluster) -> None:
    with Admin(cluster.bootstrap_servers) as admin:
        alone = [[2]]
        admin.create_topics([NewTopic(topic="orders", configs={"min.insync.replicas": "1"}, assignments=alone)])
    cluster.node(2).kill()
    until(finds(cluster, CRITICAL, "1 partition without a leader: orders-0"), "the dead leader is not found")
    arguments = ("orders", "--partition", "0", "--before-offset", "0", "--timeout-ms", "3000")
    ran = run_kraft(cluster, "topics", "delete-records", *arguments)
    assert ran.returncode == FAILED
    waits, failed, *told = ran.stderr.splitlines()
    reason = "LEADER_NOT_AVAILABLE: orders-0 has no leader: its only replica is on broker 2, which is not in service"
    assert waits.startswith(f"{reason}: start or unfence it; trying again for up to ")
    assert failed == f"kraft: {reason}: start or unfence it"
    assert any(
        each.startswith("kraft: CRITICAL: 1 partition without a leader: orders-0; to do: start broker 2")
        for each in told
    ), told
    assert any("voter 2 unreachable" in each for each in told), told
