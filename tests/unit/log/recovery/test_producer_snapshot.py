from __future__ import annotations

import struct

from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kraft.log.change import run_now
from kraft.log.recovery.producer_snapshot import ProducerSnapshots, decode_snapshot, encode_snapshot
from kraft.log.recovery.producer_state import ProducerState, WrittenBatch
from kraft.model.errors import Corruption
from kraft.model.ids import Offset
from tests.support.disks.memory_disk import MemoryDisk

PATH = f"data/orders-0/{30:020d}.snapshot"

batches = st.builds(
    lambda sequence, base_offset, span, timestamp_ms: WrittenBatch(
        sequence, (sequence + span) & (2**31 - 1), Offset(base_offset), Offset(base_offset + span), timestamp_ms
    ),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**62),
    st.integers(0, 2**31 - 1),
    st.integers(-1, 2**42),
)
states = st.dictionaries(
    st.integers(0, 2**62),
    st.builds(
        ProducerState,
        epoch=st.integers(0, 2**15 - 1),
        batches=st.lists(batches, max_size=5).map(tuple),
        last_offset=st.integers(0, 2**40).map(Offset),
        timestamp_ms=st.integers(-1, 2**42),
        coordinator_epoch=st.integers(-1, 2**31 - 1),
        transaction_start=st.none() | st.integers(0, 2**40).map(Offset),
    ),
    max_size=6,
)


def written(sequence: int, base_offset: int) -> WrittenBatch:
    return WrittenBatch(sequence, sequence + 2, Offset(base_offset), Offset(base_offset + 2), 1000 + base_offset)


STATE = ProducerState(
    epoch=3,
    batches=(written(0, 10), written(3, 20)),
    last_offset=Offset(22),
    timestamp_ms=1020,
    coordinator_epoch=4,
    transaction_start=Offset(10),
)


def test_golden_it_begins_as_kafkas_file_of_version_1() -> None:
    data = encode_snapshot({7: STATE})
    kafkas = struct.pack(">i qhiqiqiq", 1, 7, 3, 5, 22, 2, 1020, 4, 10)
    assert data[:2].hex() == "0001"
    assert data[2:6] == crc32c(data[6:]).to_bytes(4, "big")
    assert data[6 : 6 + len(kafkas)] == kafkas


def test_a_file_that_kafka_wrote_is_read() -> None:
    content = struct.pack(">i qhiqiqiq qhiqiqiq", 2, 7, 3, 5, 22, 2, 1020, -1, -1, 8, 0, -1, -1, 0, 50, 4, -1)
    found = decode_snapshot(struct.pack(">hI", 1, crc32c(content)) + content, PATH)
    assert found[7] == ProducerState(epoch=3, batches=(written(3, 20),), last_offset=Offset(22), timestamp_ms=1020)
    assert found[8].batches == ()
    assert (found[8].coordinator_epoch, found[8].transaction_start) == (4, None)


@given(states)
def test_every_state_comes_back(written_states: dict[int, ProducerState]) -> None:
    assert decode_snapshot(encode_snapshot(written_states), PATH) == written_states


@given(st.binary(max_size=300) | st.integers(0, 8 * len(encode_snapshot({7: STATE})) - 1), st.booleans())
def test_any_other_bytes_are_corruption(noise: bytes | int, with_checksum: bool) -> None:
    if isinstance(noise, int):
        flipped = bytearray(encode_snapshot({7: STATE}))
        flipped[noise // 8] ^= 1 << noise % 8
        data = bytes(flipped)
        if with_checksum:
            data = data[:2] + struct.pack(">I", crc32c(data[6:])) + data[6:]
    else:
        data = struct.pack(">hI", 1, crc32c(noise)) + noise if with_checksum else noise
    try:
        decode_snapshot(data, PATH)
    except Corruption:
        return
    assert with_checksum, "bytes without a right checksum were believed"


def test_the_latest_readable_one_within_the_bounds_is_found() -> None:
    disk = MemoryDisk()
    snapshots = ProducerSnapshots(disk, "data/orders-0", [])
    for offset in (10, 20, 30):
        run_now(snapshots.write(Offset(offset), {offset: STATE}))
    assert snapshots.latest(Offset(0), Offset(29)) == (20, {20: STATE})
    disk.write_file(PATH, b"damaged")
    assert snapshots.latest(Offset(0), Offset(99)) == (20, {20: STATE})
    assert snapshots.offsets == (10, 20), "a damaged one is removed"
    assert snapshots.latest(Offset(21), Offset(99)) is None


def test_what_is_not_kept_is_removed_from_the_disk() -> None:
    disk = MemoryDisk()
    snapshots = ProducerSnapshots(disk, "data/orders-0", [])
    for offset in (10, 20, 30, 40):
        run_now(snapshots.write(Offset(offset), {}))
    run_now(snapshots.remove_above(Offset(30)))
    run_now(snapshots.keep_only([30, 99]))
    assert snapshots.offsets == (30,)
    assert disk.list("data/orders-0") == [f"{30:020d}.snapshot"]
