"""Mappings of Kafka's messages; this file does not postpone annotations, because it declares some."""

from uuid import UUID

import pytest

from kraft.rpc import group_calls
from kraft.rpc.mapping import Mapping
from kraft.wire import declaration as wire
from kraft.wire.schema.offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic
from tests.unit.rpc.message_classes import message_class

TOPIC_ID = UUID(int=7)


class _Item(wire.Struct):
    number: wire.Int16


class _Numbers(wire.Message, key=1, versions="0-3", flexible="none"):
    names: wire.Array[wire.String] | None
    limit: wire.Int32 = wire.field("1+", default=60_000)
    items: wire.Array[_Item] | None
    first: _Item | None
    before: wire.Bool = wire.field("0-2", default=True)


_MESSAGES = """
message_type { name: "Item" field { name: "number" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL } }
message_type { name: "Items"
  field { name: "values" number: 1 type: TYPE_MESSAGE type_name: ".tests.Item" label: LABEL_REPEATED } }
message_type { name: "Names" field { name: "values" number: 1 type: TYPE_STRING label: LABEL_REPEATED } }
message_type { name: "Numbers"
  field { name: "names" number: 1 type: TYPE_MESSAGE type_name: ".tests.Names" label: LABEL_OPTIONAL }
  field { name: "limit" number: 2 type: TYPE_INT32 label: LABEL_OPTIONAL proto3_optional: true oneof_index: 0 }
  field { name: "items" number: 3 type: TYPE_MESSAGE type_name: ".tests.Items" label: LABEL_OPTIONAL }
  field { name: "first" number: 4 type: TYPE_MESSAGE type_name: ".tests.Item" label: LABEL_OPTIONAL }
  oneof_decl { name: "_limit" } }
message_type { name: "Plain"
  field { name: "names" number: 1 type: TYPE_STRING label: LABEL_REPEATED }
  field { name: "limit" number: 2 type: TYPE_INT32 label: LABEL_OPTIONAL }
  field { name: "ids" number: 3 type: TYPE_BYTES label: LABEL_REPEATED }
  field { name: "one_id" number: 4 type: TYPE_BYTES label: LABEL_OPTIONAL } }
"""

NUMBERS = message_class("Numbers", _MESSAGES)
PLAIN = message_class("Plain", _MESSAGES)


@pytest.mark.parametrize("names", [None, (), ("a", "")])
@pytest.mark.parametrize("items", [None, (), (_Item(number=1), _Item(number=0))])
@pytest.mark.parametrize("first", [None, _Item(number=0)])
def test_null_and_empty_are_distinguished_where_the_proto_file_does(
    names: tuple[str, ...] | None, items: tuple[_Item, ...] | None, first: _Item | None
) -> None:
    mapping = Mapping(_Numbers, NUMBERS)
    value = _Numbers(names=names, limit=0, items=items, first=first)
    data = mapping.serialize(mapping.to_message(value))
    assert mapping.to_value(mapping.parse(data)) == value


def test_what_is_absent_has_kafkas_default() -> None:
    value = Mapping(_Numbers, NUMBERS).to_value(NUMBERS())
    # `before` is in older versions only, so the proto file does not have it.
    assert value == _Numbers(names=None, limit=60_000, items=None, first=None, before=True)


class _Limited(wire.Message, key=1, versions="0-3", flexible="none"):
    names: wire.Array[wire.String]
    limit: wire.Int32 = 60_000
    ids: wire.Array[wire.Uuid]
    one_id: wire.Uuid


def test_a_default_that_no_absence_can_stand_for_is_noticed_when_the_mapping_is_built() -> None:
    with pytest.raises(TypeError, match=r"Plain.limit has to be optional: its default is 60000"):
        Mapping(_Limited, PLAIN).to_value(PLAIN())


class _Plain(wire.Message, key=1, versions="0-3", flexible="none"):
    names: wire.Array[wire.String] | None
    limit: wire.Int32
    ids: wire.Array[wire.Uuid]
    one_id: wire.Uuid
    before: wire.Bool = wire.field("0-2", default=True)


def test_an_array_that_is_only_repeated_is_null_when_it_is_empty() -> None:
    mapping = Mapping(_Plain, PLAIN)
    for names in (None, ("a", "")):
        value = _Plain(names=names, limit=1, ids=(), one_id=TOPIC_ID)
        assert mapping.to_value(mapping.to_message(value)) == value
    assert mapping.to_value(PLAIN()).names is None


def test_the_id_that_means_none_has_no_bytes() -> None:
    mapping = Mapping(_Plain, PLAIN)
    value = _Plain(names=None, limit=5, ids=(TOPIC_ID, wire.ZERO_UUID), one_id=wire.ZERO_UUID)
    message = mapping.to_message(value)
    assert (list(message.ids), message.one_id) == ([TOPIC_ID.bytes, b""], b"")
    assert mapping.to_value(message) == value
    message.ids.append(b"short")
    with pytest.raises(ValueError, match="an id must have 16 bytes, not 5"):
        mapping.to_value(message)


def test_a_field_of_older_versions_is_carried_if_the_proto_file_has_it() -> None:
    mapping = group_calls.OFFSET_COMMIT.request
    topics = (
        OffsetCommitRequestTopic(name="orders", partitions=()),
        OffsetCommitRequestTopic(topic_id=TOPIC_ID, partitions=()),
    )
    request = OffsetCommitRequest(group_id="g", member_id="", topics=topics)
    assert mapping.to_value(mapping.to_message(request)) == request
