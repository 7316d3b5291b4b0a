"""`kraft topics list`, and how commands find their brokers."""

from __future__ import annotations

import pytest

from kraft.model.errors import ErrorCode, Refusal
from tests.support.client.fake_cluster import FakeCluster
from tests.unit.cli.shell import Shell


def test_internal_topics_can_be_left_out_of_the_list(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.create("orders")
    cluster.create("__consumer_offsets")
    assert kraft.succeed("topics", "list") == "__consumer_offsets\norders\n"
    assert kraft.succeed("topics", "list", "--exclude-internal") == "orders\n"


def test_the_servers_may_be_named_in_the_environment(kraft: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRAFT_BOOTSTRAP_SERVER", "broker-2:9094")
    assert kraft.run("topics", "create", "orders") == 0
    monkeypatch.setenv("KRAFT_BOOTSTRAP_SERVER", "elsewhere:9094")
    assert kraft.run("topics", "list") == 1
    assert "elsewhere:9094: connection refused" in kraft.err


def test_whoever_may_not_describe_the_cluster_may_list_and_describe_topics(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.create("orders")
    refused = Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no permission")
    for command, asked in (("list", "describe_quorum"), ("describe", "describe_quorum list_partition_reassignments")):
        for broker in cluster.brokers.values():
            broker.refusals = dict.fromkeys(asked.split(), refused)
        assert "orders" in kraft.succeed("topics", command)
        asked_brokers = [broker for broker in cluster.brokers.values() if not broker.refusals]
        assert asked_brokers
