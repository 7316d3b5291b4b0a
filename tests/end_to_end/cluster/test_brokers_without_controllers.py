"""Brokers that are not controllers: they start without any, and follow any controller that runs."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from kraft.client import Admin, Producer
from kraft.testing import Cluster
from tests.support.records import publish, read_all
from tests.support.waiting import until

CONTROLLERS = (1, 2, 3)
BROKERS = (4, 5)
PARTITIONS = 100
DEADLINE_S = 30.0
ATTEMPTS_MAX = 5
OPEN = "logs preloaded"
WAITING = "registration waiting for controller"


@pytest.fixture(name="cluster", scope="module")
def _cluster() -> Iterator[Cluster]:
    with Cluster(nodes=5, roles=["controller"] * 3 + ["broker"] * 2) as cluster:
        with Admin(cluster.bootstrap_servers) as admin:
            admin.create_topic("orders", partitions=PARTITIONS, replication_factor=2)
        yield cluster


def events(cluster: Cluster, node_id: int, event: str) -> list[dict[str, Any]]:
    lines = (cluster.directory / f"node-{node_id}.log").read_text().splitlines()
    logged = [json.loads(line) for line in lines if line.startswith("{")]
    return [each for each in logged if each["event"] == event]


def first(cluster: Cluster, node_id: int, event: str) -> dict[str, Any]:
    """Wait until the condition holds."""
    until(lambda: bool(events(cluster, node_id, event)), f"node {node_id}: not '{event}'")
    return events(cluster, node_id, event)[0]


def answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as dialled:
        return dialled.connect_ex((host, int(port))) == 0


def controllers(cluster: Cluster) -> list[str]:
    """Return their addresses."""
    settings = (cluster.directory / "node-4.properties").read_text()
    found = re.findall(r"\d+@([\d.]+:\d+)", settings)
    assert len(found) == len(CONTROLLERS), settings
    return found


def metadata_source(cluster: Cluster) -> str:
    """Return the address of the controller that broker 4 follows."""
    return str(events(cluster, 4, "metadata stream opened")[-1]["controller"])


def voter_id(cluster: Cluster, address: str) -> int:
    found = re.search(rf"(\d+)@{re.escape(address)}\b", (cluster.directory / "node-4.properties").read_text())
    assert found is not None, address
    return int(found[1])


def knows(cluster: Cluster, node_id: int, topic: str) -> bool:
    with Admin(str(cluster.node(node_id).address)) as admin:
        return topic in admin.list_topics()


@pytest.mark.slow
def test_brokers_open_their_logs_while_no_controller_is_there_and_serve_when_one_is(cluster: Cluster) -> None:
    publish(cluster.bootstrap_servers, "orders", range(2_000))
    cluster.kill()
    for node_id in BROKERS:
        (cluster.directory / f"node-{node_id}.log").write_text("")
        cluster.node(node_id).start()
    for node_id in BROKERS:
        opened = first(cluster, node_id, OPEN)
        assert (opened["opened"], opened["corrupt"]) == (PARTITIONS, 0)
        reason = first(cluster, node_id, WAITING)["reason"]
        # Refused, or without an answer yet on a busy machine: each address was tried, and is named.
        assert all(address in reason for address in controllers(cluster)), reason
        assert events(cluster, node_id, "listener started") == []
    assert not any(answers(address) for address in cluster.bootstrap_servers.split(","))
    for node_id in CONTROLLERS:
        cluster.node(node_id).start()
    cluster.wait_ready()
    assert read_all(cluster.bootstrap_servers, "orders") == dict.fromkeys(range(2_000), 1)
    publish(cluster.bootstrap_servers, "orders", range(2_000, 2_010))


@pytest.mark.slow
def test_a_broker_that_is_stopped_while_it_waits_for_a_controller_leaves_its_logs_whole(cluster: Cluster) -> None:
    cluster.stop()
    for _ in range(2):
        (cluster.directory / "node-4.log").write_text("")
        cluster.node(4).start()
        first(cluster, 4, OPEN)
        cluster.node(4).terminate()
        (began,) = events(cluster, 4, "node process started")
        assert began["clean_shutdown"], "the stop before this start was a clean one"
    cluster.start()
    cluster.wait_ready()
    assert read_all(cluster.bootstrap_servers, "orders") == dict.fromkeys(range(2_010), 1)


@pytest.mark.slow
def test_every_controller_serves_the_metadata_and_a_broker_goes_on_at_another_one_when_its_own_dies(
    cluster: Cluster,
) -> None:
    served = {metadata_source(cluster)}
    # The next in the list follows, or the one after it if that did not answer in time.
    for number in range(ATTEMPTS_MAX):
        if len(served) == len(CONTROLLERS):
            break
        source = metadata_source(cluster)
        killed = cluster.node(voter_id(cluster, source))
        killed.kill()
        with Producer(cluster.bootstrap_servers) as producer:
            producer.send("orders", b"%d" % (2_010 + number), partition=0).result(timeout=DEADLINE_S)
        with Admin(cluster.bootstrap_servers) as admin:
            admin.create_topic(f"later-{number}", partitions=4, replication_factor=2)
        until(partial(knows, cluster, 4, f"later-{number}"), "broker 4 does not come to know of the topic")
        opened = events(cluster, 4, "metadata stream opened")[-1]
        assert opened["controller"] != source
        assert opened["after_index"] > 0, "it goes on from where it was"
        served.add(opened["controller"])
        killed.start()
        cluster.wait_ready()
    assert served == set(controllers(cluster))
