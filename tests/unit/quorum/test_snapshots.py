from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from kraft.model.errors import Corruption
from kraft.quorum import snapshots
from kraft.quorum.snapshots import Snapshot, SnapshotId, SnapshotStore
from kraft.runtime.disk import RealDisk
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.disks.sim_content import CrashMode
from tests.support.disks.sim_disk import PowerFailure, SimDisk

CHUNKS = (b"first" * 10, b"second", b"t")


def at(index: int, term: int = 1) -> SnapshotId:
    return SnapshotId(index=index, term=term)


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


@pytest.fixture
def store(disk: MemoryDisk) -> SnapshotStore:
    return SnapshotStore(disk, "metadata")


def damage(disk: MemoryDisk, store: SnapshotStore, snapshot_id: SnapshotId, position: int = 40) -> None:
    data = bytearray(disk.read_file(store.path(snapshot_id)))
    data[position] ^= 1
    disk.write_file(store.path(snapshot_id), bytes(data))


# --- the format ---------------------------------------------------------------------------------------------------


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=5), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_a_snapshot_comes_back_as_it_was_written(chunks: list[bytes], index: int, term: int) -> None:
    data = snapshots.encode(at(index, term), chunks)
    assert snapshots.decode("file", data) == Snapshot(id=at(index, term), chunks=tuple(chunks))


@given(st.data())
def test_any_changed_byte_is_found(data: st.DataObject) -> None:
    whole = bytearray(snapshots.encode(at(7, 3), CHUNKS))
    position = data.draw(st.integers(0, len(whole) - 1))
    whole[position] ^= data.draw(st.integers(1, 255))
    with pytest.raises(Corruption):
        snapshots.decode("file", bytes(whole))


def test_a_snapshot_that_was_cut_off_anywhere_is_found() -> None:
    whole = snapshots.encode(at(7, 3), CHUNKS)
    for size in range(len(whole)):
        with pytest.raises(Corruption):
            snapshots.decode("file", whole[:size])


def test_bytes_behind_the_end_are_found() -> None:
    whole = snapshots.encode(at(7, 3), CHUNKS)
    with pytest.raises(Corruption, match=f"file at byte {len(whole)}: 1 bytes follow the end"):
        snapshots.decode("file", whole + b"\0")


def test_a_chunk_that_is_missing_repeated_or_swapped_is_found() -> None:
    chunks = (b"one chunk", b"two chunk", b"six chunk")
    whole = snapshots.encode(at(7, 3), chunks)
    size = 8 + 9
    header, rest = whole[: snapshots.HEADER_BYTES], whole[snapshots.HEADER_BYTES :]
    one, two, end = rest[:size], rest[size : 2 * size], rest[2 * size :]
    for wrong in (one + end, one + one + two + end, two + one + end):
        with pytest.raises(Corruption, match="the CRC of a chunk"):
            snapshots.decode("file", header + wrong)


def test_damage_is_reported_with_its_place() -> None:
    whole = bytearray(snapshots.encode(at(7, 3), CHUNKS))
    position = snapshots.HEADER_BYTES + 8 + len(CHUNKS[0])
    whole[position + 8] ^= 1
    with pytest.raises(Corruption, match=rf"^x\.checkpoint at byte {position}: the CRC of a chunk does not match"):
        snapshots.decode("x.checkpoint", bytes(whole))


def test_a_later_format_version_is_named() -> None:
    header = snapshots._HEADER.pack(b"KRAFTSN\0", 2, 7, 3)
    data = header + snapshots._CRC.pack(crc32c(header))
    with pytest.raises(Corruption, match="format version 2; this version of Kraft reads 1"):
        snapshots.decode("file", data)


@given(st.binary(min_size=1, max_size=200), st.integers(0, len(CHUNKS)))
def test_any_bytes_are_a_snapshot_or_corruption(noise: bytes, chunks: int) -> None:
    sound = snapshots.encode(at(7, 3), CHUNKS[:chunks])[: -snapshots._CHUNK.size]
    chunk = snapshots._CHUNK.pack(len(noise), snapshots._chunk_crc(len(sound), noise)) + noise
    for candidate in (noise, sound + noise, sound + chunk):
        with pytest.raises(Corruption):
            snapshots.decode("file", candidate)


# --- the store ----------------------------------------------------------------------------------------------------


def test_a_directory_that_does_not_exist_holds_nothing(tmp_path: Path) -> None:
    store = SnapshotStore(RealDisk(), str(tmp_path / "none"))
    assert store.generations() == []
    assert store.load() is None


def test_the_latest_is_loaded(tmp_path: Path) -> None:
    store = SnapshotStore(RealDisk(), str(tmp_path / "metadata"))
    for index in (5, 1_000, 20_000_000_000):
        assert store.write(at(index), CHUNKS) > 0
    assert store.load() == Snapshot(id=at(20_000_000_000), chunks=CHUNKS)


def test_two_generations_are_kept_and_leftovers_of_a_crash_are_removed(tmp_path: Path) -> None:
    store = SnapshotStore(RealDisk(), str(tmp_path))
    (tmp_path / "00000000000000000009-0000000001.checkpoint.tmp").write_bytes(b"half")
    (tmp_path / "quorum.journal").write_bytes(b"none of its business")
    for index in (5, 10, 15):
        store.write(at(index), CHUNKS)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "00000000000000000010-0000000001.checkpoint",
        "00000000000000000015-0000000001.checkpoint",
        "quorum.journal",
    ]


def test_one_that_stands_there_already_is_not_written_again(store: SnapshotStore) -> None:
    assert store.write(at(5), CHUNKS) > 0
    assert store.write(at(5), CHUNKS) == 0


def test_one_older_than_the_latest_is_not_written(store: SnapshotStore) -> None:
    store.write(at(5), CHUNKS)
    store.write(at(10), CHUNKS)
    assert store.write(at(8), CHUNKS) == 0
    assert store.generations() == [at(10), at(5)], "the earlier one, up to which the journal is trimmed, is kept"


def test_a_damaged_snapshot_is_renamed_and_the_one_before_it_used(disk: MemoryDisk, store: SnapshotStore) -> None:
    store.write(at(5), CHUNKS)
    store.write(at(10), CHUNKS)
    damage(disk, store, at(10))
    with capture_logs() as events:
        loaded = store.load()
    assert loaded is not None
    assert loaded.id == at(5)
    (event,) = events
    assert event["reason"].startswith("metadata/00000000000000000010-0000000001.checkpoint at byte 32: ")
    assert store.generations() == [at(5)]
    assert disk.exists(store.path(at(10)) + ".damaged")
    # What comes next may stand before the damaged one.
    store.write(at(8), CHUNKS)
    assert store.generations() == [at(8), at(5)]


def test_when_all_are_damaged_that_is_reported_and_every_file_stays(disk: MemoryDisk, store: SnapshotStore) -> None:
    for index in (5, 10):
        store.write(at(index), CHUNKS)
        damage(disk, store, at(index))
    for _ in range(2):
        with pytest.raises(Corruption, match="00000000000000000010"):
            store.load()
    store.mark_all_damaged()
    assert store.load() is None


def test_a_file_under_the_name_of_another_is_damaged(disk: MemoryDisk, store: SnapshotStore) -> None:
    store.write(at(5), CHUNKS)
    disk.rename(store.path(at(5)), store.path(at(6)))
    with pytest.raises(Corruption, match="the header is that of the snapshot at entry 5"):
        store.load()


def test_what_was_there_survives_a_write_that_fails(disk: MemoryDisk, store: SnapshotStore) -> None:
    store.write(at(5), CHUNKS)
    store.write(at(10), CHUNKS)
    disk.fails_writes = True
    with pytest.raises(OSError, match="no space"):
        store.write(at(15), CHUNKS)
    disk.fails_writes = False
    assert store.generations() == [at(10), at(5)]


def test_power_lost_while_superfluous_ones_are_removed_brings_them_back_at_worst(
    disk: MemoryDisk, store: SnapshotStore
) -> None:
    for index in (5, 10, 15):
        store.write(at(index), CHUNKS)
    disk.crash()
    assert store.load() == Snapshot(id=at(15), chunks=CHUNKS)
    store.write(at(20), CHUNKS)
    assert store.generations() == [at(20), at(15)]


def test_wherever_the_power_fails_a_snapshot_is_whole_or_the_one_before_it_is_there() -> None:
    whole = SimDisk()
    for index in (5, 10, 15):
        SnapshotStore(whole, "metadata/controller").write(at(index), CHUNKS)
    for point in range(1, whole.points + 1):
        for mode in CrashMode:
            disk, durable = SimDisk(), 0
            disk.stop_at = point
            with suppress(PowerFailure):
                for index in (5, 10, 15):
                    SnapshotStore(disk, "metadata/controller").write(at(index), CHUNKS)
                    durable = index
            assert durable < 15, f"the power did not fail at {point}"
            disk.crash(mode, Random(point))
            loaded = SnapshotStore(disk, "metadata/controller").load()
            found = 0 if loaded is None else loaded.id.index
            assert found >= durable, f"{mode} at {point}: {found} is left, and {durable} was durable"
