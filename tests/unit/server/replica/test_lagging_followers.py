from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from kraft.model.errors import ErrorCode
from kraft.model.ids import BrokerId, Offset, TopicPartition
from kraft.rpc.peers import NotServed, Unreachable
from kraft.server.replica import lagging_followers
from kraft.server.replica.lagging_followers import LaggingFollowers
from kraft.server.replica.partition import Partition
from kraft.wire.declaration import replace
from kraft.wire.schema.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from tests.support.cluster_images import ORDERS
from tests.support.server.replicas import WALL_MS, Broker, append_to, batch, fetched, lead

ORDERS_0 = DescribeLogDirsPartition(partition_index=0, partition_size=1, offset_lag=1, is_future_key=False)
SHORTAGE = "the disk of /full has 5 bytes free"


def directory(path: str, reason: str = "", *, holds: bool = False, has_failed: bool = False) -> DescribeLogDirsResult:
    return DescribeLogDirsResult(
        error_code=ErrorCode.KAFKA_STORAGE_ERROR if has_failed else ErrorCode.NONE,
        log_dir=path,
        topics=of_orders(ORDERS_0) if holds else (),
        reason=reason,
    )


def of_orders(*replicas: DescribeLogDirsPartition) -> tuple[DescribeLogDirsTopic, ...]:
    return (DescribeLogDirsTopic(name="orders", partitions=replicas),)


FULL = [directory("/full", SHORTAGE, holds=True), directory("/other")]
SOUND = [directory("/full", holds=True), directory("/other")]
FAILED = [directory("/other"), directory("/gone", "input/output error", has_failed=True)]


class Asking:
    """Broker 1 leads `orders-0` and asks broker 2, a follower, which answers as the test says."""

    def __init__(self, broker: Broker, **configs: Any) -> None:
        self.broker = broker
        self.partition = broker.open(**configs)
        lead(self.partition)
        self.answer: list[DescribeLogDirsResult] | Exception = SOUND
        self.asked: list[tuple[int, list[str]]] = []
        self.answers_of: dict[int, list[DescribeLogDirsResult]] = {}
        self.hangs = False
        self.inactive: set[int] = set()
        self.lagging = LaggingFollowers(
            broker.partitions, lambda broker_id: broker_id not in self.inactive, self._ask, self
        )

    def monotonic_ms(self) -> int:
        return self.broker.now_ms

    def wall_ms(self) -> int:
        return WALL_MS + self.broker.now_ms

    async def _ask(self, broker_id: BrokerId, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
        topics = request.topics or ()
        self.asked.append((broker_id, [f"{topic.topic}-{each}" for topic in topics for each in topic.partitions]))
        if self.hangs:
            await asyncio.Event().wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return DescribeLogDirsResponse(results=tuple(self.answers_of.get(broker_id, self.answer)))

    def append(self) -> None:
        append_to(self.partition, batch("a"), -1)
        self.broker.sync()

    async def pass_seconds(self, seconds: int) -> None:
        for _ in range(seconds):
            self.broker.now_ms += 1_000
            await asyncio.sleep(1)

    def waits(self) -> str:
        return self.lagging.awaited_by_produce(self.partition, Offset(self.partition.log.log_end_offset))


@pytest.fixture
def asking(tmp_path: Path) -> Asking:
    return Asking(Broker(tmp_path))


@pytest.fixture
def logged() -> Iterator[list[Any]]:
    with capture_logs() as events:
        yield events


@asynccontextmanager
async def running(asking: Asking) -> AsyncIterator[None]:
    task = asyncio.create_task(asking.lagging.run())
    # The first question is in the middle of a second.
    await asyncio.sleep(0.5)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            # It has failed.
            task.result()


async def test_nobody_is_asked_while_every_replica_has_everything(asking: Asking) -> None:
    asking.append()
    fetched(asking.partition, 1)
    async with running(asking):
        await asking.pass_seconds(60)
    assert asking.asked == []


async def test_a_follower_on_a_full_disk_is_logged_once_with_its_directory_and_the_time(
    asking: Asking, logged: list[Any]
) -> None:
    fetched(asking.partition, 0)
    asking.answer = FULL
    async with running(asking):
        asking.append()
        await asking.pass_seconds(10)
        asking.answer = [directory("/full", "the disk of /full has 4 bytes free", holds=True), directory("/other")]
        await asking.pass_seconds(10)
        asking.answer = SOUND
        await asking.pass_seconds(3)
        fetched(asking.partition, 1)
        await asking.pass_seconds(10)
    assert {broker_id for broker_id, _ in asking.asked} == {2}
    assert len(asking.asked) <= 13, "at most every other second"
    begun, over = logged
    assert begun == {
        "event": "follower stopped storing records",
        "log_level": "warning",
        "broker": 2,
        "directory": "/full",
        "reason": SHORTAGE,
        "partition": "orders-0",
        "partitions": 1,
        "lagging_partitions": 1,
        "lagging_since": "2023-11-14T22:13:20.000Z",
    }
    assert (over["event"], over["broker"], over["directory"]) == ("follower resumed storing records", 2, "/full")


# Of a directory that has failed, its broker tells the controller.
@pytest.mark.parametrize(("answer", "proposed"), [(FULL, [[1]]), (SOUND, []), (FAILED, [])])
async def test_only_a_follower_without_room_is_proposed_out_of_the_isr_before_its_lag_time_is_over(
    asking: Asking, answer: list[DescribeLogDirsResult], proposed: list[list[int]]
) -> None:
    fetched(asking.partition, 0)
    asking.answer = answer
    async with running(asking):
        asking.append()
        await asking.pass_seconds(4)
    assert [[member.broker_id for member in each.isr] for each in asking.broker.proposals] == proposed


async def test_a_produce_is_told_which_follower_it_waits_for_since_when_and_why(asking: Asking) -> None:
    asking.answer = FULL
    async with running(asking):
        asking.append()
        assert asking.waits() == "waits for broker 2, which has lacked records for 0 s"
        await asking.pass_seconds(4)
        assert asking.waits() == f"waits for broker 2, which has lacked records for 4 s: {SHORTAGE}"
        fetched(asking.partition, 1)
        assert asking.waits() == ""


async def test_a_failed_directory_is_named(asking: Asking, logged: list[Any]) -> None:
    asking.answer = FAILED
    async with running(asking):
        asking.append()
        await asking.pass_seconds(4)
        assert asking.waits().endswith(" 4 s: its log directory /gone has failed: input/output error")
    assert [(each["event"], each["directory"]) for each in logged] == [("follower stopped storing records", "/gone")]


COPY = replace(ORDERS_0, is_future_key=True)


@pytest.mark.parametrize(
    "other",
    [
        directory("/elsewhere", "its disk is full"),
        replace(directory("/next", "its disk is full"), topics=of_orders(COPY)),
    ],
    ids=["holds other replicas", "the replica is being moved there"],
)
async def test_the_trouble_of_a_directory_without_the_lagging_replica_is_no_reason(
    asking: Asking, logged: list[Any], other: DescribeLogDirsResult
) -> None:
    ours = directory("/ours", holds=True)
    async with running(asking):
        asking.append()
        for asking.answer in ([other, ours], [ours, other]):
            await asking.pass_seconds(4)
            assert asking.waits().endswith((" for 4 s", " for 8 s"))
    assert logged == []


async def test_the_end_of_a_trouble_is_logged_also_of_a_follower_that_lags_no_more(
    asking: Asking, logged: list[Any]
) -> None:
    asking.append()
    asking.answer = FULL
    async with running(asking):
        await asking.pass_seconds(4)
        fetched(asking.partition, 1)
        await asking.pass_seconds(4)
        assert [each["event"] for each in logged] == ["follower stopped storing records"]
        asking.answer = SOUND
        await asking.pass_seconds(4)
    assert [each["event"] for each in logged] == [
        "follower stopped storing records",
        "follower resumed storing records",
    ]


async def test_a_reason_that_the_broker_does_not_confirm_any_more_is_not_told(
    asking: Asking, logged: list[Any]
) -> None:
    asking.answer = FULL
    async with running(asking):
        asking.append()
        await asking.pass_seconds(4)
        asking.answer = Unreachable("broker 2", "it is paused")
        await asking.pass_seconds(4)
        assert asking.waits() == "waits for broker 2, which has lacked records for 8 s: it does not answer"
        # This process was paused: nothing that was asked before counts.
        asking.answer = FULL
        await asking.pass_seconds(4)
        assert SHORTAGE in asking.waits()
        asking.broker.now_ms += 60_000
        assert asking.waits() == "waits for broker 2, which has lacked records for 72 s"
    assert [each["event"] for each in logged] == ["follower stopped storing records"]


async def test_a_broker_that_is_fenced_is_not_asked_and_named_as_such(asking: Asking) -> None:
    asking.inactive.add(2)
    async with running(asking):
        asking.append()
        await asking.pass_seconds(4)
        assert asking.waits().endswith(" 4 s: it is fenced or shutting down")
    assert asking.asked == []


async def test_the_reason_is_unknown_of_a_broker_whose_version_does_not_have_the_call(asking: Asking) -> None:
    asking.answer = NotServed("broker 2", "unknown method")
    async with running(asking):
        asking.append()
        await asking.pass_seconds(4)
        assert asking.waits() == "waits for broker 2, which has lacked records for 4 s"


async def test_a_follower_outside_the_isr_is_asked_and_not_waited_for(asking: Asking) -> None:
    asking.answer = FULL
    async with running(asking):
        lead(asking.partition, isr=(1,), partition_epoch=1)
        asking.append()
        await asking.pass_seconds(3)
    assert asking.asked[-1] == (2, ["orders-0"])
    assert asking.waits() == ""


async def test_below_the_minimum_isr_the_replicas_that_it_lacks_are_named(tmp_path: Path) -> None:
    asking = Asking(Broker(tmp_path), min_insync_replicas=2)
    asking.answer = FULL
    async with running(asking):
        asking.append()
        await asking.pass_seconds(3)
        lead(asking.partition, isr=(1,), partition_epoch=1)
        asking.partition.append(batch("b"), 1)
        await asking.pass_seconds(3)
        assert asking.waits() == f"waits for broker 2, which has not been in sync for 6 s: {SHORTAGE}"


async def test_the_leaders_own_disk_is_named_until_it_has_synced(asking: Asking) -> None:
    append_to(asking.partition, batch("a"), -1)
    assert asking.waits() == ("waits for this broker's own disk, and for broker 2, which has lacked records for 0 s")


def several(asking: Asking, count: int) -> list[Partition]:
    """Return partitions that lag, on a full disk."""
    more = [asking.broker.open(TopicPartition("orders", number), ORDERS) for number in range(1, count)]
    replicas = [replace(ORDERS_0, partition_index=number) for number in range(count)]
    asking.answer = [replace(directory("/full", SHORTAGE), topics=of_orders(*replicas)), directory("/other")]
    for each in more:
        lead(each)
    partitions = [asking.partition, *more]
    for each in partitions:
        append_to(each, batch("a"), -1)
    asking.broker.sync()
    return partitions


@pytest.fixture
def _one_partition_per_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lagging_followers, "PARTITIONS_PER_QUESTION_MAX", 1)


@pytest.mark.usefixtures("_one_partition_per_question")
async def test_partitions_beyond_one_question_are_in_the_next_and_all_are_counted(
    asking: Asking, logged: list[Any]
) -> None:
    partitions = several(asking, 2)
    async with running(asking):
        await asking.pass_seconds(8)
        for each in partitions:
            assert asking.lagging.awaited_by_produce(each, Offset(1)).endswith(f" for 8 s: {SHORTAGE}")
    assert [names for _, names in asking.asked] == [["orders-0"], ["orders-1"], ["orders-0"], ["orders-1"]]
    assert (logged[0]["partitions"], logged[0]["lagging_partitions"]) == (1, 2)


@pytest.mark.usefixtures("_one_partition_per_question")
async def test_a_partition_that_was_not_asked_about_lately_has_the_troubles_of_its_broker_as_possible_reasons(
    asking: Asking,
) -> None:
    partitions = several(asking, 8)
    async with running(asking):
        await asking.pass_seconds(6)
        reasons = [asking.lagging.awaited_by_produce(each, Offset(1)).rpartition(" 6 s: ")[2] for each in partitions]
        assert reasons == [SHORTAGE] * 3 + [f"perhaps because {SHORTAGE}"] * 5
        await asking.pass_seconds(8)
        assert asking.lagging.awaited_by_produce(partitions[0], Offset(1)).endswith(f"perhaps because {SHORTAGE}")
        asking.answer = [directory("/full"), directory("/other")]
        await asking.pass_seconds(2)
        waits = {asking.lagging.awaited_by_produce(each, Offset(1)) for each in partitions}
        assert waits == {"waits for broker 2, which has lacked records for 16 s"}, "what is over is no reason"


async def test_a_broker_that_leaves_service_in_trouble_is_logged_and_forgotten(
    asking: Asking, logged: list[Any]
) -> None:
    asking.answer = FULL
    asking.append()
    async with running(asking):
        await asking.pass_seconds(4)
        asking.inactive.add(2)
        await asking.pass_seconds(60)
        asked = len(asking.asked)
        asking.inactive.clear()
        await asking.pass_seconds(4)
        assert len(asking.asked) > asked
    assert [each["event"] for each in logged] == [
        "follower stopped storing records",
        "follower left service",
        "follower stopped storing records",
    ]


async def test_the_answer_of_one_broker_ends_no_trouble_of_another(tmp_path: Path, logged: list[Any]) -> None:
    asking = Asking(Broker(tmp_path))
    lead(asking.partition, replicas=(1, 2, 3), partition_epoch=1)
    asking.answers_of = {2: FULL, 3: [directory("/third", "its disk is full", holds=True)]}
    asking.append()
    async with running(asking):
        await asking.pass_seconds(20)
    assert {broker_id for broker_id, _ in asking.asked} == {2, 3}
    assert sorted((each["event"], each["broker"]) for each in logged) == [
        ("follower stopped storing records", 2),
        ("follower stopped storing records", 3),
    ]


async def test_a_full_directory_that_fails_is_logged_again(asking: Asking, logged: list[Any]) -> None:
    asking.answer = FULL
    asking.append()
    async with running(asking):
        await asking.pass_seconds(4)
        asking.answer = [directory("/full", "input/output error", has_failed=True), directory("/other")]
        await asking.pass_seconds(4)
    assert [each["reason"] for each in logged] == [SHORTAGE, "input/output error"]


async def test_a_reason_of_the_last_lag_is_not_told_in_a_new_one(asking: Asking) -> None:
    asking.answer = FULL
    asking.append()
    async with running(asking):
        await asking.pass_seconds(3)
        assert SHORTAGE in asking.waits()
        asking.answer = SOUND
        await asking.pass_seconds(2)
        asking.answer = Unreachable("broker 2", "it is paused")
        await asking.pass_seconds(2)
        assert asking.waits().endswith("it does not answer")
        fetched(asking.partition, 1)
        await asking.pass_seconds(1)
        asking.append()
        assert asking.waits() == "waits for broker 2, which has lacked records for 1 s"


async def test_a_follower_that_hangs_has_one_question_at_a_time(asking: Asking) -> None:
    asking.append()
    asking.hangs = True
    async with running(asking):
        await asking.pass_seconds(20)
    assert len(asking.asked) == 1
