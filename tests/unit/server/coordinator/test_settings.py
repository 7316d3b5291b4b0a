"""Settings of shards: those of the broker's file, and what the broker adds to them."""

from __future__ import annotations

from pathlib import Path

from kraft.metadata.image import MetadataImage
from kraft.server.config.loading import load
from kraft.server.config.node_config import NodeConfig
from kraft.server.coordinator.group_kind import group_shard_settings
from kraft.server.coordinator.transaction_kind import transaction_settings

FILE = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@localhost:9093
listeners=GRPC://localhost:9094,CONTROLLER://localhost:9093
log.dirs=data
group.consumer.heartbeat.interval.ms=7000
group.consumer.max.size=12
group.max.size=34
transactional.id.expiration.ms=5600
"""


def loaded(directory: Path) -> NodeConfig:
    file = directory / "server.properties"
    file.write_text(FILE)
    return load(file)


def test_a_groups_own_configs_count_within_the_brokers_bounds(tmp_path: Path) -> None:
    own = {"billing": {"consumer.session.timeout.ms": "1000", "consumer.assignment.interval.ms": "500"}}
    settings = group_shard_settings(loaded(tmp_path), lambda: MetadataImage(group_configs=own))
    assert settings.classic.size_max == 34
    assert settings.of_group("others") == settings.consumer
    assert (settings.consumer.heartbeat_interval_ms, settings.consumer.members_max) == (7_000, 12)
    billing = settings.of_group("billing")
    assert (billing.session_timeout_ms, billing.assignment_interval_ms) == (45_000, 500)
    assert (billing.heartbeat_interval_ms, billing.members_max) == (7_000, 12)


def test_transactions_fill_the_batches_that_the_broker_measures(tmp_path: Path) -> None:
    settings = transaction_settings(loaded(tmp_path), lambda: 78)
    assert (settings.batch_bytes_max(), settings.id_expiration_ms) == (78, 5_600)
