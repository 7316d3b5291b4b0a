"""Several partitions are worked on at once, and nothing of it is seen but the time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import Any, Final, TypeVar

from kraft.client import TopicPartition
from kraft.client.model.values import PartitionColumns
from kraft.log.format.record_batch import TimestampType
from kraft.log.format.record_codec import RecordColumns
from kraft.mirror import verification
from kraft.mirror.config import mirror_config
from kraft.mirror.several import Room, in_order
from kraft.mirror.translation import PartitionState, Run
from kraft.model.errors import ErrorCode, KraftError, Refusal

Item = TypeVar("Item")

SETTINGS: Final = {
    "clusters": "A, B",
    "A.bootstrap.servers": "a:1",
    "B.bootstrap.servers": "b:1",
    "A->B.enabled": "true",
}
(PAIR,) = mirror_config(SETTINGS).pairs


class Work:
    """Pieces that end when they are told, and how many ran at once."""

    def __init__(self) -> None:
        self.running: set[int] = set()
        self.most = 0
        self.ends: dict[int, asyncio.Event] = {}

    async def piece(self, number: int) -> int:
        self.running.add(number)
        self.most = max(self.most, len(self.running))
        try:
            await self.ends.setdefault(number, asyncio.Event()).wait()
        finally:
            self.running.discard(number)
        if number == 13:
            raise KraftError("thirteen")
        return number

    async def end(self, *numbers: int) -> None:
        for number in numbers:
            await asyncio.sleep(0)
            self.ends.setdefault(number, asyncio.Event()).set()


async def test_results_come_in_the_order_of_the_work_of_which_so_much_runs_at_once() -> None:
    work = Work()
    ending = asyncio.ensure_future(work.end(*reversed(range(3)), *reversed(range(3, 9))))
    async with asyncio.timeout(10):
        assert [each async for each in in_order(map(work.piece, range(9)), 3)] == list(range(9))
    await ending
    assert work.most == 3


async def until_error(items: AsyncGenerator[Item, None]) -> tuple[list[Item], KraftError]:
    found = []
    try:
        async with asyncio.timeout(10):
            while True:
                found.append(await anext(items))
    except KraftError as error:
        return found, error


async def test_one_that_fails_ends_those_beside_it() -> None:
    work = Work()
    await work.end(11, 12, 13)
    found, error = await until_error(in_order(map(work.piece, range(11, 99)), 4))
    assert (found, str(error), work.running) == ([11, 12], "thirteen", set())


async def test_a_large_partition_waits_for_all_the_room_and_is_not_overtaken() -> None:
    room, began = Room(10), []

    async def read(name: str, records: int, until: asyncio.Event) -> None:
        async with room.taken(records):
            began.append(name)
            await until.wait()

    first, large, last = (asyncio.Event() for _ in range(3))
    reads = [read("first", 4, first), read("large", 999, large), read("last", 1, last)]
    tasks = [asyncio.ensure_future(each) for each in reads]
    for event, seen in ((first, ["first"]), (large, ["first", "large"]), (last, ["first", "large", "last"])):
        while began != seen:
            assert began == seen[: len(began)]
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert began == seen
        event.set()
    await asyncio.gather(*tasks)


class Away:
    """A consumer one of whose partitions has no leader."""

    async def beginning_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        (partition,) = partitions
        if partition.partition == 1:
            raise Refusal(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader")
        return {partition: 5}


class Deleting:
    """A consumer of partitions that lose a record each time that they are to be read, so many times."""

    def __init__(self, deletions: int) -> None:
        self.deletions, self._start = deletions, 0

    async def beginning_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self._start)

    async def read_columns(
        self, partition: TopicPartition, start: int, end: int
    ) -> AsyncGenerator[PartitionColumns, None]:
        if self.deletions:
            self.deletions, self._start = self.deletions - 1, self._start + 1
            raise Refusal(ErrorCode.OFFSET_OUT_OF_RANGE, f"{partition} does not hold offset {start}")
        offsets = list(range(start, end))
        columns = RecordColumns(offsets, offsets, [None] * len(offsets), [b"v"] * len(offsets), [()] * len(offsets))
        yield PartitionColumns(
            partition=partition, timestamp_type=TimestampType.CREATE_TIME, columns=columns, next_offset=end
        )


def places() -> Iterator[verification.Place]:
    for number in range(3):
        state = PartitionState(topic="orders", partition=number, next_offset=5)
        target = TopicPartition("A.orders", number)
        yield verification.Place(state=state, target=target, policies=frozenset())


async def test_a_partition_that_cannot_be_read_is_named() -> None:
    compared = verification.verdicts_of(PAIR, Away(), Away(), places())  # type: ignore[arg-type]  # They are fakes.
    found, error = await until_error(compared)
    assert [each.source for each in found] == ["orders-0"]
    assert "orders-1 has no leader" in str(error)
    assert error.__notes__ == ["A->B: orders-1 could not be compared with A.orders-1"]


async def test_records_that_an_end_deletes_before_they_are_read_are_left_out() -> None:
    state = PartitionState(topic="orders", partition=0, next_offset=9, target_end=9, runs=(Run(0, 0, 9),))
    place = verification.Place(state=state, target=TopicPartition("A.orders", 0), policies=frozenset())
    for here, there in ((2, 0), (0, 3), (4, 0)):
        ends: tuple[Any, Any] = (Deleting(here), Deleting(there))
        (verdict,) = [each async for each in verification.verdicts_of(PAIR, *ends, [place])]
        assert (verdict.compared, verdict.missing, verdict.twice) == (9 - max(here, there), 0, 0)
    endless: tuple[Any, Any] = (Deleting(99), Deleting(0))
    _, error = await until_error(verification.verdicts_of(PAIR, *endless, [place]))
    assert str(error).startswith("OFFSET_OUT_OF_RANGE: orders-0"), "it never ends otherwise"
