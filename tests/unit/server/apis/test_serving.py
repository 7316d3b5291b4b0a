from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path

import pytest

from kraft.model.errors import ErrorCode
from kraft.server.kafka_listener.answering import CloseConnection
from kraft.server.kafka_listener.repeated_refusals import REPEATED_MIN, RepeatedRefusals
from kraft.server.kafka_listener.requests import ConnectionContext, EncodedMessage
from kraft.wire.api_keys import ApiKey
from kraft.wire.schema.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.wire.schema.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kraft.wire.schema.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.support.cluster_images import cluster, with_topic
from tests.support.server.broker_nodes import broker
from tests.unit.server.kafka_listener.apis.listener import answered, versions_of


@pytest.mark.parametrize("version", versions_of(WriteTxnMarkersRequest))
async def test_clients_of_kafkas_listener_may_not_write_markers(tmp_path: Path, version: int) -> None:
    topics = (
        WritableTxnMarkerTopic(name="parcels", partition_indexes=(1, 0)),
        WritableTxnMarkerTopic(name="orders", partition_indexes=(2,)),
    )
    markers = tuple(
        WritableTxnMarker(
            producer_id=producer_id, producer_epoch=2, transaction_result=True, topics=topics, coordinator_epoch=5
        )
        for producer_id in (7, 8)
    )
    request = WriteTxnMarkersRequest(markers=markers)
    api = broker(tmp_path, "fsync", stopped_cleanly=True).apis.kafka_apis("PLAINTEXT")[ApiKey.WRITE_TXN_MARKERS]
    response = await answered(api, request, version, WriteTxnMarkersResponse)
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert [
        (result.producer_id, topic.name, each.partition_index, each.error_code)
        for result in response.markers
        for topic in result.topics
        for each in topic.partitions
    ] == [
        (producer_id, topic, number, refused)
        for producer_id in (7, 8)
        for topic, number in (("parcels", 1), ("parcels", 0), ("orders", 2))
    ]


async def test_a_client_that_only_repeats_a_look_up_at_a_broker_that_does_not_lead_is_disconnected(
    tmp_path: Path,
) -> None:
    made = broker(tmp_path, "fsync", stopped_cleanly=True)
    made.metadata.loader.image = with_topic(cluster(1, 4), [1])
    api = made.apis.kafka_apis("PLAINTEXT")[ApiKey.LIST_OFFSETS]
    wanted = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name="orders", partitions=(wanted,)),))
    call = ConnectionContext(version=7, repeated=RepeatedRefusals())
    count = 0

    async def repeat() -> None:
        nonlocal count
        for _ in range(2 * REPEATED_MIN):
            answer = api(request, call)
            assert isinstance(answer, Awaitable)
            await answer
            count += 1
            await asyncio.sleep(0.2)

    with pytest.raises(CloseConnection, match="ListOffsets was repeated"):
        await repeat()
    assert count == REPEATED_MIN


async def test_a_description_of_all_topics_is_encoded_once_for_each_version(tmp_path: Path) -> None:
    api = broker(tmp_path, "fsync", stopped_cleanly=True).apis.kafka_apis("PLAINTEXT")[ApiKey.METADATA]

    async def described(
        version: int, topics: tuple[MetadataRequestTopic, ...] | None = None, *, with_operations: bool = False
    ) -> object:
        request = MetadataRequest(topics=topics, include_topic_authorized_operations=with_operations)
        answer = api(request, ConnectionContext(version=version))
        assert isinstance(answer, Awaitable)
        return await answer

    first, other = await described(9), await described(8)
    assert await described(9) is first
    assert isinstance(first, EncodedMessage)
    assert isinstance(other, EncodedMessage)
    assert first.body != other.body
    assert await described(9, with_operations=True) is not first
    assert isinstance(await described(9, (MetadataRequestTopic(name="orders"),)), MetadataResponse)
