"""The live tail goes on with the partitions that answer."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from kraft.client import ErrorCode, KraftError, OffsetAndTimestamp, Refusal, TopicPartition
from kraft.console.records import tailing
from kraft.console.records.readers import Readers
from kraft.console.records.tailing import TURNS_OF_A_TOPIC, Tail, TopicGone
from kraft.console.records.wanted import Wanted

_AWAY = Refusal(ErrorCode.LEADER_NOT_AVAILABLE, "no leader")


class FakeClient:
    """A consumer and an admin of three partitions, some of which have no leader."""

    def __init__(self, away: Collection[int]) -> None:
        self.away = away
        self.topic_id: UUID | None = UUID(int=1)
        self.end = 10
        self.asked: list[list[int]] = []

    def end_offsets(self, places: Collection[TopicPartition], timeout_ms: int) -> dict[TopicPartition, int]:
        self.asked.append([each.partition for each in places])
        if any(each.partition in self.away for each in places):
            raise _AWAY
        return dict.fromkeys(places, self.end)

    def describe_topics(self, names: list[str], timeout_ms: int) -> list[Any]:
        if self.topic_id is None:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {names[0]!r} does not exist")
        partitions = [SimpleNamespace(partition_index=each) for each in range(3)]
        return [SimpleNamespace(metadata=SimpleNamespace(topic_id=self.topic_id, partitions=partitions))]

    def assign(self, _: object) -> None: ...
    def seek(self, *_: object) -> None: ...
    def pause(self, *_: object) -> None: ...
    def close(self, _: int) -> None: ...

    def list_offsets(
        self, places: Mapping[TopicPartition, int], timeout_ms: int
    ) -> dict[TopicPartition, OffsetAndTimestamp | KraftError]:
        return {each: _AWAY if each.partition in self.away else OffsetAndTimestamp(10, -1) for each in places}


class FakeAsked:
    def __init__(self, client: FakeClient) -> None:
        self.admin = client
        self.client = self
        self.state = SimpleNamespace(readers=Readers())

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


def begun(client: FakeClient) -> Tail:
    tail = tail_of(client)
    tail.begin()
    return tail


def test_a_tail_ends_when_its_topic_is_deleted() -> None:
    client = FakeClient({})
    tail = begun(client)
    client.away, client.topic_id = {0, 1, 2}, None
    with pytest.raises(TopicGone, match=r"^Topic orders does not exist any more: it was deleted\.$"):
        tail.turn()


@pytest.mark.parametrize(("end", "turns"), [(3, 1), (10, TURNS_OF_A_TOPIC)])
def test_a_topic_that_is_created_again_is_another_one(end: int, turns: int) -> None:
    """It shows at once where the new one is shorter, and after some turns in any case."""
    client = FakeClient({})
    tail = begun(client)
    client.topic_id, client.end = UUID(int=2), end
    for _ in range(turns - 1):
        tail.turn()
    with pytest.raises(TopicGone, match="another one has its name"):
        tail.turn()


def test_a_stream_ends_with_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tailing, "PROBLEM_WAIT_S", 0.0)
    monkeypatch.setattr(tailing, "TURN_S", 0.0)
    client = FakeClient({})

    async def names() -> list[str]:
        followed = tailing.followed(cast(Any, FakeAsked(client)), "orders", Wanted(), cast(Any, None))
        found = []
        async for each in followed:
            found.append(each.name)
            client.away, client.topic_id = {0, 1, 2}, None
        return found

    assert asyncio.run(names()) == ["turn", "ended"]
    # A topic that is not there at first may be new: it is asked for twice.
    assert asyncio.run(names()) == ["problem", "ended"]


def test_a_topic_of_which_nothing_answers_is_a_problem() -> None:
    client = FakeClient({})
    tail = begun(client)
    client.away = {0, 1, 2}
    with pytest.raises(Refusal, match="no leader"):
        tail.turn()
