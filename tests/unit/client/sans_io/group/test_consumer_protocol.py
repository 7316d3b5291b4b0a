from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from kraft.client.sans_io.group.consumer_protocol import (
    MemberSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kraft.model.ids import TopicPartition
from kraft.wire.errors import ProtocolError
from tests.support.client.fake_cluster import tp

_topics = some.sampled_from(["orders", "returns", "ümlaut"])
_partitions = some.frozensets(some.builds(TopicPartition, _topics, some.integers(0, 99)), max_size=20)


def test_a_subscription_has_kafkas_bytes() -> None:
    subscription = MemberSubscription(topics=frozenset({"b", "a"}), owned=frozenset({tp("a", 1)}), generation=7)
    assert encode_subscription(subscription) == (
        b"\0\3"  # version
        b"\0\0\0\2\0\1a\0\1b"  # topics
        b"\xff\xff\xff\xff"  # no user data
        b"\0\0\0\1\0\1a\0\0\0\1\0\0\0\1"  # owned partitions
        b"\0\0\0\7"  # generation
        b"\xff\xff"  # no rack
    )


def test_an_assignment_has_kafkas_bytes() -> None:
    data = encode_assignment([tp("a", 2), tp("a", 1)])
    assert data == b"\0\3\0\0\0\1\0\1a\0\0\0\2\0\0\0\1\0\0\0\2\xff\xff\xff\xff"


@given(some.frozensets(_topics), _partitions, some.integers(-1, 2**31 - 1), some.none() | some.text(max_size=5))
def test_what_is_encoded_is_decoded(
    topics: frozenset[str], owned: frozenset[TopicPartition], generation: int, rack_id: str | None
) -> None:
    subscription = MemberSubscription(topics=topics, owned=owned, generation=generation, rack_id=rack_id)
    assert decode_subscription(encode_subscription(subscription)) == subscription
    assert decode_assignment(encode_assignment(owned)) == owned


@pytest.mark.parametrize("version", [0, 1, 2])
def test_earlier_versions_end_earlier(version: int) -> None:
    fields = [b"\0\0\0\1\0\1a\xff\xff\xff\xff", b"\0\0\0\1\0\1a\0\0\0\1\0\0\0\1", b"\0\0\0\7"]
    found = decode_subscription(version.to_bytes(2, "big") + b"".join(fields[: version + 1]))
    assert found == MemberSubscription(
        topics=frozenset({"a"}),
        owned=frozenset({tp("a", 1)} if version >= 1 else ()),
        generation=7 if version >= 2 else -1,
    )


def test_later_versions_are_read_as_the_latest_that_is_known() -> None:
    data = encode_assignment([tp("a")])
    assert decode_assignment(b"\0\x09" + data[2:] + b"more") == {tp("a")}


def test_no_bytes_are_no_partitions() -> None:
    assert decode_assignment(b"") == frozenset()


@pytest.mark.parametrize("data", [b"\0", b"\xff\xff\0\0\0\0", b"\0\1\0\0\0\5"])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_assignment(data)
    with pytest.raises(ProtocolError):
        decode_subscription(data)
