"""The live tail goes on with the partitions that answer."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

import pytest

from kraft.client import ErrorCode, KraftError, OffsetAndTimestamp, Refusal, TopicPartition
from kraft.console.records.tailing import Tail
from kraft.console.records.wanted import Wanted

_AWAY = Refusal(ErrorCode.LEADER_NOT_AVAILABLE, "no leader")


class FakeClient:
    """A consumer and an admin of three partitions, some of which have no leader."""

    def __init__(self, away: Collection[int]) -> None:
        self.away = away
        self.asked: list[list[int]] = []

    def end_offsets(self, places: Collection[TopicPartition], timeout_ms: int) -> dict[TopicPartition, int]:
        self.asked.append([each.partition for each in places])
        if any(each.partition in self.away for each in places):
            raise _AWAY
        return dict.fromkeys(places, 10)

    def list_offsets(
        self, places: Mapping[TopicPartition, int], timeout_ms: int
    ) -> dict[TopicPartition, OffsetAndTimestamp | KraftError]:
        return {each: _AWAY if each.partition in self.away else OffsetAndTimestamp(10, -1) for each in places}


class FakeAsked:
    def __init__(self, client: FakeClient) -> None:
        self.admin = client
        self.client = self

    def consumer(self, **_: object) -> FakeClient:
        return self.admin


def tail_of(client: FakeClient) -> Tail:
    tail = Tail(cast(Any, FakeAsked(client)), "orders", Wanted(), cast(Any, None))
    tail.partitions = [0, 1, 2]
    return tail


def test_a_partition_without_a_leader_is_said_and_the_others_are_followed() -> None:
    client = FakeClient({1})
    tail = tail_of(client)
    first = tail.turn()
    assert "Nobody answers for partition 1 now: the others are followed" in first.notes[0]
    assert first.at == "0:10,2:10"
    # It holds up no turn before it is asked for again.
    assert tail.turn().notes == []
    assert client.asked[-1] == [0, 2]


def test_a_topic_of_which_nothing_answers_is_a_problem() -> None:
    with pytest.raises(Refusal, match="no leader"):
        tail_of(FakeClient({0, 1, 2})).turn()
