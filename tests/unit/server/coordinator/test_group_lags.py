"""What a coordinator tells of the lag of its groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from kraft.coordinator.consumer_protocol import encode_assignment
from kraft.model.errors import ErrorCode
from kraft.model.group_lags import UNKNOWN, DescribeGroupLagsRequest, GroupLag
from kraft.model.ids import Offset, TopicPartition
from kraft.model.request_context import RequestContext
from kraft.server.coordinator import group_lags
from kraft.server.coordinator.group_lags import GroupLags
from kraft.server.handlers.group_lags import GroupLagsHandler
from kraft.wire.schema.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.server.group_broker import CONTEXT, GROUP, GroupBroker, syncing
from tests.support.server.replicas import follow, lead, settle
from tests.support.turn_counter import TurnCounter
from tests.support.virtual_time import LoopClock

NEWEST = RequestContext(version=9)


class Looks:
    """The lags of a broker's groups, with logs that end where the test says."""

    def __init__(self, broker: GroupBroker) -> None:
        self.ends = {TopicPartition("orders", 0): 10, TopicPartition("orders", 1): 20}
        self.asked = 0
        self.lags = GroupLags(broker.coordinators, self._ask_for_ends, lambda: broker.image, LoopClock())
        self._handler = GroupLagsHandler(self.lags)

    async def _ask_for_ends(self, wanted: Sequence[TopicPartition]) -> Iterable[tuple[TopicPartition, Offset]]:
        self.asked += 1
        return [(each, Offset(self.ends[each])) for each in wanted if each in self.ends]

    async def told(self, *group_ids: str) -> list[GroupLag]:
        return (await self._handler.handle(DescribeGroupLagsRequest(group_ids=list(group_ids)))).groups


async def commit(broker: GroupBroker, *offsets: int, group_id: str = GROUP) -> None:
    """Commit these offsets of the partitions of `orders`."""
    partitions = (
        OffsetCommitRequestPartition(partition_index=number, committed_offset=offset, committed_metadata="")
        for number, offset in enumerate(offsets)
    )
    topic = OffsetCommitRequestTopic(name="orders", partitions=tuple(partitions))
    request = OffsetCommitRequest(group_id=group_id, member_id="", topics=(topic,))
    await broker.handlers.offsets.commit(request, NEWEST)


async def test_a_group_is_told_with_what_was_seen_of_it(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        looks = Looks(broker)
        await commit(broker, 10, 14)
        await looks.lags.look()
        (told,) = await looks.told(GROUP)
        assert (told.error_code, told.state) == (ErrorCode.NONE, "OK")
        assert [(each.partition, each.lag, each.behind_ms, each.completeness) for each in told.partitions] == [
            (0, 0, 0, 0.1),
            (1, 6, 0, 0.1),
        ]
        await commit(broker, 10, 16)
        await looks.lags.look()
        (told,) = await looks.told(GROUP)
        assert [(each.offset, each.lag) for each in told.partitions[1].commits] == [(14, 6), (16, 4)]


async def test_before_the_first_look_the_offsets_are_all_that_is_known(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        looks = Looks(broker)
        await commit(broker, 7)
        ((told,), found) = ((await looks.told(GROUP))[0].partitions, await looks.told())
        assert (told.committed_offset, told.lag, told.behind_ms, told.state) == (7, UNKNOWN, UNKNOWN, "OK")
        assert [each.group_id for each in found] == [GROUP]


async def test_a_group_without_offsets_is_not_found(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        looks = Looks(broker)
        await broker.stable("member-only")
        await broker.join_consumer("reading")
        found = await looks.told("member-only", "reading", "nobody", "nobody")
        assert {(each.error_code, each.state) for each in found} == {(ErrorCode.GROUP_ID_NOT_FOUND, "NOTFOUND")}
        assert [each.error_message for each in found] == [
            "group 'member-only' has committed no offsets",
            "group 'reading' has committed no offsets",
            "there is no group 'nobody'",
        ]


async def test_where_the_shard_is_not_nothing_is_remembered(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        looks = Looks(broker)
        await commit(broker, 7)
        await looks.lags.look()
        follow(broker.partition, epoch=2)
        await settle()
        await looks.lags.look()
        assert looks.asked == 1, "no group reads anything here"
        (told,) = await looks.told(GROUP)
        assert told.error_code == ErrorCode.NOT_COORDINATOR


async def test_a_shard_that_is_loaded_again_has_no_new_commits(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        looks = Looks(broker)
        await commit(broker, 7)
        await looks.lags.look()
        lead(broker.partition, replicas=(1,), epoch=2)
        await settle()
        await looks.lags.look()
        ((told,),) = [each.partitions for each in await looks.told(GROUP)]
        assert [each.offset for each in told.commits] == [7]
        assert told.completeness == 0.1


async def test_a_shard_that_is_gone_is_forgotten_in_turns(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        looks = Looks(broker)
        for number in range(2 * group_lags.AT_ONCE):
            await commit(broker, 1, group_id=f"group-{number}")
        await looks.lags.look()
        follow(broker.partition, epoch=2)
        await settle()
        async with TurnCounter() as counter:
            await looks.lags.look()
        assert counter.turns >= 2


async def test_many_groups_are_looked_at_and_told_of_in_turns(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        looks = Looks(broker)
        count = 3 * group_lags.AT_ONCE
        for number in range(count):
            await commit(broker, 1, group_id=f"group-{number}")
        async with TurnCounter() as counter:
            await looks.lags.look()
        assert counter.turns >= 3
        async with TurnCounter() as counter:
            found = await looks.told()
        assert len(found) == count
        assert counter.turns >= count // group_lags.TOLD_AT_ONCE
        async with TurnCounter() as counter:
            await looks.told(*(each.group_id for each in found))
        assert counter.turns >= count // group_lags.TOLD_AT_ONCE
        async with TurnCounter() as counter:
            await looks.told(*(f"nobody-{number}" for number in range(count)))
        assert counter.turns >= count // group_lags.TOLD_AT_ONCE


async def test_ends_of_many_logs_are_noted_in_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with GroupBroker(tmp_path) as broker:
        looks = Looks(broker)
        await commit(broker, 1, 1)
        await looks.lags.look()
        monkeypatch.setattr(group_lags, "AT_ONCE", 1)
        async with TurnCounter() as counter:
            await looks.lags.look()
        assert counter.turns >= 2, "one for each of the logs, though no commit is new"


async def test_the_readers_of_partitions_are_told_of_named_groups(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        looks, image = Looks(broker), broker.image
        assigned = encode_assignment(frozenset({(image.topic_ids["orders"], 1)}), image, subscription=b"\0\0")
        await commit(broker, 3, 3, group_id="classic")
        await commit(broker, 3, group_id="consumer")
        joined = await broker.join("classic")
        await broker.handlers.classic.sync(syncing("classic", joined.member_id, {joined.member_id: assigned}), CONTEXT)
        await broker.join_consumer("consumer")
        await settle()
        classic, consumer = await looks.told("classic", "consumer")
        assert [(each.owner, each.client_id) for each in classic.partitions] == [("", ""), ("/10.0.0.7", "tester")]
        assert [(each.owner, each.client_id) for each in consumer.partitions] == [("/10.0.0.7", "tester")]
        assert {each.owner for group in await looks.told() for each in group.partitions} == {""}
