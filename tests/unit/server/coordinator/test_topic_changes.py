"""Changes of topics reach the shards of a broker one after the other."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from kraft.coordinator.groups.commands import DeleteTopicOffsets
from kraft.metadata.image import EMPTY_IMAGE
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.coordinator.group_kind import GroupHost
from kraft.server.coordinator.topic_changes import TopicChanges
from tests.support.cluster_images import cluster, with_topic
from tests.support.server.replicas import InlineExecutor
from tests.support.virtual_time import LoopClock

SHARDS = 50


class Shard:
    """Notes in which turn of the loop it was asked to delete offsets."""

    def __init__(self, turns: list[int]) -> None:
        self._turns = turns
        self.asked_in: list[int] = []

    def running(self) -> Any:
        raise Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "loading")

    async def decide(self, command: DeleteTopicOffsets, timeout_s: float) -> None:
        assert set(command.topics) == {"orders"}
        self.asked_in.append(self._turns[0])


async def test_no_two_shards_begin_to_delete_the_offsets_of_a_topic_in_one_turn() -> None:
    turns = [0]
    shards = [Shard(turns) for _ in range(SHARDS)]
    changes = TopicChanges(lambda: EMPTY_IMAGE, lambda: 1, LoopClock(), InlineExecutor(), lambda reason: None)
    before = with_topic(cluster(1), [1])
    changes.metadata_applied([cast(GroupHost, shard) for shard in shards], before, cluster(1))
    for _ in range(4 * SHARDS):
        await asyncio.sleep(0)
        turns[0] += 1
    asked = [turn for shard in shards for turn in shard.asked_in]
    assert len(asked) == SHARDS
    assert len(set(asked)) == SHARDS
    await changes.close()
