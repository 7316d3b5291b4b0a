import pytest

from kraft.wire.declaration import (
    ZERO_UUID,
    ArrayOf,
    Declared,
    Field,
    Fixed,
    Identifier,
    Int32,
    Message,
    Sized,
    String,
    Struct,
    field,
    replace,
    tagged_fields,
)
from kraft.wire.schema.fetch import EpochEndOffset, FetchResponse, PartitionData
from kraft.wire.schema.find_coordinator import FindCoordinatorRequest
from kraft.wire.schema.sasl_authenticate import SaslAuthenticateRequest
from kraft.wire.versions import EVERY_VERSION, NO_VERSION, Versions
from tests.unit.wire.declared import Inner, Outer


def named(kind: type[Struct]) -> dict[str, Field]:
    return {each.name: each for each in kind.fields}


def test_an_annotation_says_how_a_field_is_written() -> None:
    forms = {name: each.form for name, each in named(Outer).items()}
    assert forms == {
        "count": Fixed("i"),
        "note": Sized.STRING,
        "topic_id": Identifier(),
        "inner": ArrayOf(Inner),
        "records": Sized.RECORDS,
        "secret": Sized.BYTES,
    }


def test_a_field_is_in_every_version_unless_it_says_otherwise() -> None:
    assert named(Outer)["count"].versions == EVERY_VERSION
    assert named(Outer)["topic_id"].versions == Versions(2, 3)


def test_none_in_the_annotation_makes_a_field_nullable() -> None:
    assert named(Outer)["note"].nullable == EVERY_VERSION
    assert named(Outer)["records"].nullable == Versions.parse("1+")
    assert named(Outer)["count"].nullable == NO_VERSION


def test_a_field_without_a_default_must_be_given() -> None:
    assert [each.name for each in Outer.fields if each.is_required] == ["count", "inner", "records", "secret"]
    with pytest.raises(TypeError, match="inner"):
        Outer(count=1)  # type: ignore[call-arg]  # That mypy says so as well is what this is about.


def test_what_is_left_out_is_the_default() -> None:
    outer = Outer(count=1, inner=(), records=None, secret=b"")
    assert (outer.note, outer.topic_id) == ("none", ZERO_UUID)


def test_a_field_that_is_not_in_every_version_needs_a_default() -> None:
    with pytest.raises(AssertionError, match=r"Broken\.late is not in every version"):

        class Broken(Struct):
            late: Int32 = field("3+", nullable="3+")


def test_a_file_of_declarations_must_not_postpone_annotations() -> None:
    with pytest.raises(AssertionError, match="must not postpone"):
        Declared("Broken", (Struct,), {"__annotations__": {"name": "String"}})


def test_a_field_must_not_hide_what_the_class_declares() -> None:
    with pytest.raises(AssertionError, match="hides"):

        class Broken(Struct):
            fields: String


def test_a_field_may_be_called_key_as_that_of_a_find_coordinator_request() -> None:
    assert FindCoordinatorRequest(key="group").key == "group"
    assert FindCoordinatorRequest.message_key == 10


def test_structs_are_equal_when_all_their_fields_are() -> None:
    first = Outer(count=1, inner=(Inner(name="a"),), records=b"r", secret=b"")
    assert first == Outer(count=1, inner=(Inner(name="a"),), records=memoryview(b"r"), secret=b"")
    assert first != Outer(count=1, inner=(Inner(name="b"),), records=b"r", secret=b"")
    assert first != "another thing"


def test_a_struct_is_no_key_since_its_records_may_change() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(Inner(name="a"))


def test_a_struct_has_no_room_for_anything_else() -> None:
    with pytest.raises(AttributeError):
        Inner(name="a").surname = "b"  # type: ignore[attr-defined]  # mypy knows it too.


def test_its_text_shows_neither_records_nor_passwords() -> None:
    assert repr(SaslAuthenticateRequest(auth_bytes=b"\0user\0hunter2")) == (
        "SaslAuthenticateRequest(auth_bytes=<13 bytes>)"
    )
    assert "records=<3 bytes>" in repr(Outer(count=1, inner=(), records=memoryview(b"abc"), secret=b""))


def test_tagged_fields_come_in_the_order_of_their_tags() -> None:
    assert [each.tag for each in tagged_fields(PartitionData, 12)] == [0, 1, 2]
    assert tagged_fields(PartitionData, 11) == []
    assert [each.name for each in tagged_fields(FetchResponse, 16)] == ["node_endpoints"]


def test_a_message_knows_its_versions() -> None:
    assert FetchResponse.versions == Versions(4, 18)
    assert 12 in FetchResponse.flexible
    assert 11 not in FetchResponse.flexible
    assert PartitionData.versions == NO_VERSION


def test_a_message_may_have_no_fields_at_all() -> None:
    class Empty(Message, key=1, versions="0", flexible="0+"):
        pass

    assert Empty() == Empty()
    assert repr(Empty()) == "Empty()"


def test_a_copy_differs_in_the_given_fields_only() -> None:
    before = EpochEndOffset(epoch=1, end_offset=2)
    assert replace(before, end_offset=3) == EpochEndOffset(epoch=1, end_offset=3)
    assert before == EpochEndOffset(epoch=1, end_offset=2)
