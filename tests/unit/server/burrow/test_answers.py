"""The states of groups beside Burrow's own, which were recorded: `tests/golden/burrow`."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

import pytest

from kraft.coordinator.lag.states import LagState
from kraft.coordinator.lag.tracker import LagTracker, Moment
from kraft.coordinator.offsets.committed_offset import CommittedOffset
from kraft.coordinator.offsets.committed_offsets import TopicOffsets
from kraft.coordinator.offsets.group_topic_partition import GroupTopicPartition, with_items
from kraft.metadata.persistent_maps import PersistentMap
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import Offset, TopicPartition
from kraft.server.burrow.answers import group_status
from kraft.server.handlers.group_lags import group_lag, partition_lag, refused_group
from tests.golden.burrow.answers import (
    ANSWER_FILE,
    BEGIN_MS,
    SCRIPTED_FILE,
    STATES,
    WALKS_FILE,
    full_line,
    short_line,
)
from tests.golden.burrow.scenarios import LOOK_MS, SCRIPTED, WALKS, Event, Scenario, walk

SHARD: Final = 7

WINDOW_MS: Final = 10 * LOOK_MS

SINGLE_COMMIT: Final = re.compile(r" (?:STOP|STALL) \d+ 0\.1 .* to \d+@([\d.]+)-")
"""A partition of which Burrow has seen one commit, with its time."""

DIFFERENT: Final = {
    # Burrow forgets the offsets of a deleted topic and keeps the group for a week; a coordinator deletes both.
    "its only topic is deleted": "OK of 0, 0.00, lag 0 None",
    # Burrow forgets a group after a week without commits, whether it has members or not.
    "a week without commits": "NOTFOUND of 0, 1.00, lag 0 None",
}
"""Last answer of Burrow in scenarios where ours is another one, on purpose."""


class Played:
    """A coordinator to which a scenario happens."""

    def __init__(self) -> None:
        self._tracker = LagTracker(LOOK_MS)
        self._groups: PersistentMap[str, TopicOffsets] = PersistentMap()
        self._partition_counts: dict[str, int] = {}

    def answers(self, scenario: Scenario) -> Iterator[dict[str, Any]]:
        for (at, do), events in groupby(scenario.events, lambda event: (event.at, event.do)):
            now_ms = BEGIN_MS + at
            if do == "end":
                self._look(list(events), now_ms)
                continue
            for event in events:
                match do:
                    case "commit":
                        committed = CommittedOffset(offset=Offset(event.offset), commit_timestamp_ms=now_ms)
                        key = GroupTopicPartition(event.group, event.topic, event.partition)
                        self._groups = with_items(self._groups, {key: committed})
                    case "delete_topic":
                        self._delete(lambda key, topic=event.topic: key.topic == topic)
                    case "delete_group":
                        self._delete(lambda key, group=event.group: key.group == group)
                    case _:
                        yield self._answer(event.group, now_ms, scenario.minimum_complete)

    def _delete(self, is_deleted: Any) -> None:
        keys = (
            GroupTopicPartition(group, topic, partition)
            for group, topics in self._groups.items()
            for topic, partitions in topics.items()
            for partition in partitions
        )
        self._groups = with_items(self._groups, dict.fromkeys(filter(is_deleted, keys)))

    def _look(self, ends: list[Event], now_ms: int) -> None:
        # Burrow looks at all logs, a coordinator at those that some group reads.
        watched = [GroupTopicPartition("another", each.topic, each.partition) for each in ends]
        self._groups = with_items(
            self._groups, dict.fromkeys(watched, CommittedOffset(offset=Offset(0), commit_timestamp_ms=0))
        )
        for _ in self._tracker.note_commits(SHARD, self._groups):
            pass
        for each in ends:
            self._partition_counts[each.topic] = each.partitions
        found = [(TopicPartition(each.topic, each.partition), Offset(each.offset)) for each in ends]
        for _ in self._tracker.note_ends(found, now_ms):
            pass

    def _answer(self, group: str, now_ms: int, minimum_complete: float) -> dict[str, Any]:
        topics = self._groups.get(group)
        if topics is None:
            refused = refused_group(group, Refusal(ErrorCode.GROUP_ID_NOT_FOUND, "there is no such group"))
            return group_status("c1", refused, {}, shows_all=True)
        found = self._tracker.lag_of(SHARD, group, topics, Moment(now_ms, now_ms))
        # A setting of Burrow. Whoever reads our answers can do the same.
        judged = (each if each.completeness >= minimum_complete else each._replace(state=LagState.OK) for each in found)
        lags = [partition_lag(each) for each in judged]
        return group_status("c1", group_lag(group, lags), self._partition_counts, shows_all=True)


def recorded_lines() -> dict[str, list[str]]:
    """Return Burrow's answers to the scripted scenarios."""
    lines = dict[str, list[str]]()
    for line in SCRIPTED_FILE.read_text().splitlines():
        if line.startswith("# "):
            lines[line.removeprefix("# ")] = []
        else:
            next(reversed(lines.values())).append(line)
    return lines


RECORDED: Final = recorded_lines()


def asked_at_ms(scenario: Scenario) -> list[int]:
    return [event.at for event in scenario.events if event.do == "ask"]


def without_early_alarms(line: str, asked_ms: int) -> str:
    """Return Burrow's answer as it would be if a single commit did not mean at once that a group stops or stalls."""
    head, *partitions = line.split("; ")
    mended = [
        re.sub(" STOP | STALL ", " OK ", partition)
        if (one := SINGLE_COMMIT.search(partition)) and asked_ms - float(one[1]) * 1_000 <= WINDOW_MS
        else partition
        for partition in partitions
    ]
    if mended != partitions:
        worst = max(STATES.index(partition.split()[1]) for partition in mended)
        head = " ".join((STATES[min(worst, 3)], *head.split()[1:]))
    return "; ".join((head, *mended))


@pytest.mark.parametrize("scenario", SCRIPTED, ids=lambda scenario: scenario.name)
def test_in_each_scripted_scenario_the_answers_are_burrows(scenario: Scenario) -> None:
    ours = [full_line(each) for each in Played().answers(scenario)]
    burrows = [
        without_early_alarms(line, at_ms)
        for line, at_ms in zip(RECORDED[scenario.name], asked_at_ms(scenario), strict=True)
    ]
    if scenario.name in DIFFERENT:
        assert burrows.pop() == DIFFERENT[scenario.name] != ours.pop()
    assert ours == burrows


def of_one_commit(scenario: Scenario, asked_ms: int) -> set[int]:
    """Return the partitions with a single commit that is no older than a window."""
    times = defaultdict[int, list[int]](list)
    for event in scenario.events:
        if event.do == "commit" and event.at < asked_ms:
            times[event.partition].append(event.at)
    return {
        at for at, of_partition in times.items() if len(of_partition) == 1 and asked_ms - of_partition[0] <= WINDOW_MS
    }


@pytest.mark.slow
def test_on_random_walks_the_states_are_burrows() -> None:
    recorded = WALKS_FILE.read_text().splitlines()
    assert len(recorded) == WALKS
    for seed, line in enumerate(recorded):
        scenario = walk(seed)
        ours = [short_line(each) for each in Played().answers(scenario)]
        burrows = line.split()
        if ours == burrows:
            continue
        for at_ms, our, burrow in zip(asked_at_ms(scenario), ours, burrows, strict=True):
            _, states, lag = burrow.split(":")
            early = of_one_commit(scenario, at_ms)
            mended = ["1" if each in "45" and at in early else each for at, each in enumerate(states)]
            worst = min(int(max(mended, default="0")), 3)
            assert our == f"{worst}:{''.join(mended)}:{lag}", f"walk {seed} at {at_ms}: Burrow says {burrow}"


def test_a_status_has_burrows_fields_and_types() -> None:
    scenario = next(each for each in SCRIPTED if each.name.startswith("three"))
    *_, ours = Played().answers(scenario)
    burrows = json.loads(ANSWER_FILE.read_text())
    burrows["partitions"].sort(key=lambda each: each["partition"])
    assert ours == burrows
