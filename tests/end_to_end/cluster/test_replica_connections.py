"""Followers connect to their leaders' listeners for Kafka's protocol, and fetch over gRPC where they cannot."""

from __future__ import annotations

import json

from kraft.client import Admin
from kraft.testing import Cluster
from tests.support.records import create_topic, once_each, publish, read_all
from tests.support.waiting import until, until_in_sync

OUT_OF_REACH = 3
SETTINGS = {"advertised.listeners": "PLAINTEXT://127.0.0.1:1", "advertised.listeners.check.enable": "false"}
RECORDS = 300


def leaders_logged(cluster: Cluster, event: str) -> dict[int, set[int]]:
    """Return the leaders that each node has logged the event with."""
    found: dict[int, set[int]] = {}
    for node in cluster.nodes:
        lines = map(json.loads, node.log_path.read_text().splitlines())
        found[node.node_id] = {line["leader"] for line in lines if line["event"] == event}
    return found


def test_followers_connect_to_their_leaders_or_fetch_over_grpc_where_they_cannot() -> None:
    with Cluster(3, node_overrides={OUT_OF_REACH: SETTINGS}) as cluster, Admin(cluster.bootstrap_servers) as admin:
        create_topic(cluster.bootstrap_servers, "orders", partitions=6, replication_factor=3)
        publish(cluster.bootstrap_servers, "orders", range(RECORDS))
        until_in_sync(admin, "orders")
        assert read_all(cluster.bootstrap_servers, "orders") == once_each(RECORDS)
        over_grpc = {1: {OUT_OF_REACH}, 2: {OUT_OF_REACH}, 3: set[int]()}
        until(
            lambda: leaders_logged(cluster, "replica fetches sent over gRPC") == over_grpc,
            lambda: leaders_logged(cluster, "replica fetches sent over gRPC"),
        )
        assert leaders_logged(cluster, "replica connection opened") == {1: {2}, 2: {1}, 3: {1, 2}}
