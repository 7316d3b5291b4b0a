from __future__ import annotations

import struct
import tracemalloc
from itertools import product
from random import Random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft.wire.codec import ELEMENTS_MAX, decode, encode
from kraft.wire.declaration import Message
from kraft.wire.decoder import decoder_source
from kraft.wire.errors import ProtocolError
from kraft.wire.schema.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kraft.wire.schema.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
)
from kraft.wire.schema.describe_groups import DescribeGroupsRequest
from kraft.wire.schema.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, LeaderIdAndEpoch, PartitionData
from kraft.wire.schema.heartbeat import HeartbeatRequest
from kraft.wire.schema.join_group import JoinGroupRequest
from kraft.wire.schema.metadata import MetadataRequest, MetadataRequestTopic
from kraft.wire.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.wire.varint import encode_uvarint
from tests.support.random_messages import message_versions, random_message
from tests.unit.wire.declared import Inner, Tagged
from tests.unit.wire.strategies import structs

EVERY_MESSAGE_VERSION = list(message_versions())


def joined(message: Message, version: int) -> bytes:
    return b"".join(encode(message, version))


def produce_request(records: bytes | memoryview | None) -> ProduceRequest:
    partition = PartitionProduceData(index=7, records=records)
    topic = TopicProduceData(name="orders", partition_data=(partition,))
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=(topic,))


# --- the bytes ---------------------------------------------------------------------------------------------------


def test_a_message_is_its_fields_one_after_the_other() -> None:
    assert joined(produce_request(b"batch"), 3).hex(" ") == (
        "ff ff  ff ff  00 00 75 30  00 00 00 01  00 06 6f 72 64 65 72 73  00 00 00 01  00 00 00 07"
        "  00 00 00 05 62 61 74 63 68"
    ).replace("  ", " ")


def test_a_flexible_version_has_compact_lengths_and_tagged_fields() -> None:
    assert joined(produce_request(b"batch"), 9).hex(" ") == (
        "00  ff ff  00 00 75 30  02  07 6f 72 64 65 72 73  02  00 00 00 07  06 62 61 74 63 68  00  00  00"
    ).replace("  ", " ")


def test_a_tagged_field_is_written_only_when_it_is_not_the_default() -> None:
    def written(leader: LeaderIdAndEpoch) -> bytes:
        partition = PartitionData(
            partition_index=0,
            error_code=6,
            high_watermark=-1,
            aborted_transactions=None,
            records=None,
            current_leader=leader,
        )
        return joined(FetchResponse(responses=(FetchableTopicResponse(topic="t", partitions=(partition,)),)), 12)

    plain = written(LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1))
    tagged = written(LeaderIdAndEpoch(leader_id=2, leader_epoch=5))
    # A count, the tag, the size, the struct with no tagged fields of its own.
    assert tagged == plain[:-3] + bytes.fromhex("01 01 09 00000002 00000005 00") + plain[-2:]


def test_a_struct_may_be_null() -> None:
    absent = ConsumerGroupHeartbeatResponse(error_code=0, member_epoch=1, heartbeat_interval_ms=5000)
    present = ConsumerGroupHeartbeatResponse(
        error_code=0, member_epoch=1, heartbeat_interval_ms=5000, assignment=Assignment(topic_partitions=())
    )
    assert joined(absent, 0)[-2:] == bytes.fromhex("ff 00")
    assert joined(present, 0)[-4:] == bytes.fromhex("01 01 00 00")
    assert decode(ConsumerGroupHeartbeatResponse, 0, joined(present, 0)) == present


@pytest.mark.parametrize(
    ("message", "written"),
    [
        # A byte precedes the struct, as elsewhere, but here it is 0 for null.
        (Tagged(inner=None), "01 00 01 00"),
        (Tagged(inner=Inner(name="a")), "01 00 04 01 02 61 00"),
        (Tagged(inner=Inner(name="")), "00"),
        (Tagged(inner=Inner(name=""), other=Inner(name=""), number=9), "02 01 03 01 01 00 02 02 00 09"),
    ],
)
def test_a_struct_in_a_tagged_field_may_be_null(message: Tagged, written: str) -> None:
    assert joined(message, 0) == bytes.fromhex(written)
    assert decode(Tagged, 0, bytes.fromhex(written)) == message


def test_null_may_be_written_for_a_tagged_field_that_is_null_when_absent() -> None:
    assert decode(Tagged, 0, bytes.fromhex("01 01 01 00")) == Tagged(inner=Inner(name=""), other=None)


def test_records_are_returned_as_the_same_buffer_that_the_message_holds() -> None:
    records = memoryview(bytes(100_000))
    buffers = encode(produce_request(records), 9, bytearray(b"head"))
    assert buffers[1] is records
    assert bytes(buffers[0]).startswith(b"head")
    assert decode(ProduceRequest, 9, b"".join(buffers), len(b"head")) == produce_request(records)


def test_records_are_read_as_a_view_of_what_was_received() -> None:
    received = bytearray(joined(produce_request(b"batch"), 9))
    records = decode(ProduceRequest, 9, received).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    received[received.index(b"batch")] = ord("B")
    assert bytes(records) == b"Batch"


def test_all_other_bytes_are_copied_out_of_what_was_received() -> None:
    received = bytearray(b"\0\1g" + bytes(8) + b"\0\0\0\2pt" + b"\0\0\0\1" + b"\0\1n" + b"\0\0\0\4meta")
    (protocol,) = decode(JoinGroupRequest, 1, received).protocols
    received.clear()
    assert protocol.metadata == b"meta"


def test_empty_and_absent_records_are_distinguished() -> None:
    for records in (b"", None):
        for version in (3, 9):
            message = decode(ProduceRequest, version, joined(produce_request(records), version))
            assert message.topic_data[0].partition_data[0].records == records


# --- there and back ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("message", dict.fromkeys(message for message, _ in EVERY_MESSAGE_VERSION))
def test_every_version_of_every_message_is_read_as_it_was_written(message: type[Message]) -> None:
    for version, seed in product(message.versions, range(3)):
        written = random_message(message, version, Random(seed))
        assert decode(message, version, joined(written, version)) == written, f"version {version}, seed {seed}"


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_whatever_is_written_is_read_again(data: st.DataObject) -> None:
    message, version = data.draw(st.sampled_from(EVERY_MESSAGE_VERSION))
    written: Message = data.draw(structs(message, version))
    assert decode(message, version, joined(written, version)) == written


def test_a_field_that_a_version_lacks_is_its_default_there() -> None:
    request = MetadataRequest(
        topics=(MetadataRequestTopic(name="t", topic_id=UUID(int=7)),), allow_auto_topic_creation=False
    )
    read = decode(MetadataRequest, 1, joined(request, 1))
    assert read == MetadataRequest(topics=(MetadataRequestTopic(name="t"),), allow_auto_topic_creation=True)


def test_a_version_that_a_message_does_not_have_is_refused() -> None:
    with pytest.raises(ProtocolError, match="HeartbeatRequest has versions 0-4, not 5"):
        decode(HeartbeatRequest, 5, b"")
    with pytest.raises(ProtocolError, match="FetchRequest has versions 4-18, not 3"):
        encode(FetchRequest(max_wait_ms=0, min_bytes=0, topics=()), 3)


# --- bytes from anybody ------------------------------------------------------------------------------------------


def test_bytes_behind_a_message_are_left_alone() -> None:
    assert decode(MetadataRequest, 13, bytes.fromhex("00 01 00 00") + b"\0\0\0").topics is None


def test_unknown_tagged_fields_are_skipped() -> None:
    group = b"\x02g" + bytes(4) + b"\x02m" + b"\0"
    assert decode(HeartbeatRequest, 4, group + bytes.fromhex("02 05 03 aabbcc 9001 00")) == HeartbeatRequest(
        group_id="g", generation_id=0, member_id="m"
    )


def test_a_tagged_field_has_to_end_where_its_size_says() -> None:
    request = joined(FetchRequest(max_wait_ms=0, min_bytes=0, topics=(), cluster_id="id"), 12)
    assert request[-6:] == b"\x01\x00\x03\x03id"
    with pytest.raises(ProtocolError, match="tagged field 0 does not end where its size says"):
        decode(FetchRequest, 12, request[:-4] + b"\x04\x03id.")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("", "the bytes end"),
        ("0001", "a length of 1 at byte 2, with 0 bytes left"),
        ("0001 67 00000000 ffff", "a length of -1"),
        ("0001 67 00000000 8000", "a length of -32768"),
        ("0001 67 00000000 0001 ff", "is not UTF-8"),
        ("0001 67 000000", "the bytes end"),
    ],
)
def test_bytes_that_are_no_message_are_a_protocol_error_that_says_why(data: str, reason: str) -> None:
    with pytest.raises(ProtocolError, match=rf"HeartbeatRequest version 0: .*{reason}"):
        decode(HeartbeatRequest, 0, bytes.fromhex(data))


def test_a_text_is_at_most_32767_bytes_as_in_kafka() -> None:
    longest = HeartbeatRequest(group_id="g" * 32_767, generation_id=0, member_id="m")
    assert decode(HeartbeatRequest, 4, joined(longest, 4)) == longest
    longer = HeartbeatRequest(group_id="g" * 32_768, generation_id=0, member_id="m")
    with pytest.raises(ProtocolError, match="a length of 32768"):
        decode(HeartbeatRequest, 4, joined(longer, 4))


@pytest.mark.parametrize("length", ["7fffffff", "00100000", "80000000", "fffffffe"])
def test_an_array_that_lies_about_its_length_is_refused_before_anything_is_made_for_it(length: str) -> None:
    data = bytes.fromhex(length) + bytes(10)
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="a length of"):
            decode(DescribeGroupsRequest, 0, data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


def test_elements_are_counted_over_the_whole_message() -> None:
    def request(topics: int, partitions: int) -> bytes:
        # Session and limits, then topics without a name, each with partitions of 33 bytes.
        topic = b"\x01" + bytes([0x80 | partitions & 0x7F, partitions >> 7]) + bytes(33) * (partitions - 1) + b"\0"
        return (
            bytes(25)
            + struct.pack("BBB", 0x80 | (topics + 1) & 0x7F, 0x80 | (topics + 1) >> 7, 0)
            + (topic * topics + b"\x01\x01\x00")
        )

    assert len(decode(FetchRequest, 12, request(15, 1001)).topics) == 15
    with pytest.raises(ProtocolError, match="more elements than one message may have"):
        decode(FetchRequest, 12, request(ELEMENTS_MAX // 1000 + 1, 1001))
    with pytest.raises(ProtocolError, match="more elements than one message may have"):
        decode(FetchRequest, 12, request(15, 1001), elements_max=15_000)


def test_eight_plain_numbers_count_as_one_element() -> None:
    def request(count: int) -> bytes:
        # A timeout, and one topic with one partition that is to have so many replicas.
        return bytes(4) + b"\x02\x02g\x02" + bytes(4) + encode_uvarint(count + 1) + bytes(4 * count) + bytes(4)

    (topic,) = decode(AlterPartitionReassignmentsRequest, 0, request(8 * (ELEMENTS_MAX - 2))).topics or ()
    assert len(topic.partitions[0].replicas or ()) == 8 * (ELEMENTS_MAX - 2)
    with pytest.raises(ProtocolError, match="more elements than one message may have"):
        decode(AlterPartitionReassignmentsRequest, 0, request(8 * (ELEMENTS_MAX - 1)))


def test_tagged_fields_are_counted_with_them() -> None:
    data = b"\x02g" + bytes(4) + b"\x02m" + b"\0" + bytes.fromhex("808020") + bytes(2 * (1 << 19))
    with pytest.raises(ProtocolError, match="more elements than one message may have"):
        decode(HeartbeatRequest, 4, data)


def test_a_function_says_in_an_error_which_message_it_was_written_for() -> None:
    assert decoder_source(FetchRequest, 12).names["MESSAGE"] == "FetchRequest version 12"
