"""A start without positions: refused where workers have copied before, and said where they may have."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import structlog

from kraft.client import TopicPartition
from kraft.client.aio import Admin
from kraft.client.model.values import OffsetAndTimestamp
from kraft.mirror import beginning
from kraft.mirror.config import PairConfig, mirror_config
from kraft.mirror.repeats import CannotMirror, filled_topics, refuse_repeats
from kraft.mirror.topics import Mirrored
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.list_offsets import EARLIEST_TIMESTAMP

POSITIONS = "m.A-B.positions"
UNKNOWN = Refusal(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "no such id")


class FakeTarget:
    """Has partitions with these first and next offsets, and knows these transactional ids."""

    def __init__(self, offsets: dict[TopicPartition, tuple[int, int]], *known: str) -> None:
        self._offsets = offsets
        self._known = known

    async def list_offsets(self, times_ms: dict[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp]:
        return {
            place: OffsetAndTimestamp(offset=self._offsets[place][time_ms != EARLIEST_TIMESTAMP], timestamp_ms=-1)
            for place, time_ms in times_ms.items()
        }

    async def describe_transactions(self, ids: list[str]) -> dict[str, Any]:
        return {each: "known" if each in self._known else UNKNOWN for each in ids}


def pair() -> PairConfig:
    settings = {"clusters": "A, B", "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1", "A->B.enabled": "true"}
    return mirror_config(settings).pairs[0]


def mirrored(topic: str) -> Mirrored:
    return Mirrored(
        topic=topic, topic_id="id", target=f"A.{topic}", target_id="there", partitions=2, source_partitions=2
    )


async def refused_or_said(target: FakeTarget, filled: list[str], *, begun_meanwhile: bool = False) -> list[Any]:
    async def are_there() -> bool:
        return begun_meanwhile

    with structlog.testing.capture_logs() as logged:
        await refuse_repeats(pair(), POSITIONS, cast(Admin, target), filled, are_there)
    return list(logged)


async def test_topics_with_records_at_the_target_are_found_except_those_that_are_continued() -> None:
    places = [TopicPartition(f"A.{topic}", number) for topic in ("empty", "full", "back") for number in (0, 1)]
    target = FakeTarget(dict(zip(places, [(0, 0), (7, 7), (0, 0), (7, 9), (0, 5), (0, 5)], strict=True)))
    topics = {each: mirrored(each) for each in ("empty", "full", "back")}
    continued = {TopicPartition("back", 0), TopicPartition("back", 1)}
    assert await filled_topics(topics, cast(Admin, target), continued) == ["A.full"]


async def test_a_start_is_refused_where_workers_have_copied_before_and_the_positions_are_gone() -> None:
    target = FakeTarget({}, f"{POSITIONS}-0")
    with pytest.raises(CannotMirror, match=r"copied again: A\.full\. Delete these topics there, or give another name"):
        await refused_or_said(target, ["A.full"])


async def test_nothing_is_refused_where_another_worker_has_begun_meanwhile_or_nothing_can_be_repeated() -> None:
    target = FakeTarget({}, f"{POSITIONS}-0")
    assert await refused_or_said(target, ["A.full"], begun_meanwhile=True) == []
    assert await refused_or_said(target, []) == []


async def test_where_no_transaction_shows_it_the_repetition_is_said_with_the_remedy() -> None:
    (line,) = await refused_or_said(FakeTarget({}), [f"t{number}" for number in range(12)])
    assert line["log_level"] == "warning"
    assert line["topics"].endswith("t9 and 2 more")
    assert "delete these topics at the target" in line["remedy"]


class FakeConfigs:
    """A target whose positions topic has this cleanup.policy, or may not be described."""

    def __init__(self, policy: str | None) -> None:
        self._policy = policy

    async def describe_configs_of_topics(self, names: list[str]) -> dict[str, Any]:
        if self._policy is None:
            raise Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "DescribeConfigs")
        return {each: [SimpleNamespace(name="cleanup.policy", value=self._policy)] for each in names}


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
async def test_positions_that_would_be_deleted_by_their_age_are_refused(policy: str) -> None:
    with pytest.raises(CannotMirror, match=f"has cleanup.policy={policy}, by which .*--add-config cleanup.policy=co"):
        await beginning._check_cleanup(pair(), POSITIONS, cast(Admin, FakeConfigs(policy)))


@pytest.mark.parametrize("policy", ["compact", None])
async def test_positions_are_taken_that_are_compacted_or_may_not_be_described(policy: str | None) -> None:
    await beginning._check_cleanup(pair(), POSITIONS, cast(Admin, FakeConfigs(policy)))
