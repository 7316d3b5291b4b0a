"""The log of a node says when a group rebalances and who comes and goes, for consumers of both protocols."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kraft.client import Admin, Consumer, Producer
from kraft.testing import Cluster
from tests.end_to_end.programs.group_member import member_process
from tests.support.waiting import until

TOPIC = "orders"
PARTITIONS = 6
SESSION_MS = 6_000

PROTOCOLS = {
    "consumer": {"group_protocol": "consumer"},
    "classic": {"group_protocol": "classic", "session_timeout_ms": str(SESSION_MS)},
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    overrides = {
        "group.consumer.min.heartbeat.interval.ms": "200",
        "group.consumer.heartbeat.interval.ms": "300",
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.session.timeout.ms": str(SESSION_MS),
        "group.min.session.timeout.ms": "1000",
        "group.initial.rebalance.delay.ms": "0",
    }
    with Cluster(1, overrides=overrides) as running:
        with Admin(running.bootstrap_servers) as admin:
            admin.create_topic(TOPIC, partitions=PARTITIONS)
        with Producer(running.bootstrap_servers) as producer:
            for number in range(60):
                producer.send(TOPIC, b"value", partition=number % PARTITIONS)
        yield running


def lines(cluster: Cluster, group: str) -> list[dict[str, Any]]:
    written = [json.loads(line) for line in cluster.node(1).log_path.read_text().splitlines() if line.startswith("{")]
    return [line for line in written if line["event"].startswith("group ") and line.get("group") == group]


def said(cluster: Cluster, group: str, *events: str) -> list[dict[str, Any]]:
    return [line for line in lines(cluster, group) if line["event"].removeprefix("group ") in events]


def until_complete(cluster: Cluster, group: str, members: int) -> None:
    """Wait for the line about the end of a rebalance with so many members."""

    def is_told() -> bool:
        return [line["members"] for line in said(cluster, group, "rebalance completed")][-1:] == [members]

    until(is_told, lambda: lines(cluster, group), 30)


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_log_says_who_joins_leaves_and_dies_and_when_the_group_has_its_partitions(
    cluster: Cluster, tmp_path: Path, protocol: str
) -> None:
    group, settings = f"{protocol}-group", PROTOCOLS[protocol]
    servers = cluster.bootstrap_servers
    with member_process(servers, group, TOPIC, tmp_path / "first", **settings):
        until_complete(cluster, group, 1)
        with member_process(servers, group, TOPIC, tmp_path / "second", **settings) as second:
            until_complete(cluster, group, 2)
            second.kill()
            until_complete(cluster, group, 1)
    until_complete(cluster, group, 0)

    ends = said(cluster, group, "rebalance completed")
    starts = said(cluster, group, "rebalance started")
    assert [(end["members"], end["partitions"]) for end in ends] == [(1, 6), (2, 6), (1, 6), (0, 0)]
    assert len(starts) == len(ends), "every rebalance has one line at its start and one at its end"
    assert [(end["joined"], end["left"]) for end in ends] == [(1, 0), (1, 0), (0, 1), (0, 1)]
    assert all(0 <= end["took_ms"] < 30_000 for end in ends)
    first, killed = (line["member"] for line in said(cluster, group, "member joined"))
    (removed,) = said(cluster, group, "member removed")
    assert removed["member"] == killed
    assert removed["reason"].startswith("no heartbeat within its session timeout")
    (left,) = said(cluster, group, "member left")
    assert left["member"] == first
    assert f"member {killed} joined" in starts[1]["reason"]


@pytest.mark.timeout(120)
def test_a_restarted_node_that_loads_its_groups_says_nothing_of_them(cluster: Cluster) -> None:
    group = "quiet"
    servers = cluster.bootstrap_servers
    with Consumer(servers, group_id=group, auto_offset_reset="earliest") as consumer:
        consumer.subscribe(TOPIC)
        until(lambda: bool(consumer.poll(200)), "no records")
        consumer.commit()
    until_complete(cluster, group, 0)
    before = lines(cluster, group)
    node = cluster.node(1)
    node.terminate()
    node.start()
    cluster.wait_ready()
    with Consumer(servers, group_id="other", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(TOPIC)
        until(lambda: bool(consumer.poll(200)), "no records")
    until_complete(cluster, "other", 0)
    assert lines(cluster, group) == before
