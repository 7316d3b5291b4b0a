from __future__ import annotations

from kraft.coordinator.assignors.assignor import NO_PARTITIONS
from kraft.coordinator.consumer.group import ResolvedRegex
from kraft.coordinator.consumer.regexes import decide_resolved, unresolved_regexes
from tests.unit.coordinator.consumer.coordinator import Coordinator, image_of, partitions


def resolve(group: Coordinator, **topics: set[str]) -> None:
    results = {
        regex: ResolvedRegex(topics=frozenset(names), version=1, timestamp_ms=0) for regex, names in topics.items()
    }
    group.apply(decide_resolved(group.state, results, group.context()))


def subscribed() -> Coordinator:
    group = Coordinator(a=2, b=1)
    group.join("m1", topics=None, topic_regex="all")
    return group


def test_an_expression_matches_nothing_until_it_is_resolved() -> None:
    group = subscribed()
    assert group.member("m1").assigned == NO_PARTITIONS
    assert unresolved_regexes(group.group) == {"all"}
    epoch = group.group.epoch
    resolve(group, all={"a", "b"})
    assert unresolved_regexes(group.group) == set()
    assert group.group.epoch == epoch + 1
    assert group.heartbeat("m1", epoch).assignment == partitions("a", 0, 1) | partitions("b", 0)


def test_the_same_result_again_is_recorded_and_moves_nothing() -> None:
    group = subscribed()
    resolve(group, all={"a"})
    epoch = group.group.epoch
    resolve(group, all={"a"})
    assert group.group.epoch == epoch


def test_a_topic_that_is_found_later_is_assigned() -> None:
    group = subscribed()
    resolve(group, all={"a"})
    group.settle()
    group.image = image_of({"a": 2, "b": 1, "c": 1})
    resolve(group, all={"a", "c"})
    group.settle()
    assert group.member("m1").assigned == partitions("a", 0, 1) | partitions("c", 0)


def test_what_was_resolved_is_deleted_with_the_last_subscriber() -> None:
    group = subscribed()
    group.join("m2", topics=None, topic_regex="all")
    resolve(group, all={"a"})
    group.settle()
    group.heartbeat("m1", -1)
    assert set(group.group.regexes) == {"all"}
    response = group.heartbeat("m2", group.member("m2").epoch, topic_regex="")
    assert response.assignment == NO_PARTITIONS
    assert group.group.regexes == {}
    assert group.group.subscribed_topics() == set()


def test_a_result_that_nobody_waits_for_is_skipped() -> None:
    group = subscribed()
    resolve(group, other={"a"})
    assert group.group.regexes == {}
    assert group.group.epoch == 1
    gone = Coordinator(a=1)
    resolve(gone, all={"a"})
    assert gone.state is None
