"""The file of a mirror: MirrorMaker 2's keys, and an answer for each."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kraft.mirror.config import InvalidMirrorFile, MirrorConfig, mirror_config
from kraft.mirror.positions import MirrorIdentity

SMALL = {
    "clusters": "A, B",
    "A.bootstrap.servers": "a:9092",
    "B.bootstrap.servers": "b:9092",
    "A->B.enabled": "true",
}

OF_MIRRORMAKER = {
    **SMALL,
    "A.wire.protocol": "kafka",
    "A->B.topics": ".*",
    "B->A.enabled": "true",
    "B->A.topics": ".*",
    "replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "config.storage.replication.factor": "1",
    "emit.heartbeats.interval.seconds": "5",
    "sync.topic.acls.enabled": "false",
    "B.exactly.once.source.support": "enabled",
    "dedicated.mode.enable.internal.rest": "true",
    "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
}


def problems_of(**more: str) -> list[str]:
    with pytest.raises(InvalidMirrorFile) as refused:
        mirror_config({**SMALL, **more})
    return refused.value.problems


def read(settings: dict[str, Any]) -> MirrorConfig:
    return mirror_config(settings)


def test_a_file_of_mirrormaker_is_read_and_each_key_without_effect_is_told() -> None:
    config = read(OF_MIRRORMAKER)
    assert [each.name for each in config.pairs] == ["A->B", "B->A"]
    forth, back = config.pairs
    assert (forth.exactly_once, back.exactly_once) == (True, None)
    assert (forth.replication_factor, forth.naming.prefixed, forth.syncs_acls) == (1, True, False)
    assert forth.source.consumer["wire.protocol"] == "kafka"
    told = " ".join(config.notes)
    for key in ("checkpoints", "heartbeats", "status.storage", "dedicated.mode", "key.converter"):
        assert key in told


def test_a_key_of_a_pair_overrides_that_of_all() -> None:
    config = read({**SMALL, "topics": "a", "A->B.topics": "b", "groups": "g", "tasks.max": "2"})
    (pair,) = config.pairs
    assert (pair.topics.has("a"), pair.topics.has("b"), pair.groups.has("g"), pair.shards) == (False, True, True, 2)


def test_settings_of_clients_are_those_of_the_alias_and_of_the_kind() -> None:
    config = read({**SMALL, "client.id": "m", "A.consumer.fetch.min.bytes": "7", "B.producer.linger.ms": "3"})
    (pair,) = config.pairs
    assert pair.source.consumer["fetch.min.bytes"] == "7"
    assert "fetch.min.bytes" not in pair.source.admin
    assert pair.target.producer["linger.ms"] == "3"
    assert pair.target.producer["client.id"] == "m"


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("A->B.topics", "(", "A->B: topics: '(' is no regular expression"),
        ("tasks.max", "0", "A->B: tasks.max=0 is not a number from 1 to 1000"),
        ("A->B.enabled", "yes", "A->B: enabled=yes is not true or false"),
        ("A->C.topics", "x", "A->C.topics: clusters does not name C"),
        ("A->A.topics", "x", "A->A.topics: a cluster is not mirrored into itself"),
        ("topcs", "x", "topcs is no key of a mirror; did you mean topics?"),
        ("transforms", "x", "transforms is not supported: records are not changed on their way; remove it"),
        ("topic.filter.class", "x", "topic.filter.class is not supported: no Java runs here; use patterns"),
        ("A.consumer.group.id", "x", "A.consumer.group.id is set by the mirror itself: remove it"),
        ("A.bootstrap.servers", "", "A.bootstrap.servers is missing: give HOST:PORT[,HOST:PORT...]"),
        ("replication.policy.separator", "", "A->B: replication.policy.separator= is not letters, digits"),
        ("replication.policy.class", "My", "A->B: replication.policy.class=My is not one of Default"),
    ],
)
def test_a_wrong_setting_is_one_line(key: str, value: str, said: str) -> None:
    assert any(each.startswith(said) for each in problems_of(**{key: value})), problems_of(**{key: value})


def test_the_same_names_both_ways_are_refused() -> None:
    (problem,) = problems_of(**{"B->A.enabled": "true", "replication.policy.class": "IdentityReplicationPolicy"})
    assert problem.startswith("A -> B -> A is a cycle of topics with the same names")


def test_the_same_names_both_ways_are_taken_if_no_topic_goes_both_ways() -> None:
    both = {"B->A.enabled": "true", "replication.policy.class": "IdentityReplicationPolicy"}
    assert len(read({**SMALL, **both, "A->B.topics": "eu-.*", "B->A.topics": "us-.*"}).pairs) == 2


MERGED = {
    "clusters": "A, B, C",
    "C.bootstrap.servers": "c:9092",
    "C->B.enabled": "true",
    "replication.policy.class": "IdentityReplicationPolicy",
}
OFF = "sync.group.offsets.enabled"


def test_groups_of_topics_that_two_sources_fill_are_refused() -> None:
    (problem,) = problems_of(**MERGED)
    assert problem.startswith("A->B and C->B fill topics of the same names, in which a group")
    assert f"set A->B.{OFF}=false and C->B.{OFF}=false, choose topics" in problem
    (problem,) = problems_of(**MERGED, **{f"A->B.{OFF}": "false"})
    assert f"set C->B.{OFF}=false, choose topics" in problem


@pytest.mark.parametrize(
    "more",
    [
        {OFF: "false"},
        {"A->B.topics": "a-.*", "C->B.topics": "c-.*"},
        {"replication.policy.class": "DefaultReplicationPolicy"},
        {"C->B.enabled": "false", "B->C.enabled": "true"},
    ],
)
def test_two_sources_are_taken_where_no_group_reads_records_of_both(more: dict[str, str]) -> None:
    assert len(read({**SMALL, **MERGED, **more}).pairs) == 2


def test_two_mirrors_of_two_files_are_known_to_fill_the_same_topics() -> None:
    (pair,) = read({**SMALL, "replication.policy.class": "IdentityReplicationPolicy"}).pairs
    own = MirrorIdentity(source="a", target="t", prefixed=False)
    assert MirrorIdentity(source="c", target="t", prefixed=False).fills_with(own, pair.topics)
    assert not MirrorIdentity(source="c", target="t", prefixed=True).fills_with(own, pair.topics)
    assert not MirrorIdentity(source="a", target="t", prefixed=False).fills_with(own, pair.topics)
    assert not MirrorIdentity(source="c", target="d", prefixed=False).fills_with(own, pair.topics)


def test_two_mirrors_between_the_same_clusters_are_known_to_copy_to_the_same_topics() -> None:
    own = MirrorIdentity(source="a", target="b", prefixed=True, alias="A", topics=(".*-eu",))
    names = ["orders-eu", "all-eu"]
    assert own.shares(own, names) == ["all-eu", "orders-eu"]
    assert replace(own, topics=("all.*", ".*-us")).shares(own, names) == ["all-eu"]
    same_names = replace(own, prefixed=False)
    assert replace(same_names, alias="Z").shares(same_names, names) == ["all-eu", "orders-eu"]
    others: list[dict[str, Any]] = [{"topics": (".*-us",)}, {"topics": None}, {"prefixed": False}]
    others += [{"alias": "Z"}, {"alias": None}]
    assert [replace(own, **each).shares(own, names) for each in others] == [[]] * 5


def test_mirrormaker_1_is_answered() -> None:
    with pytest.raises(InvalidMirrorFile, match="whitelist is MirrorMaker 1's: name the clusters in one file"):
        mirror_config({"whitelist": ".*"})


def test_no_clusters_and_no_pair_are_told() -> None:
    with pytest.raises(InvalidMirrorFile, match="clusters is missing"):
        mirror_config({})
    assert problems_of(**{"A->B.enabled": "false"}) == ["no pair is enabled: set A->B.enabled=true, with your aliases"]
