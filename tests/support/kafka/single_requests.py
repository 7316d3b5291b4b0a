"""Single requests to one broker, each on a connection of its own, without a client's caches and retries."""

from __future__ import annotations

from typing import Any, Final

from kraft.model.errors import ErrorCode
from kraft.model.find_coordinator import CoordinatorType
from kraft.wire.api_keys import response_type
from kraft.wire.declaration import Message
from kraft.wire.frame import decode_response
from kraft.wire.schema.find_coordinator import FindCoordinatorRequest
from kraft.wire.schema.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.wire.schema.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.kafka.kafka_connection import Connection

_METADATA_VERSION: Final = 9
_LIST_OFFSETS_VERSION: Final = 7
_FIND_COORDINATOR_VERSION: Final = 4
_LATEST: Final = -1


def response(server: str, request: Message, version: int) -> Any:
    """Raises OSError and AssertionError if there is none."""
    with Connection(server) as connection:
        connection.send(request, version)
        frame = connection.frame()
    assert frame is not None, f"{server} closed the connection"
    return decode_response(response_type(type(request).message_key), version, memoryview(frame))[1]


def end_offsets(servers: str, topic: str, partitions: int) -> dict[int, int] | None:
    """The end of each partition; None if a broker does not name that many, with leaders that lead."""
    by_broker = [_leaders(server, topic) for server in servers.split(",")]
    leaders = by_broker[0]
    if len(leaders) != partitions or any(each != leaders for each in by_broker):
        return None
    ends = {}
    for partition, address in leaders.items():
        wanted = ListOffsetsPartition(partition_index=partition, timestamp=_LATEST)
        request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=topic, partitions=(wanted,)),))
        found = response(address, request, _LIST_OFFSETS_VERSION).topics[0].partitions[0]
        if found.error_code != ErrorCode.NONE:
            return None
        ends[partition] = found.offset
    return ends


def coordinator_id(server: str, key: str, kind: CoordinatorType = CoordinatorType.GROUP) -> int | None:
    """The id of the broker that coordinates the group or transactional id; None if there is none at the moment."""
    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=(key,))
    (found,) = response(server, request, _FIND_COORDINATOR_VERSION).coordinators
    return found.node_id if found.error_code == ErrorCode.NONE else None


def _leaders(server: str, topic: str) -> dict[int, str]:
    """Addresses of the partitions' leaders, as far as the broker knows them."""
    request = MetadataRequest(topics=(MetadataRequestTopic(name=topic),), allow_auto_topic_creation=False)
    described = response(server, request, _METADATA_VERSION)
    addresses = {each.node_id: f"{each.host}:{each.port}" for each in described.brokers}
    (found,) = described.topics
    return {each.partition_index: addresses[each.leader_id] for each in found.partitions if each.leader_id in addresses}
