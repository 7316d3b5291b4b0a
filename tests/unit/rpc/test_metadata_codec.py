from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.metadata.acls import acl_record
from kraft.metadata.records import (
    AclAdded,
    AclRemoved,
    BrokerConfigSet,
    BrokerEpochsUsed,
    BrokerFenced,
    BrokerShuttingDown,
    BrokerUnfenced,
    BrokerUnregistered,
    ClientMetricsConfigSet,
    ClientQuotaSet,
    ClusterInitialised,
    FeatureLevelSet,
    GroupConfigSet,
    MetadataRecord,
    MetadataTransactionAborted,
    MetadataTransactionBegun,
    MetadataTransactionEnded,
    OperatorFenceSet,
    PartitionChanged,
    PartitionCreated,
    ProducerIdsAllocated,
    QuotaEntity,
    RegisterBroker,
    ScramCredentialRemoved,
    ScramCredentialSet,
    TopicConfigSet,
    TopicCreated,
    TopicDeleted,
    UnknownUsersKeySet,
)
from kraft.model.endpoint import Endpoint
from kraft.model.errors import Corruption
from kraft.model.features import FeatureRange
from kraft.model.ids import BrokerEpoch, BrokerId, DirectoryId, LeaderEpoch, PartitionEpoch, ProducerId, TopicId
from kraft.rpc.metadata_codec import decode_records, encode_records
from kraft.rpc.pb import metadata_pb2
from tests.support.acl_entries import DENY, PREFIXED, entry

TOPIC_ID = TopicId(UUID(int=9))

ONE_OF_EACH: list[MetadataRecord] = [
    ClusterInitialised(cluster_id="kJ2Yk0mVT0ma0wV2Yk0mVQ"),
    RegisterBroker(
        broker_id=BrokerId(1),
        incarnation_id=UUID(int=1),
        broker_epoch=BrokerEpoch(1),
        endpoints=[Endpoint(listener="GRPC", host="localhost", port=9094)],
        rack="",
        directory_ids=[DirectoryId(UUID(int=2))],
        features=[FeatureRange(feature="metadata.version", min_level=1, max_level=2)],
    ),
    BrokerUnfenced(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(1)),
    BrokerFenced(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(1)),
    BrokerShuttingDown(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(1)),
    OperatorFenceSet(broker_id=BrokerId(1), fenced=True),
    BrokerUnregistered(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(1)),
    BrokerEpochsUsed(next_broker_epoch=BrokerEpoch(2)),
    FeatureLevelSet(feature="metadata.version", level=2),
    BrokerConfigSet(broker="", key="log.retention.ms", value="5"),
    BrokerConfigSet(broker="1", key="log.retention.ms", value=None),
    GroupConfigSet(group_id="billing", key="consumer.session.timeout.ms", value="50000"),
    GroupConfigSet(group_id="billing", key="consumer.session.timeout.ms", value=None),
    ClientMetricsConfigSet(name="javas", key="interval.ms", value="5000"),
    ClientMetricsConfigSet(name="javas", key="interval.ms", value=None),
    ClientQuotaSet(
        entity=[QuotaEntity(entity_type="client-id", name=None), QuotaEntity(entity_type="user", name="anna")],
        key="producer_byte_rate",
        value=1024.0,
    ),
    UnknownUsersKeySet(key=b"key"),
    ScramCredentialSet(
        user="anna", mechanism="SCRAM-SHA-256", salt=b"s", iterations=4_096, stored_key=b"k", server_key=b"l"
    ),
    ScramCredentialRemoved(user="anna", mechanism="SCRAM-SHA-256"),
    acl_record(AclAdded, entry("orders", host="10.0.0.1")),
    acl_record(AclRemoved, entry("ord", permission=DENY, pattern_type=PREFIXED)),
    TopicCreated(topic="orders", topic_id=TOPIC_ID),
    PartitionCreated(
        topic_id=TOPIC_ID,
        partition=0,
        replicas=[BrokerId(1)],
        isr=[BrokerId(1)],
        leader=BrokerId(1),
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
    ),
    PartitionChanged(
        topic_id=TOPIC_ID,
        partition=0,
        isr=[BrokerId(1)],
        leader=BrokerId(-1),
        leader_epoch=LeaderEpoch(1),
        partition_epoch=PartitionEpoch(1),
        elr=[BrokerId(2)],
        last_known_elr=[BrokerId(3)],
    ),
    TopicConfigSet(topic_id=TOPIC_ID, key="segment.bytes", value="1048576"),
    TopicConfigSet(topic_id=TOPIC_ID, key="segment.bytes", value=None),
    TopicDeleted(topic_id=TOPIC_ID),
    ProducerIdsAllocated(next_producer_id=ProducerId(1_000)),
    MetadataTransactionBegun(),
    MetadataTransactionEnded(),
    MetadataTransactionAborted(),
]


def test_every_kind_of_record_comes_back_as_it_was_written_and_in_its_place() -> None:
    kinds = {field.name for field in metadata_pb2.MetadataRecord.DESCRIPTOR.oneofs_by_name["record"].fields}
    assert len({type(record) for record in ONE_OF_EACH}) == len(kinds)
    assert decode_records(encode_records(ONE_OF_EACH), 1) == ONE_OF_EACH


def test_no_records_are_no_bytes() -> None:
    assert encode_records([]) == b""
    assert decode_records(b"", 1) == []


def test_a_record_of_a_later_version_is_corruption_that_names_the_entry() -> None:
    entry = metadata_pb2.MetadataRecords(records=[metadata_pb2.MetadataRecord()])
    with pytest.raises(Corruption, match=r"metadata log at byte 17: .*unknown type"):
        decode_records(entry.SerializeToString(), 17)


def test_an_id_of_the_wrong_length_is_corruption() -> None:
    record = metadata_pb2.MetadataRecord(topic_deleted=metadata_pb2.TopicDeleted(topic_id=b"abc"))
    with pytest.raises(Corruption, match="must have 16 bytes, not 3"):
        decode_records(metadata_pb2.MetadataRecords(records=[record]).SerializeToString(), 1)


@given(st.binary(max_size=200), st.integers(0, 1_000), st.binary(min_size=1, max_size=3))
def test_any_bytes_are_records_or_corruption(noise: bytes, position: int, patch: bytes) -> None:
    whole = encode_records(ONE_OF_EACH)
    position %= len(whole)
    for data in (noise, whole[:position] + patch + whole[position + len(patch) :]):
        try:
            found = decode_records(data, 1)
        except Corruption:
            continue
        assert decode_records(encode_records(found), 1) == found


@given(st.integers(0, 400))
def test_a_torn_entry_is_never_taken_for_the_whole_one(cut: int) -> None:
    whole = encode_records(ONE_OF_EACH)
    if cut >= len(whole):
        return
    try:
        assert decode_records(whole[:cut], 1) != ONE_OF_EACH
    except Corruption:
        return


def test_a_partition_change_that_was_written_before_replicas_could_change_leaves_them() -> None:
    message = metadata_pb2.MetadataRecords()
    old = message.records.add().partition_changed
    old.topic_id, old.partition, old.leader, old.leader_epoch, old.partition_epoch = TOPIC_ID.bytes, 1, 2, 3, 4
    old.isr.extend([2, 1])
    (record,) = decode_records(message.SerializeToString(), 7)
    assert isinstance(record, PartitionChanged)
    assert (record.isr, record.replicas, record.adding_replicas, record.removing_replicas) == ([2, 1], [], [], [])
