"""What people see of a record, and what is hidden from them: in no text, value, size or problem."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from kraft.console.records.permissions import Mask, Permission, Role, Viewing, ViewingRules, ViewRule
from kraft.console.records.raw import RawRecord
from kraft.console.records.rows import HEADERS_MAX, Sight
from kraft.console.records.viewing import (
    HIDDEN,
    MASK,
    Formats,
    MayNotView,
    View,
    check,
    note,
    shown,
    shown_key,
    shown_value,
)

SECRET = "4111 1111"
ALL = Permission(viewing=Viewing.ON)


def hiding(*paths: str, key: bool = False, headers: tuple[str, ...] = ()) -> Permission:
    fields = tuple(tuple(each.split(".")) for each in paths)
    mask = Mask(name="m", topics=("*",), fields=fields, key=key, headers=headers)
    return Permission(viewing=Viewing.ON, masks=(mask,))


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        ({"card": {"number": SECRET, "kind": "visa"}}, {"card": {"number": MASK, "kind": "visa"}}),
        ({"a": [{"card": {"number": SECRET}}]}, {"a": [{"card": {"number": MASK}}]}),
        ({"Card": {"NUMBER": SECRET}}, {"Card": {"NUMBER": MASK}}),
        ({"card.number": SECRET}, {"card.number": MASK}),
        ({"card": [{"number": [SECRET, {"x": SECRET}]}]}, {"card": [{"number": MASK}]}),
        ({"card": {"number.raw": SECRET}}, {"card": {"number.raw": MASK}}),
        ({"number": 1, "number_of": 2}, {"number": 1, "number_of": 2}),
        ([{"email": SECRET}], [{"email": MASK}]),
        ([SECRET, [SECRET], {"a": [1]}], [MASK, [MASK], {"a": [1]}]),
        ({"email.address": SECRET}, {"email.address": MASK}),
        ({"iban": {"x": {"y": 1, "z": SECRET}}}, {"iban": {"x": {"y": MASK, "z": MASK}}}),
    ],
)
def test_a_path_hides_its_field_at_any_depth(value: Any, seen: Any) -> None:
    found = shown_value(msgspec.json.encode(value), hiding("card.number", "email", "iban.*.*"))
    assert found.value == seen
    assert msgspec.json.decode(found.text) == seen


def test_masking_is_bounded_whatever_the_names() -> None:
    paths = [f"a.b.{number}" for number in range(100)]
    dots = b'{"%s": 1}' % (b"a." * 500_000)
    many = b"{%s}" % b",".join(b'"%d":1' % number for number in range(60_000))
    begun_s = time.monotonic()
    for each in (dots, many):
        assert shown_value(each, hiding(*paths)).value is not None
    assert time.monotonic() - begun_s < 10


def test_of_two_fields_of_one_name_both_are_hidden() -> None:
    found = shown_value(b'{"email": "4111 1111", "email": null}', hiding("email"))
    assert SECRET not in found.text


@pytest.mark.parametrize(
    "data",
    [
        SECRET.encode(),
        b'"4111 1111"',
        b"41111111",
        b'{"email": "4111 1111"',
        b"\xff4111 1111",
        b"\0\0\0\0\1" + b"4111 1111",
    ],
)
@pytest.mark.parametrize("chosen", ["", "text", "hex", "json", "avro", "msgpack"])
def test_where_fields_are_hidden_a_value_without_fields_is_hidden(data: bytes, chosen: str) -> None:
    assert shown_value(data, hiding("email"), chosen) == HIDDEN


@pytest.mark.parametrize("chosen", ["text", "hex"])
def test_a_chosen_format_shows_nothing_that_is_hidden(chosen: str) -> None:
    found = shown_value(b'{"email": "4111 1111", "id": 1}', hiding("email"), chosen)
    assert (found.format, found.value) == ("json", {"email": MASK, "id": 1})


def test_keys_and_headers_are_hidden_by_name() -> None:
    permission = hiding("email", key=True, headers=("auth*",))
    found = shown(b"4111", b'{"email":"4111 1111"}', [("Authorization", b"4111"), ("trace", b"7")], permission)
    assert (found.key, found.headers[0].value, found.headers[1].value.text) == (HIDDEN, HIDDEN, "7")
    assert (found.key_bytes, found.value_bytes, found.is_masked) == (None, None, True)
    assert "4111" not in msgspec.json.encode(found).decode()
    assert shown_key(b"anna", hiding("email")).text == "anna"
    assert shown_key(b'{"email":1}', hiding("email")).value == {"email": MASK}
    assert shown_key(b"\xff\xfe", hiding("email")) == HIDDEN


@pytest.mark.parametrize(
    "data", [b'{"email": "4111 1111"} and more', b"[" * 70 + b'"4111 1111"' + b"]" * 70, b"<email>4111 1111</email>"]
)
def test_what_could_hold_a_field_is_hidden_in_keys_and_headers(data: bytes) -> None:
    seen = shown(data, b"{}", [("h", data)], hiding("email"))
    assert seen.key == HIDDEN
    assert seen.headers[0].value == HIDDEN


def test_fields_are_hidden_in_keys_and_headers_of_json() -> None:
    data = b'{"email": "4111 1111", "total": 1}'
    seen = shown(data, b"{}", [("h", data), ("trace", b"a-1"), ("none", None)], hiding("email"))
    assert seen.key.value == seen.headers[0].value.value == {"email": MASK, "total": 1}
    assert [each.value.text for each in seen.headers[1:]] == ["a-1", "null"]


def test_headers_that_are_not_looked_at_are_in_no_size_that_could_tell_of_them() -> None:
    headers = (*((f"h{each}", b"x") for each in range(HEADERS_MAX)), ("authorization", SECRET.encode()))
    for permission, size_bytes in ((hiding(headers=("authorization",)), None), (ALL, 217)):
        sight = Sight(permission=permission, registry=None, formats=Formats())
        record = RawRecord(topic="t", partition=0, offset=0, timestamp_ms=0, key=b"key", value=b"{}", headers=headers)
        row = sight.of(record).row()
        assert (row.size_bytes, row.headers_left_out) == (size_bytes, 1)


def test_a_deletion_is_shown_as_one() -> None:
    found = shown(b"k", None, [], hiding("email"))
    assert (found.value.format, found.value_bytes) == ("null", None)


def test_without_masks_all_is_shown_with_its_size() -> None:
    found = shown(b"k", b'{"a": 1}', [], ALL)
    assert (found.value.value, found.value_bytes, found.key_bytes, found.is_masked) == ({"a": 1}, 8, 1, False)


@given(
    st.dictionaries(
        st.text(max_size=3) | st.just("email"), st.just(SECRET) | st.dictionaries(st.just("email"), st.just(SECRET))
    )
)
def test_a_hidden_field_is_nowhere_in_what_is_shown(value: dict[str, Any]) -> None:
    value = {name: each for name, each in value.items() if name == "email" or isinstance(each, dict)}
    assert SECRET not in shown_value(msgspec.json.encode(value), hiding("email")).text


# --- who -----------------------------------------------------------------------------------------------------------

RULES = ViewingRules(
    viewing=Viewing.MASKED,
    rules=(
        ViewRule(name="secret", topics=("secret-*",), viewing=Viewing.OFF),
        ViewRule(name="auditors", topics=("*",), roles=("auditors",), viewing=Viewing.ON),
    ),
    masks=(Mask(name="cards", topics=("pay*",), fields=(("card",),), roles=("fraud",)),),
    roles={
        "auditors": Role(users=frozenset({"carla"})),
        "fraud": Role(claims={"groups": frozenset({"fraud-team"})}),
    },
)


def test_the_first_rule_that_fits_decides_and_masks_stay() -> None:
    assert RULES.permission("carla", {}, "secret-1").is_off
    auditor = RULES.permission("carla", {}, "orders")
    assert (auditor.viewing, auditor.hides_something) == (Viewing.ON, False)
    assert RULES.permission("carla", {}, "payments").fields == (("card",),)


def test_masked_hides_everything_of_a_topic_without_masks() -> None:
    others = RULES.permission("anna", {}, "orders")
    found = shown(b"k", b'{"a": 1}', [("h", b"1")], others)
    assert (found.key, found.value, found.headers[0].value) == (HIDDEN, HIDDEN, HIDDEN)
    assert others.hides_keys
    of_topic = RULES.permission("anna", {}, "payments")
    assert shown_value(b'{"card": 1, "a": 2}', of_topic).value == {"card": MASK, "a": 2}


@pytest.mark.parametrize("groups", ["fraud-team", ["other", "fraud-team"]])
def test_a_claim_makes_a_user_one_of_a_role(groups: object) -> None:
    assert RULES.permission("anna", {"groups": groups}, "payments").fields == ()
    assert RULES.permission("anna", {"groups": ["other"]}, "payments").fields
    assert RULES.permission("anna", {"groups": 7}, "payments").fields


def test_who_may_view_nothing_is_told_what_to_set() -> None:
    with pytest.raises(MayNotView, match=r"cluster\.prod\.records\.view"):
        check(ViewingRules().permission("anna", {}, "orders"), "prod", "orders")
    assert shown_value(b"x", ViewingRules().permission("anna", {}, "orders")) == HIDDEN


def test_a_filter_is_noted_whole_whatever_stands_before_it() -> None:
    query = f"key={'k' * 500}, text={'t' * 500}, filter={'f' * 1_000}"
    view = View(
        cluster="c", topic="t", user="u", viewing=Viewing.ON, what="page", partitions=[], records=0, query=query
    )
    with structlog.testing.capture_logs() as lines:
        note(view)
    assert lines[0]["query"] == query
