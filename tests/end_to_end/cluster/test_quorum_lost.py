"""A cluster whose quorum is lost: commands say so within 2 s, and which voters are out of reach since when."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from kraft.client import Admin
from kraft.client.errors import NoActiveController
from kraft.testing import Cluster
from tests.support.command_line import run
from tests.support.waiting import until

SAID_WITHIN_S = 2.0
"""Measured in this process; the start of a command comes on top, which a busy machine makes long."""

COMMAND_START_S = 3.0


@pytest.fixture(name="cluster")
def _cluster() -> Iterator[Cluster]:
    with Cluster(3) as cluster:
        yield cluster
        # With its quorum lost, a node cannot stop in order.
        cluster.kill()


def lost_since(cluster: Cluster) -> float:
    """Wait until node 1 has noticed that the others are gone; return the time at which they were lost."""
    lost_at_ms = time.time() * 1_000
    with Admin(_node_1(cluster)) as admin:

        def is_lost() -> bool:
            try:
                admin.describe_quorum(wait_for_leader=False)
            except NoActiveController:
                return True
            return False

        until(is_lost, "the quorum is not lost")
    return lost_at_ms


def _node_1(cluster: Cluster) -> str:
    address = cluster.node(1).address
    assert address is not None
    return address


@pytest.mark.parametrize("fault", ["killed", "paused"])
def test_every_command_says_that_no_controller_is_active_and_which_voters_are_unreachable(
    cluster: Cluster, fault: str
) -> None:
    for node_id in (2, 3):
        cluster.node(node_id).kill() if fault == "killed" else cluster.node(node_id).pause()
    lost_at_ms = lost_since(cluster)
    bootstrap = ("--bootstrap-server", _node_1(cluster))

    with Admin(_node_1(cluster)) as admin:
        began = time.monotonic()
        with pytest.raises(
            NoActiveController, match=r"reaches 1 of 3 voters, and 2 are needed.*voter 2 .*voter 3 "
        ) as no:
            admin.describe_quorum(wait_for_leader=False)
        assert time.monotonic() - began < SAID_WITHIN_S
    assert [voter.node_id for voter in no.value.description.voters if voter.unreachable] == [2, 3]

    began = time.monotonic()
    described = run("quorum", "describe", "--output", "json", *bootstrap)
    assert time.monotonic() - began < SAID_WITHIN_S + COMMAND_START_S
    assert described.returncode == 1
    assert "no controller is active" in described.stderr
    quorum = json.loads(described.stdout)
    assert quorum["leader_id"] == -1
    assert [voter["unreachable"] for voter in quorum["voters"]] == [False, True, True]
    for voter in quorum["voters"][1:]:
        assert lost_at_ms - 5_000 < voter["last_fetch_timestamp_ms"] < lost_at_ms + 5_000
    assert "voter 2" in quorum["error"]

    listed = run("brokers", "list", "--output", "json", *bootstrap)
    states = [
        (each["state"], each["last_known_state"], each["unreachable_since_ms"]) for each in json.loads(listed.stdout)
    ]
    assert states[0] == ("unknown", "in-service", None)
    assert all(state[2] is not None for state in states[1:])
    assert "in-service" not in run("brokers", "list", *bootstrap).stdout.replace("unknown (was in-service)", "")


def test_a_change_says_within_2_s_why_it_waits_and_fails_with_the_same_facts(cluster: Cluster) -> None:
    for node_id in (2, 3):
        cluster.node(node_id).kill()
    lost_since(cluster)
    refused = run("topics", "create", "orders", "--timeout-ms", "4000", "--bootstrap-server", _node_1(cluster))
    assert refused.returncode == 1
    waiting, failed = refused.stderr.strip().splitlines()
    assert "reaches 1 of 3 voters" in waiting
    assert waiting.endswith("trying again for up to 4 s")
    assert failed.startswith("kraft: NOT_CONTROLLER: no controller is active: node 1 reaches 1 of 3 voters")


def test_a_change_succeeds_when_the_quorum_is_back_within_its_timeout(cluster: Cluster) -> None:
    for node_id in (2, 3):
        cluster.node(node_id).kill()
    lost_since(cluster)
    cluster.start()
    created = run("topics", "create", "orders", "--timeout-ms", "30000", "--bootstrap-server", _node_1(cluster))
    assert created.returncode == 0, created.stderr
