"""MirrorMaker 1's two files and its options, as a mirror."""

from __future__ import annotations

from typing import Final

from kraft.mirror.config import MirrorConfig, mirror_config
from kraft.mirror.old_options import settings_of_maker

CONSUMER: Final = {
    "bootstrap.servers": "old:9092",
    "group.id": "mirror-maker",
    "auto.offset.reset": "earliest",
    "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "fetch.min.bytes": "7",
}
PRODUCER: Final = {"bootstrap.servers": "new:9092", "acks": "all", "linger.ms": "5", "security.protocol": "PLAINTEXT"}


def config(include: str = "orders|*-eu", interval_ms: int | None = None) -> tuple[MirrorConfig, list[str]]:
    settings, notes = settings_of_maker(
        CONSUMER, PRODUCER, include, num_streams=3, offset_commit_interval_ms=interval_ms
    )
    return mirror_config(settings), notes


def test_both_files_and_the_options_are_one_pair_with_the_same_names() -> None:
    found, _ = config(interval_ms=1_000)
    (pair,) = found.pairs
    assert found.name == "mirror-maker"
    assert (pair.naming.prefixed, pair.syncs_groups, pair.shards, pair.commit_interval_ms) == (False, False, 3, 1_000)
    assert pair.topics.has("orders")
    assert pair.topics.has("x-eu")
    assert not pair.topics.has("x")


def test_what_reaches_a_cluster_is_for_all_its_clients_and_the_rest_for_its_kind() -> None:
    (pair,) = config()[0].pairs
    assert pair.source.admin["bootstrap.servers"] == "old:9092"
    assert pair.source.consumer["fetch.min.bytes"] == "7"
    assert "fetch.min.bytes" not in pair.source.admin
    assert pair.target.producer["linger.ms"] == "5"
    assert pair.target.admin["security.protocol"] == "PLAINTEXT"
    assert pair.source.admin["wire.protocol"] == "kafka"


def test_each_key_without_effect_is_told() -> None:
    told = " ".join(config()[1])
    for key in ("auto.offset.reset", "partition.assignment.strategy", "acks"):
        assert f"{key} has no effect" in told
