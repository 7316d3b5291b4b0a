from __future__ import annotations

import os
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct, field

from kraft.metadata.records import TopicConfigSet
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicId
from kraft.model.plain_records import PlainHeader, PlainRecord, ProduceRecordsRequest
from kraft.rpc import calls, group_calls
from kraft.rpc.mapping import Mapping
from kraft.rpc.pb import broker_pb2, metadata_pb2
from kraft.wire.schema.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kraft.wire.schema.leave_group import LeaveGroupRequest, MemberIdentity
from kraft.wire.schema.sync_group import SyncGroupRequest
from tests.support.classic_requests import assigning
from tests.unit.rpc.message_classes import message_class

TOPIC_ID = UUID(int=7)


@given(
    key=st.none() | st.binary(max_size=8),
    value=st.none() | st.binary(max_size=8),
    header=st.none() | st.binary(max_size=8),
    timestamp_ms=st.integers(-(2**63), 2**63 - 1),
)
def test_no_value_and_an_empty_value_are_distinguished(
    key: bytes | None, value: bytes | None, header: bytes | None, timestamp_ms: int
) -> None:
    record = PlainRecord(
        key=key, value=value, headers=[PlainHeader(key="trace", value=header)], timestamp_ms=timestamp_ms
    )
    request = ProduceRecordsRequest(topic="orders", partition=0, acks=-1, timeout_ms=1, records=[record])

    message = calls.PRODUCE_RECORDS.request.to_message(request)

    parsed = broker_pb2.ProduceRecordsRequest.FromString(message.SerializeToString())
    assert calls.PRODUCE_RECORDS.request.to_value(parsed) == request


class _Things(Struct, frozen=True, kw_only=True):
    one_id: UUID | None
    ids: list[UUID]
    code: ErrorCode


_MESSAGES = """
message_type { name: "Things"
  field { name: "one_id" number: 1 type: TYPE_BYTES label: LABEL_OPTIONAL proto3_optional: true oneof_index: 0 }
  field { name: "ids" number: 2 type: TYPE_BYTES label: LABEL_REPEATED }
  field { name: "code" number: 3 type: TYPE_INT32 label: LABEL_OPTIONAL }
  oneof_decl { name: "_one_id" } }
"""

THINGS = message_class("Things", _MESSAGES)


def test_a_text_without_utf_8_is_refused() -> None:
    member = MemberIdentity(member_id=os.fsdecode(b"a\xff"), group_instance_id=None, reason=None)
    with pytest.raises(Refusal, match=r"'a\\udcff' is not valid Unicode at character 2: give it as UTF-8"):
        group_calls.LEAVE_GROUP.request.to_message(LeaveGroupRequest(group_id="billing", members=(member,)))


def test_each_of_several_ids_is_sixteen_bytes() -> None:
    mapping = Mapping(_Things, THINGS)
    things = _Things(one_id=None, ids=[TOPIC_ID, UUID(int=8)], code=ErrorCode.NONE)
    message = mapping.to_message(things)
    assert mapping.to_value(message) == things
    message.ids.append(b"short")
    with pytest.raises(ValueError, match="an id must have 16 bytes, not 5"):
        mapping.to_value(message)


def test_an_error_code_of_a_later_version_is_read_as_an_unknown_error() -> None:
    assert Mapping(_Things, THINGS).to_value(THINGS(code=30_000)).code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_value_whose_fields_are_all_at_zero_still_is_there_when_it_is_written_into_another_message() -> None:
    mapping = Mapping(TopicConfigSet, metadata_pb2.TopicConfigSet)
    outer = metadata_pb2.MetadataRecord()
    mapping.write(TopicConfigSet(topic_id=TopicId(UUID(int=0)), key="", value=None), outer.topic_config_set)
    assert outer.WhichOneof("record") == "topic_config_set"


class _WithAFieldTooMany(Struct, frozen=True, kw_only=True):
    one_id: UUID | None
    ids: list[UUID]
    code: ErrorCode
    force: bool


class _WithAnUnknownType(Struct, frozen=True, kw_only=True):
    one_id: UUID | None
    ids: list[complex] = field(default_factory=list)
    code: ErrorCode


def test_a_field_that_only_one_side_has_is_noticed_when_the_mapping_is_built() -> None:
    with pytest.raises(TypeError, match=r"_WithAFieldTooMany and message Things differ in force$"):
        Mapping(_WithAFieldTooMany, THINGS).to_value(THINGS())


def test_a_field_of_a_type_that_cannot_be_mapped_is_noticed_when_the_mapping_is_built() -> None:
    with pytest.raises(TypeError, match="complex"):
        Mapping(_WithAnUnknownType, THINGS).to_value(THINGS())


def test_an_optional_value_that_is_not_set_and_an_empty_one_are_distinguished() -> None:
    mapping = group_calls.CONSUMER_GROUP_HEARTBEAT.request
    for owned in (None, (), (TopicPartitions(topic_id=TOPIC_ID, partitions=(0, 2)),)):
        request = ConsumerGroupHeartbeatRequest(
            group_id="billing", member_id="a", member_epoch=0, topic_partitions=owned
        )
        assert mapping.to_value(mapping.to_message(request)) == request


def test_maps_to_bytes_and_tuples_come_back_as_they_went() -> None:
    sync = SyncGroupRequest(
        group_id="billing", generation_id=1, member_id="a", assignments=assigning({"a": b"\x00\xff", "b": b""})
    )
    assert group_calls.SYNC_GROUP.request.to_value(group_calls.SYNC_GROUP.request.to_message(sync)) == sync

    leave = LeaveGroupRequest(
        group_id="billing", members=(MemberIdentity(member_id="a"), MemberIdentity(member_id="", group_instance_id="i"))
    )
    assert group_calls.LEAVE_GROUP.request.to_value(group_calls.LEAVE_GROUP.request.to_message(leave)) == leave
