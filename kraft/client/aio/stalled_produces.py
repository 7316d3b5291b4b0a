"""Asks leaders that have not answered a produce for some time what they wait for.

Without it, the error of records that a leader cannot replicate would say that there was no response, and no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from kraft.client.cluster.connections import Connections
from kraft.client.sans_io.send_queue import Awaited
from kraft.model.awaited_replicas import AwaitingPartition, DescribeAwaitedReplicasRequest
from kraft.model.errors import Refusal
from kraft.model.ids import TopicPartition
from kraft.rpc.calls import DESCRIBE_AWAITED_REPLICAS
from kraft.rpc.peers import Unreachable

PERIOD_MS: Final = 1_000
ANSWER_MAX_S: Final = 1.0
PARTITIONS_PER_QUESTION_MAX: Final = 100


class StalledProduces:
    """Has at most one question to each leader at a time. A leader that does not answer it, because its version does not
    know the call or for another reason, is asked again later.
    """

    def __init__(self, connections: Connections, explained: Callable[[TopicPartition, Awaited], None]) -> None:
        self._connections = connections
        self._explained = explained
        self._asked: dict[str, tuple[int, asyncio.Task[None]]] = {}
        """For each leader the time of the latest question, and its task."""
        self._passed_over: dict[str, int] = {}
        """For each leader how many partitions come before those of the next question, which has some of many."""

    def ask(self, leader: str, partitions: Sequence[TopicPartition], now_ms: int) -> None:
        """Ask the leader about its oldest unanswered request, unless that was done a short time ago."""
        asked_ms, task = self._asked.get(leader, (now_ms - PERIOD_MS, None))
        if now_ms - asked_ms < PERIOD_MS or (task is not None and not task.done()):
            return
        first = self._passed_over.get(leader, 0)
        first = first if first < len(partitions) else 0
        self._passed_over[leader] = end = first + PARTITIONS_PER_QUESTION_MAX
        question = self._question(leader, partitions[first:end], now_ms)
        self._asked[leader] = now_ms, asyncio.get_running_loop().create_task(question, name=f"question to {leader}")

    async def close(self) -> None:
        tasks = [task for _, task in self._asked.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _question(self, leader: str, partitions: Sequence[TopicPartition], now_ms: int) -> None:
        names = [AwaitingPartition(topic=each.topic, partition=each.partition) for each in partitions]
        request = DescribeAwaitedReplicasRequest(partitions=names)
        try:
            response = await self._connections.peer(leader).call(DESCRIBE_AWAITED_REPLICAS, request, ANSWER_MAX_S)
        except (Unreachable, Refusal):
            # What it said before expires soon.
            return
        for partition, result in zip(partitions, response.partitions, strict=False):
            self._explained(partition, Awaited(leader, result.awaited, now_ms))
