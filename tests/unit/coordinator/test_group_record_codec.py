"""Records of `__consumer_offsets` are written and read as Kafka does. Its bytes are in tests/golden."""

from __future__ import annotations

import tracemalloc
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.coordinator.group_record import GroupRecord, InvalidGroupRecord, UnknownGroupRecord
from kraft.coordinator.group_record_codec import decode, encode, value_version
from kraft.coordinator.group_records import (
    ConsumerGroupMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kraft.wire.codec import encode as encode_message
from kraft.wire.declaration import Message
from tests.golden.group_records import RECORDS, Golden
from tests.golden.make_group_records import FOLDER
from tests.support.random_messages import random_message

BYTES_DECODED_PER_BYTE_MAX = 100
KEY = OffsetCommitKey(group="group", topic="orders", partition=0)
KINDS = {type(each.record.key): type(each.record.value) for each in RECORDS if each.record.value is not None}


def golden_bytes() -> dict[str, tuple[bytes, bytes | None]]:
    found = {}
    for line in (FOLDER / "records.txt").read_text().splitlines():
        name, key, value = line.split(" ")
        found[name] = bytes.fromhex(key), None if value == "null" else bytes.fromhex(value)
    return found


BYTES = golden_bytes()


def written_today(golden: Golden) -> bool:
    value = golden.record.value
    return golden.type is None and (value is None or value_version(value) == golden.version)


# --- Kafka's bytes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("golden", RECORDS, ids=lambda golden: golden.name)
def test_what_kafka_wrote_is_read(golden: Golden) -> None:
    assert decode(*BYTES[golden.name]) == golden.record


@pytest.mark.parametrize("golden", [each for each in RECORDS if written_today(each)], ids=lambda golden: golden.name)
def test_a_record_is_written_as_kafka_writes_it(golden: Golden) -> None:
    assert encode(golden.record) == BYTES[golden.name]


@pytest.mark.parametrize("golden", RECORDS, ids=lambda golden: golden.name)
def test_every_version_of_a_value_can_be_written_as_kafka_writes_it(golden: Golden) -> None:
    value = golden.record.value
    head = bytearray(golden.version.to_bytes(2, "big"))
    written = None if value is None else b"".join(encode_message(value, golden.version, head))
    assert written == BYTES[golden.name][1]


def test_the_golden_records_have_every_version_of_every_value() -> None:
    versions = {(type(each.record.value), each.version) for each in RECORDS if each.record.value is not None}
    assert versions == {(kind, version) for kind in KINDS.values() for version in kind.versions}
    assert {each.message_key for each in KINDS} == {1, 2, 3, 5, 6, 7, 8, 16}
    assert {type(each.record.key) for each in RECORDS if written_today(each)} == set(KINDS)


# --- versions --------------------------------------------------------------------------------------------------------


def test_a_commit_with_an_expiry_is_written_in_the_version_that_has_one() -> None:
    def version(expire_timestamp: int) -> int:
        commit = OffsetCommitValue(
            offset=1, metadata="", commit_timestamp=2, leader_epoch=3, expire_timestamp=expire_timestamp
        )
        _, value = encode(GroupRecord(KEY, commit))
        return int.from_bytes((value or b"")[:2], "big")

    assert (version(-1), version(0), version(1_700_000_000_000)) == (4, 1, 1)


def test_a_classic_group_is_written_in_version_3_so_that_an_older_kafka_reads_it() -> None:
    group = GroupMetadataValue(protocol_type="", generation=0, protocol=None, leader=None, members=())
    _, value = encode(GroupRecord(GroupMetadataKey(group="group"), group))
    assert (value or b"")[:2] == b"\x00\x03"


def test_a_value_with_the_key_of_another_kind_is_our_bug() -> None:
    with pytest.raises(AssertionError, match="does not belong"):
        encode(GroupRecord(KEY, ConsumerGroupMetadataValue(epoch=1)))


# --- unknown records -------------------------------------------------------------------------------------------------


# Kafka 4.0's partition metadata, share groups, groups of Kafka Streams, what Kafka may add, and no type at all.
@pytest.mark.parametrize("record_type", [4, 9, 10, 11, 12, 13, 14, 15, 17, 22, 23, 0x7FFF, -1, -0x8000])
@pytest.mark.parametrize("value", [None, b"", b"\x00\x00", b"\xff" * 9])
def test_a_record_of_another_type_is_unknown_whatever_its_bytes(record_type: int, value: bytes | None) -> None:
    prefix = record_type.to_bytes(2, "big", signed=True)
    assert decode(prefix, value) == decode(prefix + b"\xff\xff\x01", value) == UnknownGroupRecord(record_type)


@pytest.mark.parametrize(("record_type", "version"), [(0, 5), (1, 5), (2, 5), (3, 1), (8, 1), (16, 0x7FFF), (1, -1)])
def test_a_value_of_a_newer_version_is_unknown_but_its_deletion_is_not(record_type: int, version: int) -> None:
    key = next(key for key, _ in BYTES.values() if int.from_bytes(key[:2], "big") == record_type)
    value = version.to_bytes(2, "big", signed=True)
    assert decode(key, value + b"rest") == UnknownGroupRecord(record_type, version)
    assert isinstance(decode(key, None), GroupRecord)


# --- damage ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [None, b"", b"\x00"])
@pytest.mark.parametrize("value", [None, b"\x00\x00"])
def test_a_record_without_a_type_is_invalid(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(InvalidGroupRecord):
        decode(key, value)


@pytest.mark.parametrize("name", BYTES)
def test_a_record_that_is_cut_anywhere_is_invalid(name: str) -> None:
    key, value = BYTES[name]
    for length in range(len(key)):
        with pytest.raises(InvalidGroupRecord):
            decode(key[:length], value)
    for length in range(len(value or b"")):
        with pytest.raises(InvalidGroupRecord):
            decode(key, (value or b"")[:length])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("0001 ffff 0001 61 00000000", None),  # Null, and Kafka's strings have at most 32,767 bytes.
        ("0001 8000 0001 61 00000000", None),
        ("0001 0001 ff 0001 61 00000000", None),  # Not UTF-8.
        ("0002 0001 61", "0003 0000 00000000 ffff ffff 0000000000000000 7fffffff"),
        ("0002 0001 61", "0003 0000 00000000 ffff ffff 0000000000000000 ffffffff"),
        ("0003 0001 61", "0000 00000001 ffffffff0f"),
        ("0003 0001 61", "0000 00000001 01 00 09 000000000000000000"),
        ("0007 0001 61", "0000 ffffffff0f"),
        ("0010 0001 61 0001 62", "0000 ffffffffffffffffff"),
    ],
)
def test_a_length_that_cannot_be_is_invalid(key: str, value: str | None) -> None:
    with pytest.raises(InvalidGroupRecord):
        decode(bytes.fromhex(key), None if value is None else bytes.fromhex(value))


def checked(key: bytes, value: bytes | None) -> None:
    """Decode, and check that nothing but the documented error is raised, and that a record survives being written."""
    try:
        decoded = decode(key, value)
    except InvalidGroupRecord:
        return
    if isinstance(decoded, GroupRecord):
        assert decode(*encode(decoded)) == decoded


@given(st.sampled_from(sorted({key[:2] for key, _ in BYTES.values()})) | st.just(b""), st.binary(), st.binary())
def test_any_bytes_are_a_record_or_unknown_or_invalid(prefix: bytes, key: bytes, value: bytes) -> None:
    checked(prefix + key, value)


@given(st.sampled_from(sorted(BYTES)), st.integers(0, 1 << 20), st.integers(0, 7))
def test_a_flipped_bit_gives_a_record_or_unknown_or_invalid(name: str, place: int, bit: int) -> None:
    key, value = BYTES[name]
    damaged = bytearray(key + (value or b""))
    damaged[place % len(damaged)] ^= 1 << bit
    checked(bytes(damaged[: len(key)]), None if value is None else bytes(damaged[len(key) :]))


@given(st.sampled_from(sorted(BYTES)), st.binary(max_size=60), st.integers(2, 100))
def test_a_value_with_any_end_gives_a_record_or_unknown_or_invalid(name: str, end: bytes, kept: int) -> None:
    key, value = BYTES[name]
    checked(key, (value or b"\x00\x00")[:kept] + end)


@pytest.mark.parametrize("byte", [b"\x00", b"\x01", b"\x02", b"\x7f", b"\xff"])
def test_what_is_allocated_stays_in_proportion_to_the_bytes(byte: bytes) -> None:
    for key, value in BYTES.values():
        # The functions that decode are generated at their first use.
        checked(key, value)
        for kept in range(2, min(40, len(value or b""))):
            damaged = (value or b"")[:kept] + byte * 5_000
            tracemalloc.start()
            try:
                decode(key, damaged)
            except InvalidGroupRecord:
                pass
            finally:
                _, peak = tracemalloc.get_traced_memory()
                tracemalloc.stop()
            assert peak < len(damaged) * BYTES_DECODED_PER_BYTE_MAX, f"{key.hex()}: {peak} bytes"


# --- round trips -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("key_kind", "value_kind"), KINDS.items())
@given(seed=st.integers(0, 1 << 30))
def test_what_is_written_is_read(key_kind: type[Message], value_kind: type[Message], seed: int) -> None:
    chance = Random(seed)
    key = random_message(key_kind, 0, chance)
    value = random_message(value_kind, chance.choice(list(value_kind.versions)), chance)
    assert decode(*encode(GroupRecord(key, value))) == GroupRecord(key, value)
    assert decode(*encode(GroupRecord(key, None))) == GroupRecord(key, None)
