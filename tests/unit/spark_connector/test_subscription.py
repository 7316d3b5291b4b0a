from __future__ import annotations

import logging

import pytest

from kraft.client import TopicPartition
from spark_connector import subscription as module
from spark_connector.cluster import TopicMissing
from spark_connector.subscription import Assigned, Pattern, Topics, at_start, partitions_of
from tests.support.file_cluster import ConnectedFileCluster, FileCluster

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


@pytest.fixture
def connected(cluster: FileCluster) -> ConnectedFileCluster:
    cluster.create_topic("b", partitions=1)
    cluster.create_topic("ab", partitions=1)
    cluster.create_topic("__consumer_offsets", partitions=1)
    return cluster([])


def test_partitions_come_in_the_order_of_topics_and_numbers(connected: ConnectedFileCluster) -> None:
    assert partitions_of(at_start(Topics(("b", "a")), connected)) == [A0, A1, B0]


@pytest.mark.parametrize(
    ("subscription", "words"),
    [
        (Topics(("a", "absent")), "topic 'absent' does not exist: create it, or correct the option subscribe"),
        (
            Assigned(frozenset({A0, TopicPartition("a", 2)})),
            "partition 'a-2' .* create it, or correct the option assign",
        ),
    ],
)
def test_what_is_missing_at_the_start_is_named(
    connected: ConnectedFileCluster, subscription: Topics | Assigned, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MISSING_TOPIC_GRACE_S", 0.0)
    with pytest.raises(TopicMissing, match=words):
        at_start(subscription, connected)


def test_a_pattern_matches_whole_names_and_no_internal_topic(
    connected: ConnectedFileCluster, caplog: pytest.LogCaptureFixture
) -> None:
    assert sorted(Pattern("[ab]|_.*").found(connected)) == ["a", "b"]
    assert Pattern("a.*").includes(TopicPartition("abc", 7))
    with caplog.at_level(logging.WARNING, "spark_connector"):
        at_start(Pattern("b"), connected)
    assert "topics not read: subscribePattern=b matches only a part of ['ab']" in caplog.text


def test_a_pattern_without_a_topic_reads_nothing_until_there_is_one(connected: ConnectedFileCluster) -> None:
    assert at_start(Pattern("z.*"), connected) == {}
