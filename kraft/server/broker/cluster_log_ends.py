"""Where the logs of partitions end, whichever broker leads them: a group is coordinated by any of the brokers."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import structlog

from kraft.metadata.image import CurrentImage
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId, Offset, TopicPartition
from kraft.model.list_offsets import LATEST_TIMESTAMP
from kraft.rpc.calls import LIST_OFFSETS
from kraft.rpc.peers import Unreachable
from kraft.server.broker.other_brokers import OtherBrokers
from kraft.server.loop.turns import Turns
from kraft.server.replica.partitions import Partitions
from kraft.wire.schema.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

log = structlog.get_logger()

ANSWER_MAX_S: Final = 5.0

PARTITIONS_PER_REQUEST: Final = 2_000

AT_ONCE: Final = 500
"""Partitions looked up before other tasks have their turn."""

Ends = list[tuple[TopicPartition, Offset]]


class ClusterLogEnds:
    def __init__(self, broker_id: BrokerId, image: CurrentImage, partitions: Partitions, brokers: OtherBrokers) -> None:
        self._broker_id = broker_id
        self._image = image
        self._partitions = partitions
        self._brokers = brokers

    async def ask(self, wanted: Sequence[TopicPartition]) -> Ends:
        """Return the high watermarks of partitions. Left out are those of deleted topics, and those whose leader is
        away or does not answer in time.
        """
        turns, ends = Turns(AT_ONCE), Ends()
        elsewhere = defaultdict[BrokerId, list[TopicPartition]](list)
        for each in wanted:
            held = self._partitions.find_by_name(each.topic, each.partition)
            if held is not None and held.leader is not None:
                ends.append((each, held.high_watermark))
            elif (leader := self._leader_of(each)) is not None and leader != self._broker_id:
                elsewhere[leader].append(each)
            await turns.done()
        for found in await asyncio.gather(*(self._ask_leader(leader, led) for leader, led in elsewhere.items())):
            ends += found
        return ends

    def _leader_of(self, partition: TopicPartition) -> BrokerId | None:
        topic = self._image().topic(partition.topic)
        state = None if topic is None else topic.partitions.get(partition.partition)
        return state.leader if state is not None and state.has_leader else None

    async def _ask_leader(self, leader: BrokerId, led: Sequence[TopicPartition]) -> Ends:
        turns, ends = Turns(AT_ONCE), Ends()
        for start in range(0, len(led), PARTITIONS_PER_REQUEST):
            asked = led[start : start + PARTITIONS_PER_REQUEST]
            try:
                peer = self._brokers.peer(leader)
                request = ListOffsetsRequest(replica_id=-1, topics=_topics(asked))
                response = await peer.call(LIST_OFFSETS, request, ANSWER_MAX_S)
            except (Unreachable, Refusal) as error:
                log.debug("ends of logs not found out", leader=leader, partitions=len(led) - start, reason=str(error))
                break
            for topic in response.topics:
                for each in topic.partitions:
                    if each.error_code == ErrorCode.NONE:
                        ends.append((TopicPartition(topic.name, each.partition_index), Offset(each.offset)))
                    await turns.done()
        return ends


def _topics(partitions: Sequence[TopicPartition]) -> tuple[ListOffsetsTopic, ...]:
    by_topic = defaultdict[str, list[ListOffsetsPartition]](list)
    for each in partitions:
        by_topic[each.topic].append(ListOffsetsPartition(partition_index=each.partition, timestamp=LATEST_TIMESTAMP))
    return tuple(ListOffsetsTopic(name=name, partitions=tuple(asked)) for name, asked in by_topic.items())
