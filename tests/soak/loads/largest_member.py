"""A member of the consumer protocol, over gRPC, that says as much as a broker takes: topic names, and partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import UUID

import grpc

from kraft.coordinator.consumer.checks import TOPIC_NAMES_MAX
from kraft.model.errors import ErrorCode
from kraft.rpc.group_calls import CONSUMER_GROUP_HEARTBEAT as HEARTBEAT
from kraft.testing import Cluster
from kraft.wire.schema.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tests.support.largest_calls import ELEMENTS

DEADLINE_S = 60.0


class LargestMember:
    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._epoch = 0

    def loads(self) -> Iterator[tuple[str, Callable[[], str]]]:
        yield "groups: a member joins with the most topic names (gRPC)", lambda: self._send(names=0, owned=0)
        yield "groups: it subscribes to others (gRPC)", lambda: self._send(names=TOPIC_NAMES_MAX)
        yield "groups: it owns the most partitions (gRPC)", lambda: self._send(owned=ELEMENTS)
        yield "groups: it leaves (gRPC)", self._leave

    def _leave(self) -> str:
        self._epoch = -1
        return self._send()

    def _send(self, names: int | None = None, owned: int | None = None) -> str:
        """Send a heartbeat with the names from this number on, and so many partitions."""
        first = names or 0
        request = ConsumerGroupHeartbeatRequest(
            group_id="largest",
            member_id="member",
            member_epoch=self._epoch,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=None if names is None else self._names(first),
            topic_partitions=None if owned is None else _partitions(owned),
        )
        with grpc.insecure_channel(self._cluster.bootstrap_servers) as channel:
            data = HEARTBEAT.request.serialize(HEARTBEAT.request.to_message(request))
            send: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(HEARTBEAT.method)
            try:
                answer = send(data, timeout=DEADLINE_S)
            except grpc.RpcError as error:
                return f"{error.code().name}: {str(error.details())[:80]}"
        response = HEARTBEAT.response.to_value(HEARTBEAT.response.parse(answer))
        self._epoch = response.member_epoch
        return f"{ErrorCode(response.error_code).name}, epoch {self._epoch}"

    def _names(self, first: int) -> tuple[str, ...]:
        """Return the topic that exists, and as many others as a member may name."""
        return (self._topic, *(f"{self._topic}-{number}" for number in range(first, first + TOPIC_NAMES_MAX - 1)))


def _partitions(count: int) -> tuple[TopicPartitions, ...]:
    return (TopicPartitions(topic_id=UUID(int=1), partitions=tuple(range(count))),) if count else ()
