from __future__ import annotations

from typing import Any

import pytest

from kraft.rpc.message_elements import FIELDS_OF_ELEMENT, count_elements
from kraft.rpc.pb import admin_pb2, broker_pb2

PLACED = admin_pb2.CreatePartitionsRequest

ENOUGH = 1_000


def counted(message: Any, enough: int = ENOUGH) -> int:
    return count_elements(message.SerializeToString(), message.DESCRIPTOR, enough)


def test_numbers_of_packed_lists_count() -> None:
    assignment = PLACED.CreatePartitionsAssignment(broker_ids=[1, 300, 70_000, 2**31 - 1, -1])
    assert counted(PLACED.CreatePartitionsTopic(name="orders", assignments=[assignment])) == 1 + 5


def test_a_message_without_lists_has_no_elements() -> None:
    assert counted(broker_pb2.InitProducerIdRequest()) == 0


@pytest.mark.parametrize("count", [ENOUGH, ENOUGH + 1, 50 * ENOUGH])
def test_the_count_ends_when_there_are_enough(count: int) -> None:
    assert (counted(admin_pb2.DescribeTopicsRequest(topics=["orders"] * count)) > ENOUGH) == (count > ENOUGH)


def test_a_message_that_sets_a_field_again_and_again_has_too_many() -> None:
    again = bytes([_key(admin_pb2.CreateTopicsRequest, "timeout_ms", 0), 1])
    most = ENOUGH * FIELDS_OF_ELEMENT
    assert count_elements(again * most, admin_pb2.CreateTopicsRequest.DESCRIPTOR, ENOUGH) == 0
    assert count_elements(again * (most + 1), admin_pb2.CreateTopicsRequest.DESCRIPTOR, ENOUGH) > ENOUGH


@pytest.mark.parametrize(
    "broken", [b"\x0a", b"\x0a\xff", b"\xff" * 1_000_000, b"\x0b\x0c", b"\x0f", b"\x0a\xff\xff\xff\x07x"]
)
def test_bytes_that_are_no_message_are_left_to_their_decoding(broken: bytes) -> None:
    assert count_elements(broken, admin_pb2.CreateTopicsRequest.DESCRIPTOR, ENOUGH) <= 2


def _key(kind: Any, field: str, wire_type: int) -> int:
    return int(kind.DESCRIPTOR.fields_by_name[field].number << 3 | wire_type)
