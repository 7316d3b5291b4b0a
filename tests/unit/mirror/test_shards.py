"""A shard's beginning: the former worker is fenced before positions are read, and its number of parts stays."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
import structlog
from msgspec.structs import replace

from kraft.client import TopicPartition
from kraft.client.aio import Admin
from kraft.mirror import beginning, clients
from kraft.mirror.beginning import Beginning
from kraft.mirror.config import PairConfig, mirror_config
from kraft.mirror.copying import Counts
from kraft.mirror.positions import MirrorIdentity
from kraft.mirror.shards import Shard
from kraft.mirror.throttle import Throttle

IDENTITY = MirrorIdentity(source="a", target="b", prefixed=True)
BEGINNING = Beginning(
    positions="positions",
    positions_id="id",
    shards=2,
    is_exactly_once=True,
    identity=IDENTITY,
    known={},
    addresses={},
)


def pair() -> PairConfig:
    settings = {"clusters": "A, B", "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1", "A->B.enabled": "true"}
    return mirror_config(settings).pairs[0]


class Calls:
    """Fakes of a shard's clients, which note what is done in which order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, positions_id: str = "id") -> None:
        self.made: list[str] = []
        self.has_read = asyncio.Event()
        self.has_looked = asyncio.Event()
        self._positions_id = positions_id
        monkeypatch.setattr(clients, "target_producer", self._producer)
        monkeypatch.setattr(clients, "consumer_of", self._reader)
        monkeypatch.setattr(clients, "source_consumer", self._reader)

    @asynccontextmanager
    async def _reader(self, _: object) -> Any:
        yield self

    @asynccontextmanager
    async def _producer(self, _: object, transactional_id: str | None) -> Any:
        assert transactional_id == "positions-1"
        yield self

    settings = SimpleNamespace(transactional_id="positions-1", transaction_timeout_ms=60_000)

    async def init_transactions(self) -> None:
        # What a former worker commits until then has to be read.
        await asyncio.sleep(0)
        self.made.append("fenced")

    async def beginning_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        self.made.append(f"read {places[0]}")
        return dict.fromkeys(places, 0)

    async def end_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        self.has_read.set()
        return dict.fromkeys(places, 0)

    async def read_columns(self, *_: object) -> Any:
        for part in list[Any]():
            yield part

    async def find_topics(self, names: list[str]) -> dict[str, Any]:
        self.made.append("looked up")
        self.has_looked.set()
        return {each: SimpleNamespace(topic_id=self._positions_id) for each in names}

    def shard(self) -> Shard:
        admin = cast(Admin, self)
        place = TopicPartition("positions", 1)
        return Shard(
            pair(), place, BEGINNING, admins=(admin, admin), topics=dict, throttle=Throttle(0), counts=Counts()
        )


async def test_a_former_worker_is_fenced_before_positions_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls(monkeypatch)
    shard = calls.shard()
    await asyncio.wait_for(calls.has_read.wait(), 10)
    await shard.stop()
    assert [each for each in calls.made if each != "looked up"] == ["fenced", "read positions-1"]


async def test_nothing_is_read_from_positions_that_were_created_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls(monkeypatch, positions_id="another")
    shard = calls.shard()
    await asyncio.wait_for(calls.has_looked.wait(), 10)
    await shard.stop()
    assert calls.made == ["fenced", "looked up"]
    assert not shard.states


@pytest.mark.parametrize(("former", "partitions", "kept"), [(None, 4, 4), (0, 4, 4), (4, 6, 4), (4, 4, 4)])
def test_the_number_of_parts_stays_although_partitions_are_added(
    former: int | None, partitions: int, kept: int
) -> None:
    identity = None if former is None else replace(IDENTITY, shards=former)
    with structlog.testing.capture_logs() as logged:
        assert beginning._shards(pair(), "positions", identity, partitions) == kept
    assert [each["partitions"] for each in logged] == ([partitions] if partitions > kept else [])
