"""How far all groups of the cluster are behind, whichever brokers coordinate them."""

from __future__ import annotations

import asyncio
from typing import Final

from kraft.coordinator.group_partition import partition_of
from kraft.metadata.image import CurrentImage
from kraft.metadata.topic_names import OFFSETS_TOPIC
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.group_lags import DescribeGroupLagsRequest, GroupLag
from kraft.model.ids import BrokerId, Offset, TopicPartition
from kraft.rpc.group_calls import DESCRIBE_GROUP_LAGS
from kraft.rpc.peers import Unreachable
from kraft.server.broker.cluster_log_ends import ClusterLogEnds
from kraft.server.broker.other_brokers import OtherBrokers
from kraft.server.handlers.group_lags import GroupLagsHandler, refused_group

ANSWER_MAX_S: Final = 5.0


class ClusterLags:
    """Asks the coordinators. What one of them does not answer in time is refused."""

    def __init__(
        self,
        broker_id: BrokerId,
        image: CurrentImage,
        brokers: OtherBrokers,
        here: GroupLagsHandler,
        log_ends: ClusterLogEnds,
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self._brokers = brokers
        self._here = here
        self._log_ends = log_ends

    @property
    def cluster_id(self) -> str:
        return self._image().cluster_id

    def topics(self) -> list[str]:
        return sorted(self._image().topic_ids)

    def partition_counts(self, group: GroupLag) -> dict[str, int]:
        """Return how many partitions the topics have that the group reads."""
        topics = {each.topic: self._image().topic(each.topic) for each in group.partitions}
        return {name: len(topic.partitions) for name, topic in topics.items() if topic is not None}

    async def log_ends(self, topic: str) -> list[Offset | None] | None:
        """Return the end of each partition, None for one that is not known; None if there is no such topic."""
        found = self._image().topic(topic)
        if found is None:
            return None
        partitions = [TopicPartition(topic, number) for number in sorted(found.partitions)]
        ends = dict(await self._log_ends.ask(partitions))
        return [ends.get(each) for each in partitions]

    async def of_group(self, group_id: str) -> GroupLag:
        """Return the group as its coordinator knows it, or with the error that it was not found out for."""
        coordinator = self._coordinator(group_id)
        if coordinator is None:
            reason = f"{OFFSETS_TOPIC} has no leader for the group"
            return refused_group(group_id, Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, reason))
        try:
            (found,) = await self._ask(coordinator, DescribeGroupLagsRequest(group_ids=[group_id]))
        except (Unreachable, Refusal) as error:
            reason = f"broker {coordinator}: {error}"
            return refused_group(group_id, Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, reason))
        return found

    async def of_all(self) -> list[GroupLag]:
        """Return all groups with committed offsets, sorted.

        Raises Unreachable and Refusal if a coordinator does not answer: without its groups, a list would say that they
        are gone.
        """
        brokers = [each.broker_id for each in self._image().alive_brokers()]
        request = DescribeGroupLagsRequest(group_ids=[])
        answers = await asyncio.gather(*(self._ask(each, request) for each in brokers), return_exceptions=True)
        found = dict[str, GroupLag]()
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
            found.update((each.group_id, each) for each in answer)
        return [found[group_id] for group_id in sorted(found)]

    async def _ask(self, broker_id: BrokerId, request: DescribeGroupLagsRequest) -> list[GroupLag]:
        if broker_id == self._broker_id:
            return (await self._here.handle(request)).groups
        return (await self._brokers.peer(broker_id).call(DESCRIBE_GROUP_LAGS, request, ANSWER_MAX_S)).groups

    def _coordinator(self, group_id: str) -> BrokerId | None:
        topic = self._image().topic(OFFSETS_TOPIC)
        if topic is None:
            return None
        state = topic.partitions[partition_of(group_id, len(topic.partitions))]
        return state.leader if state.has_leader else None
