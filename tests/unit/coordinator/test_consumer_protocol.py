from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.coordinator.consumer_protocol import (
    InvalidConsumerProtocol,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    partitions_of,
)
from tests.unit.coordinator.consumer.coordinator import image_of, partitions

IMAGE = image_of({"orders": 4, "parcels": 1})

# As librdkafka 2.16 sends it, version 3: two topics, one of them owned, generation 7, rack a.
SUBSCRIPTION = bytes.fromhex(
    "0003 00000002 0006 6f7264657273 0007 70617263656c73 ffffffff"
    "00000001 0006 6f7264657273 00000002 00000000 00000002 00000007 0001 61"
)


def test_a_subscription_of_version_3_is_decoded() -> None:
    subscription = decode_subscription(SUBSCRIPTION)
    assert subscription.topics == ("orders", "parcels")
    assert partitions_of(subscription.owned_partitions, IMAGE) == partitions("orders", 0, 2)
    assert (subscription.generation_id, subscription.rack_id) == (7, "a")


def test_a_subscription_of_version_0_owns_nothing_that_it_says() -> None:
    subscription = decode_subscription(bytes.fromhex("0000 00000001 0006 6f7264657273 00000002 0102"))
    assert (subscription.topics, subscription.user_data) == (("orders",), b"\1\2")
    assert (subscription.owned_partitions, subscription.rack_id) == ((), None)


def test_a_later_version_is_read_as_the_newest_known_one() -> None:
    assert decode_subscription(b"\0\4" + SUBSCRIPTION[2:] + b"more").generation_id == 7


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff" + SUBSCRIPTION[2:], SUBSCRIPTION[:20]])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidConsumerProtocol):
        decode_subscription(data)


@given(st.binary())
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    for decode in (decode_subscription, decode_assignment):
        with suppress(InvalidConsumerProtocol):
            assert decode(data) is not None


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_an_assignment_has_the_version_of_the_subscription(version: int) -> None:
    encoded = encode_assignment(partitions("orders", 2, 1) | partitions("gone", 0), IMAGE, b"\0%c" % version)
    assert encoded == bytes.fromhex(f"{version:04x} 00000001 0006 6f7264657273 00000002 00000001 00000002 ffffffff")
    assert partitions_of(decode_assignment(encoded).assigned_partitions, IMAGE) == partitions("orders", 1, 2)


def test_an_assignment_for_an_unreadable_subscription_has_a_known_version() -> None:
    assert encode_assignment(frozenset(), IMAGE, b"")[:2] == b"\0\0"
    assert encode_assignment(frozenset(), IMAGE, b"\xff\xff")[:2] == b"\0\0"
    assert encode_assignment(frozenset(), IMAGE, b"\x7f\xff")[:2] == b"\0\3"


def test_partitions_of_topics_that_do_not_exist_are_left_out() -> None:
    assert partitions_of(decode_subscription(SUBSCRIPTION).owned_partitions, image_of({})) == frozenset()
