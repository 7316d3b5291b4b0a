"""A cluster whose quorum is lost: commands say so within 2 s, and which voters are out of reach since when."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack

import pytest

from kraft.client import Admin, Producer
from kraft.client.model.errors import NoActiveController
from kraft.local.cluster_files import HOST
from kraft.local.node_process import NodeProcess
from kraft.server.cluster.lost_leaders import HOLD_MS_MAX
from kraft.testing import Cluster
from tests.end_to_end.cluster.local_forwarder import forwarded
from tests.support.command_line import run, running
from tests.support.records import create_topic
from tests.support.waiting import until

SAID_WITHIN_S = 2.0
"""It takes 0.7 s on an idle machine."""

BUSY_S = 10.0
"""Comes on top: the machine is busy with other tests, and a command has to start."""


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


@pytest.mark.slow
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
        assert time.monotonic() - began < SAID_WITHIN_S + BUSY_S
    assert [voter.node_id for voter in no.value.description.voters if voter.unreachable] == [2, 3]

    began = time.monotonic()
    described = run("quorum", "describe", "--output", "json", *bootstrap)
    assert time.monotonic() - began < SAID_WITHIN_S + BUSY_S
    assert described.returncode == 1
    assert "no controller is active" in described.stderr
    quorum = json.loads(described.stdout)
    assert quorum["leader_id"] == -1
    assert [voter["unreachable"] for voter in quorum["voters"]] == [False, True, True]
    for voter in quorum["voters"][1:]:
        assert lost_at_ms - 5_000 < voter["last_fetch_timestamp_ms"] < lost_at_ms + 5_000
    assert "voter 2" in quorum["error"]

    for command in ("list", "describe"):
        shown = run("topics", command, *bootstrap)
        assert shown.returncode == 0
        assert "no controller is active: node 1 reaches 1 of 3 voters" in shown.stderr

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


@pytest.mark.slow
def test_commands_for_records_and_groups_say_that_no_controller_is_active(cluster: Cluster) -> None:
    create_topic(cluster.bootstrap_servers, "orders", partitions=3, replication_factor=3)
    with Admin(cluster.bootstrap_servers) as admin:
        (topic,) = admin.describe_topics(["orders"])
        led_by = {each.leader_id: each.partition_index for each in topic.metadata.partitions}
    for node_id in (2, 3):
        cluster.node(node_id).kill()
    lost_since(cluster)
    bootstrap = ("--bootstrap-server", _node_1(cluster))
    with ThreadPoolExecutor() as together:
        listing = together.submit(run, "groups", "list", "--timeout-ms", "10000", *bootstrap)
        partition = ("--partition", str(led_by[2]))
        consuming = together.submit(run, "consume", "orders", *partition, "--from-beginning", *bootstrap)
        # The member finds no coordinator, and waits for one: it polls until it has read nothing for so long.
        joining = together.submit(run, "consume", "orders", "--group", "readers", "--timeout-ms", "6000", *bootstrap)
    for command, last in (
        (listing.result(), "kraft: CRITICAL: no controller is active: node 1 reaches 1 of 3 voters"),
        (consuming.result(), "kraft: NOT_CONTROLLER: no controller is active: node 1 reaches 1 of 3 voters"),
    ):
        said = command.stderr.strip().splitlines()
        assert command.returncode == 1
        assert "reaches 1 of 3 voters" in said[0]
        assert any(each.startswith(last) for each in said), said
    assert "the groups that it and 1 other broker coordinate are missing" in listing.result().stderr
    assert "reaches 1 of 3 voters" in joining.result().stderr, joining.result().stderr
    with running("kraft", "produce", "orders", *partition, *bootstrap) as producing:
        producing.stdin.write(b"x\n")
        assert b"reaches 1 of 3 voters" in producing.stderr.readline()


def test_a_change_succeeds_when_the_quorum_is_back_within_its_timeout(cluster: Cluster) -> None:
    for node_id in (2, 3):
        cluster.node(node_id).kill()
    lost_since(cluster)
    cluster.start()
    created = run("topics", "create", "orders", "--timeout-ms", "30000", "--bootstrap-server", _node_1(cluster))
    assert created.returncode == 0, created.stderr


def test_what_the_living_node_leads_is_read_at_once_while_nobody_can_be_elected(cluster: Cluster) -> None:
    create_topic(cluster.bootstrap_servers, "orders", partitions=3, replication_factor=3)
    with Admin(cluster.bootstrap_servers) as admin:
        (topic,) = admin.describe_topics(["orders"])
        own = next(each.partition_index for each in topic.metadata.partitions if each.leader_id == 1)
        with Producer(cluster.bootstrap_servers) as producer:
            producer.send("orders", b"x", partition=own).result()
    for node_id in (2, 3):
        cluster.node(node_id).kill()
    lost_since(cluster)
    bootstrap = ("--bootstrap-server", _node_1(cluster))
    with Admin(_node_1(cluster)) as admin:
        admin.find_topics(["orders"])
        # Each loss holds responses once, and those were noticed at the latest by the first one.
        for _ in range(3):
            began = time.monotonic()
            admin.find_topics(["orders"])
            assert time.monotonic() - began < HOLD_MS_MAX / 2_000
    first_record = ("--partition", str(own), "--from-beginning", "--max-messages", "1")
    consumed = run("consume", "orders", *first_record, *bootstrap)
    assert (consumed.returncode, consumed.stdout) == (0, "x\n"), consumed.stderr
    assert "no broker" not in consumed.stderr


def test_a_dead_controller_is_shown_as_unreachable_while_the_others_have_a_leader(cluster: Cluster) -> None:
    with Admin(_node_1(cluster)) as admin:
        leader = admin.describe_quorum().leader_id
    cluster.node(leader).kill()
    left = next(node.address for node in cluster.nodes if node.node_id != leader)
    assert left is not None
    with Admin(left) as admin:

        def is_shown() -> bool:
            described = admin.describe_quorum()
            return described.leader_id != leader and any(voter.unreachable for voter in described.voters)

        until(is_shown, "the dead controller is shown as a follower")
    described = run("quorum", "describe", "--replication", "--bootstrap-server", left)
    (dead,) = [line.split() for line in described.stdout.splitlines() if line.startswith(f"{leader} ")]
    assert dead[-1] == "Unreachable"
    assert re.search(
        rf"^kraft: voter {leader} unreachable.*; losing one more stops all changes$", described.stderr, re.MULTILINE
    ), described.stderr


def test_a_node_whose_controller_is_cut_off_says_so_while_the_others_have_a_leader(cluster: Cluster) -> None:
    asyncio.run(_cut_off_node_1(cluster))
    cut_off = run("quorum", "describe", "--bootstrap-server", _node_1(cluster))
    assert cut_off.returncode == 1
    assert "node 1 reaches 1 of 3 voters, and 2 are needed" in cut_off.stderr
    other = cluster.node(2).address
    assert other is not None
    described = run("quorum", "describe", "--output", "json", "--bootstrap-server", other)
    assert described.returncode == 0, described.stderr
    assert json.loads(described.stdout)["leader_id"] in (2, 3)


async def _cut_off_node_1(cluster: Cluster) -> None:
    """Let node 1 and the others reach each other's controllers only through a network that is then gone."""
    cluster.stop()
    async with AsyncExitStack() as network:
        voters = _voters(cluster.node(1))
        to_1 = await network.enter_async_context(forwarded(voters[1]))
        to_2, to_3 = [await network.enter_async_context(forwarded(voters[other])) for other in (2, 3)]
        _name_voters(cluster.node(1), {**voters, 2: to_2, 3: to_3})
        for other in (2, 3):
            _name_voters(cluster.node(other), {**voters, 1: to_1})
        cluster.start()
        await asyncio.to_thread(cluster.wait_ready)
    await asyncio.to_thread(lost_since, cluster)


def _voters(node: NodeProcess) -> dict[int, int]:
    """Return the port of each voter in the node's file."""
    found = re.search(r"controller.quorum.voters=(.*)", node.config_path.read_text())
    assert found is not None
    return {int(each.split("@")[0]): int(each.rsplit(":")[-1]) for each in found[1].split(",")}


def _name_voters(node: NodeProcess, ports: Mapping[int, int]) -> None:
    named = ",".join(f"{voter}@{HOST}:{port}" for voter, port in ports.items())
    text = node.config_path.read_text()
    node.config_path.write_text(re.sub(r"controller.quorum.voters=.*", f"controller.quorum.voters={named}", text))
