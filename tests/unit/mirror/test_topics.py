"""What the target gets of the source's topics: one that is refused leaves the others alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import structlog
from msgspec.structs import replace

from kraft.client import NewTopic, TopicPartition
from kraft.client.aio import Admin
from kraft.mirror.config import mirror_config
from kraft.mirror.copying import Counts
from kraft.mirror.metrics import LAG, LAG_S, age_s, values_of, worst_s
from kraft.mirror.topics import PairTopics, states_of
from kraft.mirror.translation import PartitionState
from kraft.model.errors import ErrorCode, Refusal

SETTINGS = {
    "clusters": "A, B",
    "A.bootstrap.servers": "a:1",
    "B.bootstrap.servers": "b:1",
    "A->B.enabled": "true",
    "replication.policy.class": "IdentityReplicationPolicy",
}


class FakeCluster:
    """Topics of one partition with their configs; some may not be described."""

    def __init__(self, topics: dict[str, dict[str, str]], *hidden: str, refuses: str = "") -> None:
        """`refuses` is a value of a config that no topic may have."""
        self.topics = topics
        self._hidden = hidden
        self._refuses = refuses
        self.times_created = 0

    async def find_topics(self) -> dict[str, Any]:
        again = "+" * self.times_created
        return {each: SimpleNamespace(name=each, topic_id=each + again, partitions=[0]) for each in self.topics}

    async def describe_topics(self, names: Sequence[str]) -> list[Any]:
        for each in names:
            if each in self._hidden:
                raise Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"topic {each}")
        return [SimpleNamespace(topic=each, configs=self.topics[each]) for each in names]

    def _check(self, configs: Mapping[str, str]) -> None:
        if self._refuses in configs.values():
            raise Refusal(ErrorCode.INVALID_CONFIG, f"not {self._refuses}")

    async def create_topics(self, new: list[NewTopic], *, validate_only: bool = False) -> None:
        for each in new:
            self._check(each.configs)
        if not validate_only:
            self.topics |= {each.topic: dict(each.configs or {}) for each in new}

    async def alter_topic_configs(
        self, topic: str, given: dict[str, str], *, delete: list[str], validate_only: bool = False
    ) -> None:
        self._check(given)
        if not validate_only:
            self.topics[topic] = {key: value for key, value in self.topics[topic].items() if key not in delete} | given

    async def describe_acls(self) -> list[Any]:
        raise Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Describe on the cluster")


async def prepared(source: FakeCluster, target: FakeCluster, **more: str) -> list[Any]:
    """Return what is logged."""
    pair = mirror_config({**SETTINGS, **more}).pairs[0]
    topics = PairTopics(pair, cast(Admin, source), cast(Admin, target), frozenset({"A", "B"}))
    with structlog.testing.capture_logs() as logged:
        await topics.prepare()
    return list(logged)


async def test_one_topic_whose_configs_may_not_be_described_stops_only_itself() -> None:
    source = FakeCluster({f"t{number}": {"retention.ms": "1"} for number in range(9)}, "t4", "t8")
    target = FakeCluster({"t8": {"retention.ms": "2"}})
    logged = await prepared(source, target)
    others = {name: {"retention.ms": "1"} for name in source.topics if name not in ("t4", "t8")}
    assert target.topics == {**others, "t8": {"retention.ms": "2"}}
    said = [each for each in logged if each["log_level"] == "warning"]
    assert [each["topic"] for each in said] == ["t4", "t8"]
    assert "allow DescribeConfigs" in said[0]["event"]


async def test_what_the_target_refuses_is_found_out_without_a_worker_and_without_a_change() -> None:
    here = {"new": {"x": "odd"}, "old": {"x": "odd"}, "hidden": {}, "fine": {"x": "1"}, "same": {"x": "odd"}}
    there = {"old": {"x": "1"}, "same": {"x": "odd"}}
    source, target = FakeCluster(here, "hidden"), FakeCluster(dict(there), refuses="odd")
    topics = PairTopics(mirror_config(SETTINGS).pairs[0], cast(Admin, source), cast(Admin, target), frozenset("AB"))
    reason = "INVALID_CONFIG: not odd"
    unknown = (
        "configs not known: allow DescribeConfigs on the topic at the source: TOPIC_AUTHORIZATION_FAILED: topic hidden"
    )
    assert await topics.refusals() == {"hidden": unknown, "new": reason, "old": reason}
    assert target.topics == there


async def test_what_a_worker_does_meanwhile_is_not_refused() -> None:
    class Overtaken(FakeCluster):
        async def create_topics(self, new: list[NewTopic], *, validate_only: bool = False) -> None:
            self.topics |= {each.topic: {} for each in new if each.topic == "created"}
            source.topics.pop("deleted", None)
            raise Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, new[0].topic)

    source, target = FakeCluster({"created": {}, "deleted": {}, "hidden": {}}), Overtaken({})
    topics = PairTopics(mirror_config(SETTINGS).pairs[0], cast(Admin, source), cast(Admin, target), frozenset("AB"))
    assert await topics.refusals() == {"hidden": "TOPIC_ALREADY_EXISTS: hidden"}, "the user may not describe it"


async def test_a_topic_that_is_created_again_at_the_target_is_another_one_and_its_states_count_no_more() -> None:
    pair = mirror_config(SETTINGS).pairs[0]
    source, target = FakeCluster({"t": {}}), FakeCluster({"t": {}})
    topics = PairTopics(pair, cast(Admin, source), cast(Admin, target), frozenset({"A", "B"}))
    place, before = TopicPartition("t", 0), await topics.look()
    state = PartitionState(topic="t", partition=0, topic_id="t", target_id="t", next_offset=9)
    assert states_of({place: state, TopicPartition("gone", 0): state}, before) == {place: state}
    older = replace(state, target_id="")
    assert states_of({place: older}, before) == {place: older}
    target.times_created += 1
    after = await topics.look()
    assert after != before
    assert states_of({place: state}, after) == {}


async def test_a_choice_of_nothing_is_said() -> None:
    (said,) = await prepared(FakeCluster({"orders": {}}), FakeCluster({}), **{"A->B.topics": "oders.*"})
    assert (said["log_level"], said["topics"]) == ("warning", "oders.*")


async def test_configs_that_are_not_carried_over_need_not_be_described() -> None:
    source, target = FakeCluster({"t": {"retention.ms": "1"}}, "t"), FakeCluster({"t": {}})
    assert await prepared(source, target, **{"sync.topic.configs.enabled": "false"}) == []


async def test_acls_that_may_not_be_read_do_not_keep_topics_from_being_mirrored() -> None:
    (created, said) = await prepared(FakeCluster({"t": {}}), FakeCluster({}), **{"sync.topic.acls.enabled": "true"})
    assert (created["event"], said["event"]) == ("topic created", "ACLs not carried over")


async def test_configs_of_the_target_alone_are_removed_as_mirrormaker_does_and_told_and_kept_where_left_out() -> None:
    own = {"retention.ms": "5", "min.insync.replicas": "2"}
    source, target = FakeCluster({"t": {"segment.bytes": "9"}}), FakeCluster({"t": dict(own)})
    (line,) = await prepared(source, target)
    assert target.topics["t"] == {"segment.bytes": "9", "min.insync.replicas": "2"}
    assert (line["given"], line["removed"]) == ({"segment.bytes": "9"}, {"retention.ms": "5"})
    target = FakeCluster({"t": {"retention.ms": "5"}})
    await prepared(source, target, **{"config.properties.exclude": r"retention\..*"})
    assert target.topics["t"] == {"segment.bytes": "9", "retention.ms": "5"}


def test_lag_in_seconds_is_not_known_before_the_first_copy() -> None:
    nothing = PartitionState(topic="t", partition=0)
    copied = PartitionState(topic="t", partition=1, timestamp_ms=4_000)
    assert [age_s(nothing, 0, 9_000), age_s(nothing, 7, 9_000), age_s(copied, 7, 9_000)] == [0.0, None, 5.0]
    assert [worst_s([]), worst_s([0.0, 5.0]), worst_s([5.0, None])] == [0.0, 5.0, None]
    places = {TopicPartition("t", 0): nothing, TopicPartition("t", 1): copied}
    measured: Any = SimpleNamespace(
        pair=mirror_config(SETTINGS).pairs[0], counts=Counts(), shards=[0], states=places, lags=dict.fromkeys(places, 7)
    )
    shown = {metric.name for metric, _ in values_of([measured], 9_000).items()}
    assert LAG.name in shown
    assert LAG_S.name not in shown
