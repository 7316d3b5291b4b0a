"""`kraft cluster health`, `kraft health` and `safe-to-restart` on running nodes, in each of several disasters."""

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
SAFE, NOT_SAFE, UNKNOWN = 0, 1, 2

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


def in_one_line(cluster: Cluster, code: int) -> str:
    """Return what `kraft health` prints; it must end with this code."""
    ran = run_kraft(cluster, "health")
    assert ran.returncode == code, ran.stdout + ran.stderr
    (line,) = ran.stdout.splitlines()
    return line


def restart(cluster: Cluster, *node_ids: int) -> tuple[int, dict[str, Any]]:
    """Return the exit code of `safe-to-restart`, and what it found."""
    ran = run_kraft(cluster, "brokers", "safe-to-restart", *map(str, node_ids), "--output", "json")
    return ran.returncode, json.loads(ran.stdout)


def would_harm(cluster: Cluster, *node_ids: int) -> dict[str, str]:
    """Return what each partition would lose by a restart that must not be safe."""
    code, report = restart(cluster, *node_ids)
    assert code == NOT_SAFE, report
    return {f"{each['topic']}-{each['partition']}": each["loss"] for each in report["partitions"]}


@pytest.mark.slow
def test_what_is_wrong_is_found_and_the_exit_code_tells_how_bad_it_is(cluster: Cluster) -> None:
    until(finds(cluster, HEALTHY), "it is not healthy from the beginning")
    ran = run_kraft(cluster, "cluster", "health")
    assert ran.stdout.startswith(f"Cluster {cluster.cluster_id} is healthy: controller ")
    assert run_kraft(cluster, "cluster", "health", "--quiet").stdout == ""
    assert in_one_line(cluster, HEALTHY).startswith("healthy: controller ")

    with Admin(cluster.bootstrap_servers) as admin:
        placed = [[1, 2, FULL_NODE]]
        admin.create_topics([NewTopic(topic="orders", configs={"min.insync.replicas": "1"}, assignments=placed)])
        admin.create_topics([NewTopic(topic="alone", configs={"min.insync.replicas": "1"}, assignments=[[2]])])
        admin.create_topics([NewTopic(topic="strict", configs={"min.insync.replicas": "2"}, assignments=[[1, 2]])])
    assert restart(cluster, FULL_NODE)[0] == SAFE
    assert would_harm(cluster, 1) == {"strict-0": "min-isr"}
    assert would_harm(cluster, 2) == {"alone-0": "leader", "strict-0": "min-isr"}
    assert would_harm(cluster, 1, 2) == {"alone-0": "leader", "strict-0": "leader"}
    ran = run_kraft(cluster, "brokers", "safe-to-restart", "9")
    assert (ran.returncode, ran.stdout) == (UNKNOWN, "")
    assert ran.stderr.endswith("there is no node 9: brokers and controllers are 1, 2 and 3\n")
    publish(cluster.bootstrap_servers, "orders", range(10))
    full = f"broker {FULL_NODE} refuses appends in "
    until(finds(cluster, CRITICAL, full, "1 partition under-replicated: orders-0"), "a full disk is not found")
    assert in_one_line(cluster, CRITICAL).startswith(f"critical: {full}")
    # It is not in sync any more, and 1 or 2 is enough.
    assert restart(cluster, FULL_NODE)[0] == SAFE
    assert would_harm(cluster, 1, 2) == {"alone-0": "leader", "orders-0": "leader", "strict-0": "leader"}

    cluster.node(FULL_NODE).kill()
    gone = f"broker {FULL_NODE} is not in service"
    until(finds(cluster, DEGRADED, gone, f"voter {FULL_NODE} unreachable"), "a dead node is not found")
    code, report = restart(cluster, 1)
    assert (code, report["controllers"]) == (
        NOT_SAFE,
        ["1 of 3 controllers would be left that count, and 2 are needed: no metadata could change"],
    )
    assert restart(cluster, FULL_NODE)[0] == SAFE

    cluster.node(2).kill()
    until(
        finds(cluster, CRITICAL, "no controller is active: node 1 reaches 1 of 3 voters"), "a lost quorum is not found"
    )
    assert restart(cluster, 2)[0] == restart(cluster, 1)[0] == NOT_SAFE

    cluster.node(1).kill()
    ran = run("cluster", "health", "--bootstrap-server", cluster.bootstrap_servers)
    assert ran.returncode == FAILED
    assert ran.stderr.startswith("kraft: no broker answered within 1 s")
    assert run_kraft(cluster, "health").returncode == FAILED
    code, report = restart(cluster, 1)
    assert (code, report["safe"]) == (UNKNOWN, None)


@pytest.mark.slow
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
