"""What a broker in memory says that it waits for, which the test sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.model.awaited_replicas import (
    AwaitedReplicas,
    DescribeAwaitedReplicasRequest,
    DescribeAwaitedReplicasResponse,
)
from kraft.rpc.peers import NotServed

if TYPE_CHECKING:
    from tests.support.client.fake_cluster import FakeBroker


class FakeWaits:
    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker

    def describe_awaited_replicas(self, request: DescribeAwaitedReplicasRequest) -> DescribeAwaitedReplicasResponse:
        broker = self._broker
        if broker.is_of_earlier_version:
            raise NotServed(broker.address, "its version does not know this call")
        return DescribeAwaitedReplicasResponse(
            partitions=[
                AwaitedReplicas(topic=each.topic, partition=each.partition, awaited=broker.awaited)
                for each in request.partitions
            ]
        )
