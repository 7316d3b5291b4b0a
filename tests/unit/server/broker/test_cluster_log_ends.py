"""Where logs end, whichever brokers lead them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from kraft.model.ids import BrokerId, TopicPartition
from kraft.rpc.peers import Unreachable
from kraft.server.broker.cluster_log_ends import ClusterLogEnds
from kraft.server.broker.other_brokers import OtherBrokers
from kraft.wire.schema.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.support.cluster_images import ORDERS, cluster, with_topic
from tests.support.server.replicas import Broker, follow, lead

HERE, THERE, AWAY = BrokerId(1), BrokerId(2), BrokerId(3)


class Others:
    """Broker 2, which answers, and broker 3, which does not."""

    def __init__(self, answer: ListOffsetsResponse) -> None:
        self._answer = answer
        self.asked: list[BrokerId] = []

    def peer(self, broker_id: BrokerId) -> Any:
        self.asked.append(broker_id)
        return self

    async def call(self, _: object, request: object, __: float) -> ListOffsetsResponse:
        assert isinstance(request, ListOffsetsRequest)
        if self.asked[-1] == AWAY:
            raise Unreachable("host-3:9094", "no answer")
        return self._answer


async def test_the_end_of_a_log_is_known_by_its_leader_only(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    held = broker.open(topic_id=ORDERS)
    image = with_topic(cluster(1, 2, 3), [2, 1], [3], [1])
    answer = ListOffsetsPartitionResponse(partition_index=0, error_code=0, timestamp=-1, offset=9, leader_epoch=0)
    topic = ListOffsetsTopicResponse(name="orders", partitions=(answer,))
    others = Others(ListOffsetsResponse(topics=(topic,)))
    ends = ClusterLogEnds(HERE, lambda: image, broker.partitions, cast(OtherBrokers, others))
    wanted = [TopicPartition("orders", number) for number in range(4)]
    follow(held, epoch=1)
    assert await ends.ask(wanted) == [(wanted[0], 9)], "what does not answer, or is not there, is left out"
    assert others.asked == [THERE, AWAY]
    lead(held, replicas=(1,), epoch=2)
    assert await ends.ask(wanted[:1]) == [(wanted[0], 0)]
