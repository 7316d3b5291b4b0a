"""DescribeAwaitedReplicas: what acks=all produces wait for at present, in words for errors."""

from __future__ import annotations

from msgspec import Struct


class AwaitingPartition(Struct, frozen=True, kw_only=True):
    topic: str
    partition: int


class DescribeAwaitedReplicasRequest(Struct, frozen=True, kw_only=True):
    partitions: list[AwaitingPartition]


class AwaitedReplicas(Struct, frozen=True, kw_only=True):
    """Begins with "waits for"; empty if nothing is waited for, or if the broker does not lead the partition."""

    topic: str
    partition: int
    awaited: str


class DescribeAwaitedReplicasResponse(Struct, frozen=True, kw_only=True):
    """One result per partition, in the request's order."""

    partitions: list[AwaitedReplicas]
