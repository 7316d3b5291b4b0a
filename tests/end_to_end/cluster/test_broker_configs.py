"""Configs of running brokers and quotas of clients: set, in effect where they can be, and kept over a restart."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kraft.client import Admin, Refusal
from kraft.testing import Cluster
from tests.end_to_end.cluster.record_sizes import is_taken, until_size
from tests.support.command_line import kraft

DEADLINE_S = 60.0
ALL_BROKERS = ("--entity-type", "brokers", "--entity-default")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2) as cluster:
        yield cluster


def test_a_config_of_all_brokers_takes_effect_on_logs_that_are_open_and_is_kept(cluster: Cluster) -> None:
    with Admin(cluster.bootstrap_servers) as admin:
        admin.create_topic("orders", partitions=1, replication_factor=2)
        admin.create_topic("large", partitions=1, configs={"max.message.bytes": "100000"})
    until_size(cluster, "orders", 3_000, taken=True)
    done = kraft(cluster, "configs", "alter", *ALL_BROKERS, "--add-config", "message.max.bytes=2000")
    assert done == "Completed updating config for all brokers.\n"
    until_size(cluster, "orders", 3_000, taken=False)
    until_size(cluster, "large", 3_000, taken=True)
    quota = kraft(cluster, "configs", "alter", "--client", "loader", "--add-config", "producer_byte_rate=1024")
    assert quota == "Completed updating config for client-id 'loader'.\n"

    cluster.kill()
    cluster.start()
    cluster.wait_ready()
    assert not is_taken(cluster, "orders", 3_000)
    assert kraft(cluster, "configs", "describe", "--entity-type", "clients") == (
        "Quota configs for client-id 'loader' are producer_byte_rate=1024.0\n"
    )
    shown = kraft(cluster, "configs", "describe", "--topic", "orders", "--all").splitlines()
    (line,) = [line for line in shown if line.startswith("  max.message.bytes=")]
    assert line == (
        "  max.message.bytes=2000 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:message.max.bytes=2000, "
        "DEFAULT_CONFIG:message.max.bytes=1048588}"
    )

    for broker_id in ("1", "2"):
        kraft(cluster, "configs", "alter", "--broker", broker_id, "--add-config", "message.max.bytes=50000")
    until_size(cluster, "orders", 3_000, taken=True)
    for broker_id in ("1", "2"):
        kraft(cluster, "configs", "alter", "--broker", broker_id, "--delete-config", "message.max.bytes")
    until_size(cluster, "orders", 3_000, taken=False)
    kraft(cluster, "configs", "alter", *ALL_BROKERS, "--delete-config", "message.max.bytes")
    until_size(cluster, "orders", 3_000, taken=True)


def test_what_needs_a_restart_is_refused_in_one_line(cluster: Cluster) -> None:
    with Admin(cluster.bootstrap_servers) as admin:
        for key, value, words in (
            ("log.dirs", "/elsewhere", "log.dirs cannot be changed while a broker runs: set it in the broker's file"),
            ("retention.ms", "1", "for all topics of a broker use log.retention.ms"),
            ("log.retention.ms", "soon", "a whole number from -1"),
        ):
            with pytest.raises(Refusal, match=words):
                admin.alter_broker_configs(1, {key: value})
        with pytest.raises(Refusal, match="broker 9 is not registered"):
            admin.alter_broker_configs(9, {"log.retention.ms": "1"})
        assert admin.describe_broker_configs(None) == []
