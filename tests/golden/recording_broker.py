"""A broker for one client, which keeps the frames that the client sends.

One topic with one partition, one group with one member, nothing stored. It uses `kraft.wire` and answers in the
request's version, so it offers every version: clients use the newest that they know.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from uuid import UUID

from kraft.wire.api_keys import ApiKey, request_type
from kraft.wire.api_versions import advertised
from kraft.wire.codec import decode
from kraft.wire.declaration import Message
from kraft.wire.frame import decode_request_header, encode_response
from kraft.wire.schema import (
    api_versions,
    fetch,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
    sync_group,
)
from tests.golden.frame_server import HOST, frame_server

TOPIC: Final = "golden"
TOPIC_ID: Final = UUID(int=0x60_1D)
GROUP: Final = "golden-group"
MEMBER: Final = "member-1"
_NODE: Final = 1
_EMPTY_FETCH_S: Final = 0.05
"""Wait of an empty fetch, so that the client does not fetch without pause."""


class RecordingBroker:
    """The state that connections share."""

    def __init__(self) -> None:
        self.port = 0
        self.frames: dict[tuple[ApiKey, int], list[bytes]] = {}
        """Frames without their sizes, by API and version, in the order of arrival."""

    def answer(self, frame: bytes) -> bytes:
        header, position = decode_request_header(frame)
        api_key, version = ApiKey(header.api_key), header.api_version
        request = decode(request_type(api_key), version, frame, position)
        self.frames.setdefault((api_key, version), []).append(frame)
        response = _ANSWERS[api_key](self, request)
        return b"".join(encode_response(response, version, header.correlation_id))

    def _api_versions(self, _request: Any) -> Message:
        return api_versions.ApiVersionsResponse(error_code=0, api_keys=advertised(_ANSWERS))

    def _metadata(self, _request: Any) -> Message:
        partition = metadata.MetadataResponsePartition(
            error_code=0, partition_index=0, leader_id=_NODE, leader_epoch=0, replica_nodes=(_NODE,), isr_nodes=(_NODE,)
        )
        topic = metadata.MetadataResponseTopic(error_code=0, name=TOPIC, topic_id=TOPIC_ID, partitions=(partition,))
        broker = metadata.MetadataResponseBroker(node_id=_NODE, host=HOST, port=self.port)
        return metadata.MetadataResponse(
            brokers=(broker,), cluster_id="golden-cluster", controller_id=_NODE, topics=(topic,)
        )

    def _produce(self, request: produce.ProduceRequest) -> Message:
        (topic,) = request.topic_data
        partition = produce.PartitionProduceResponse(index=0, error_code=0, base_offset=0, log_start_offset=0)
        answered = produce.TopicProduceResponse(
            name=topic.name, topic_id=topic.topic_id, partition_responses=(partition,)
        )
        return produce.ProduceResponse(responses=(answered,))

    def _fetch(self, request: fetch.FetchRequest) -> Message:
        time.sleep(_EMPTY_FETCH_S)
        return fetch.FetchResponse(
            responses=tuple(
                fetch.FetchableTopicResponse(
                    topic=topic.topic,
                    topic_id=topic.topic_id,
                    partitions=tuple(
                        fetch.PartitionData(
                            partition_index=partition.partition,
                            error_code=0,
                            high_watermark=0,
                            last_stable_offset=0,
                            log_start_offset=0,
                            aborted_transactions=None,
                            records=b"",
                        )
                        for partition in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )

    def _list_offsets(self, _request: Any) -> Message:
        partition = list_offsets.ListOffsetsPartitionResponse(partition_index=0, error_code=0, offset=0, leader_epoch=0)
        return list_offsets.ListOffsetsResponse(
            topics=(list_offsets.ListOffsetsTopicResponse(name=TOPIC, partitions=(partition,)),)
        )

    def _init_producer_id(self, _request: Any) -> Message:
        return init_producer_id.InitProducerIdResponse(error_code=0, producer_id=4000, producer_epoch=3)

    def _find_coordinator(self, request: find_coordinator.FindCoordinatorRequest) -> Message:
        coordinators = tuple(
            find_coordinator.Coordinator(
                key=key, node_id=_NODE, host=HOST, port=self.port, error_code=0, error_message=None
            )
            for key in request.coordinator_keys
        )
        return find_coordinator.FindCoordinatorResponse(
            node_id=_NODE, host=HOST, port=self.port, coordinators=coordinators
        )

    def _join_group(self, request: join_group.JoinGroupRequest) -> Message:
        protocol = request.protocols[0]
        member = join_group.JoinGroupResponseMember(member_id=MEMBER, metadata=protocol.metadata)
        return join_group.JoinGroupResponse(
            error_code=0,
            generation_id=1,
            protocol_type=request.protocol_type,
            protocol_name=protocol.name,
            leader=MEMBER,
            member_id=MEMBER,
            members=(member,),
        )

    def _sync_group(self, request: sync_group.SyncGroupRequest) -> Message:
        assignment = next((each.assignment for each in request.assignments), b"")
        return sync_group.SyncGroupResponse(
            error_code=0,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=assignment,
        )

    def _heartbeat(self, _request: Any) -> Message:
        return heartbeat.HeartbeatResponse(error_code=0)

    def _leave_group(self, _request: Any) -> Message:
        return leave_group.LeaveGroupResponse(error_code=0)

    def _offset_commit(self, request: offset_commit.OffsetCommitRequest) -> Message:
        topics = tuple(
            offset_commit.OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    offset_commit.OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=0)
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
        return offset_commit.OffsetCommitResponse(topics=topics)

    def _offset_fetch(self, _request: Any) -> Message:
        # Nothing was committed: -1, in the old form for one group and in the new one for many.
        old = offset_fetch.OffsetFetchResponsePartition(
            partition_index=0, committed_offset=-1, metadata="", error_code=0
        )
        new = offset_fetch.OffsetFetchResponsePartitions(
            partition_index=0, committed_offset=-1, metadata="", error_code=0
        )
        topic = offset_fetch.OffsetFetchResponseTopics(name=TOPIC, topic_id=TOPIC_ID, partitions=(new,))
        return offset_fetch.OffsetFetchResponse(
            topics=(offset_fetch.OffsetFetchResponseTopic(name=TOPIC, partitions=(old,)),),
            groups=(offset_fetch.OffsetFetchResponseGroup(group_id=GROUP, topics=(topic,)),),
        )


_ANSWERS: Final[dict[ApiKey, Callable[[RecordingBroker, Any], Message]]] = {
    ApiKey.API_VERSIONS: RecordingBroker._api_versions,
    ApiKey.METADATA: RecordingBroker._metadata,
    ApiKey.PRODUCE: RecordingBroker._produce,
    ApiKey.FETCH: RecordingBroker._fetch,
    ApiKey.LIST_OFFSETS: RecordingBroker._list_offsets,
    ApiKey.INIT_PRODUCER_ID: RecordingBroker._init_producer_id,
    ApiKey.FIND_COORDINATOR: RecordingBroker._find_coordinator,
    ApiKey.JOIN_GROUP: RecordingBroker._join_group,
    ApiKey.SYNC_GROUP: RecordingBroker._sync_group,
    ApiKey.HEARTBEAT: RecordingBroker._heartbeat,
    ApiKey.LEAVE_GROUP: RecordingBroker._leave_group,
    ApiKey.OFFSET_COMMIT: RecordingBroker._offset_commit,
    ApiKey.OFFSET_FETCH: RecordingBroker._offset_fetch,
}


@contextmanager
def recording_broker() -> Iterator[RecordingBroker]:
    """Listen until the block ends."""
    broker = RecordingBroker()
    with frame_server(broker.answer) as broker.port:
        yield broker
