"""The version of a request: the highest that both ends have and that loses nothing."""

from __future__ import annotations

import pytest

from kraft.client.kafka.versions import lost_field, ranges_of, version_of
from kraft.metadata.metadata_requests import metadata_of
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.declaration import ZERO_UUID, Message
from kraft.wire.schema.api_versions import ApiVersion
from kraft.wire.schema.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kraft.wire.schema.describe_cluster import DescribeClusterRequest
from kraft.wire.schema.find_coordinator import FindCoordinatorRequest
from kraft.wire.schema.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kraft.wire.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData


def produced(name: str = "a") -> ProduceRequest:
    partition = PartitionProduceData(index=0, records=b"")
    return ProduceRequest(acks=1, timeout_ms=1, topic_data=(TopicProduceData(name=name, partition_data=(partition,)),))


def all_offsets() -> OffsetFetchRequest:
    return OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=None),))


def fenced_too(wanted: bool) -> DescribeClusterRequest:
    return DescribeClusterRequest(include_cluster_authorized_operations=False, include_fenced_brokers=wanted)


@pytest.mark.parametrize(
    ("request_", "theirs", "expected"),
    [
        (metadata_of(["a"]), (0, 99), 13),
        (metadata_of(["a"]), (0, 9), 9),
        # From version 13 on topics have ids only.
        (produced(), (0, 13), 12),
        (produced(name=""), (0, 13), 13),
        # From version 10 on the answer has ids only.
        (all_offsets(), (0, 10), 9),
        # Before version 2 fenced brokers cannot be asked for.
        (fenced_too(False), (0, 1), 1),
        (fenced_too(True), (0, 9), 2),
    ],
)
def test_the_highest_version_that_says_all_is_chosen(request_: Message, theirs: tuple[int, int], expected: int) -> None:
    first, last = theirs
    served = ranges_of([ApiVersion(api_key=type(request_).message_key, min_version=first, max_version=last)])
    assert version_of(request_, served) == expected


@pytest.mark.parametrize(
    ("request_", "theirs", "text"),
    [
        (fenced_too(True), (0, 1), "the broker has versions 0-1 of DescribeCluster, which cannot say include_fenced"),
        (produced(), (13, 13), "which cannot say name"),
        (produced(), (14, 20), "the broker has versions 14-20 of Produce, and this client 3-13"),
        (FindCoordinatorRequest(key_type=0, coordinator_keys=("a",)), (0, 3), "cannot say coordinator_keys"),
    ],
)
def test_a_broker_that_would_understand_less_is_not_asked(
    request_: Message, theirs: tuple[int, int], text: str
) -> None:
    first, last = theirs
    served = ranges_of([ApiVersion(api_key=type(request_).message_key, min_version=first, max_version=last)])
    with pytest.raises(Refusal, match=text) as refused:
        version_of(request_, served)
    assert refused.value.error_code is ErrorCode.UNSUPPORTED_VERSION


def test_a_broker_without_the_api_is_not_asked() -> None:
    with pytest.raises(Refusal, match="the broker does not have Produce"):
        version_of(produced(), {})


def test_what_only_grpc_says_is_no_loss() -> None:
    owned = TopicPartitions(topic_id=ZERO_UUID, partitions=(0,), topic_name="a")
    heartbeat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1, topic_partitions=(owned,))
    assert lost_field(heartbeat, 1) is None
