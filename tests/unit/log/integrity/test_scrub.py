from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft.log.format.compression import Codec
from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from kraft.log.integrity import scrub
from kraft.log.integrity.scrub import Expected, ScrubbedSegment, scrub_segment
from kraft.log.leader_epochs import EpochStart, LeaderEpochCache
from kraft.model.ids import LeaderEpoch, Offset
from tests.support.disks.memory_disk import MemoryDisk

PATH = "orders-0/00000000000000000100.log"
BASE = 100


def batch(at: int, *values: str, epoch: int = 1, codec: Codec = Codec.NONE) -> bytes:
    records = [Record(offset, 1_000 + offset, None, value.encode()) for offset, value in enumerate(values, start=at)]
    return build_batch(records, codec, base_offset=at, leader_epoch=epoch)


SEGMENT = (batch(100, "a", "b"), batch(102, "c"), batch(103, "d" * 50, epoch=2), batch(104, "e"))
END = 105


def scrubbed(pieces: Sequence[bytes] | bytes, **expected: Any) -> ScrubbedSegment:
    disk = MemoryDisk()
    disk.write_file(PATH, pieces if isinstance(pieces, bytes) else b"".join(pieces))
    return scrub_segment(disk, PATH, Expected(base_offset=Offset(BASE), **expected), read_bytes=lambda _: None)


def problems(pieces: Sequence[bytes] | bytes, **expected: Any) -> list[tuple[int, str]]:
    found = scrubbed(pieces, **expected).problems
    assert all(each.file == PATH for each in found)
    return [(each.position, each.reason) for each in found]


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_a_sound_segment_is_counted_through() -> None:
    found = scrubbed((*SEGMENT[:3], batch(104, "e", epoch=2)), end_offset=Offset(END))
    assert found.problems == ()
    assert (found.batches, found.records, found.next_offset) == (4, 5, END)
    assert (found.max_timestamp_ms, found.last_epoch) == (1_104, 2)


def test_an_empty_segment_is_sound() -> None:
    assert problems(b"", end_offset=Offset(BASE)) == []
    assert problems(b"") == []


def test_a_wrong_checksum_is_reported_with_its_position_and_the_rest_is_read() -> None:
    bad = bytearray(SEGMENT[1])
    bad[-1] ^= 1
    found = scrubbed((SEGMENT[0], bytes(bad), SEGMENT[2]))
    assert [(each.position, "checksum" in each.reason) for each in found.problems] == [(len(SEGMENT[0]), True)]
    assert (found.batches, found.next_offset) == (2, 104)


def test_nothing_is_read_behind_a_batch_whose_length_leads_nowhere() -> None:
    bad = bytearray(SEGMENT[1])
    bad[8:12] = b"\x7f\xff\xff\xff"
    found = scrubbed((SEGMENT[0], bytes(bad), SEGMENT[2]))
    assert [each.position for each in found.problems] == [len(SEGMENT[0])]
    assert found.batches == 1


def test_a_file_that_ends_inside_a_batch_is_reported() -> None:
    for cut in (1, 30, len(SEGMENT[1]) - 5):
        ((position, _),) = problems(SEGMENT[0] + SEGMENT[1][:cut])
        assert position == len(SEGMENT[0])


def test_batches_lost_from_the_end_of_a_closed_segment_are_missed() -> None:
    ((position, reason),) = problems(SEGMENT[:1], end_offset=Offset(END))
    assert position == len(SEGMENT[0])
    assert reason == "the batches end at offset 102, the next segment begins at 105"


def test_a_hole_between_batches_is_reported_unless_the_log_was_compacted() -> None:
    ((position, reason),) = problems((SEGMENT[0], SEGMENT[3]), end_offset=Offset(END))
    assert (position, reason) == (len(SEGMENT[0]), "a batch has base offset 104, expected 102")
    assert problems((SEGMENT[0], SEGMENT[3]), end_offset=Offset(END), sparse=True) == []


def test_a_batch_that_occurs_twice_is_reported_even_in_a_compacted_log() -> None:
    ((_, reason),) = problems((SEGMENT[0], SEGMENT[0]), sparse=True)
    assert reason == "a batch has base offset 100, expected 102"


def test_a_batch_that_reaches_into_the_next_segment_is_reported() -> None:
    ((_, reason),) = problems(SEGMENT[:2], end_offset=Offset(102))
    assert reason == "a batch ends at offset 102, the next segment begins at 102"


def test_a_leader_epoch_that_goes_back_is_reported() -> None:
    ((_, reason),) = problems(SEGMENT)
    assert reason == "the batch at offset 104 has leader epoch 1, after 2"


def test_a_leader_epoch_that_the_epoch_cache_contradicts_is_reported() -> None:
    epochs = LeaderEpochCache((EpochStart(LeaderEpoch(1), Offset(0)), EpochStart(LeaderEpoch(2), Offset(103))))
    assert problems(SEGMENT[:3], epochs=epochs) == []
    bad = batch(102, "c", epoch=2)
    ((_, reason),) = problems((SEGMENT[0], bad, SEGMENT[2]), epochs=epochs)
    assert reason == "the batch at offset 102 has leader epoch 2, expected 1"


def test_an_epoch_that_the_epoch_cache_no_longer_has_is_not_checked() -> None:
    epochs = LeaderEpochCache((EpochStart(LeaderEpoch(2), Offset(103)),))
    assert problems(SEGMENT[:3], epochs=epochs) == []


def test_batches_behind_the_end_of_a_log_in_use_are_not_read() -> None:
    for torn in (SEGMENT[2], SEGMENT[2][:70]):
        found = scrubbed((*SEGMENT[:2], torn), end_offset=Offset(103), stops_at_end=True)
        assert (found.problems, found.next_offset) == ((), 103)


def test_records_are_decoded_on_request() -> None:
    disk = MemoryDisk()
    disk.write_file(PATH, batch(100, *"abc" * 100, codec=Codec.GZIP) + SEGMENT[1][:0])
    sound = scrub_segment(
        disk, PATH, Expected(base_offset=Offset(BASE)), decode_records=True, read_bytes=lambda _: None
    )
    assert (sound.records, sound.problems) == (300, ())
    # Sealed with a right checksum, as a producer could send it, but no gzip.
    bad = bytearray(batch(100, "a", codec=Codec.GZIP))
    bad[61:] = b"x" * len(bad[61:])
    bad[17:21] = crc32c(bytes(bad[21:])).to_bytes(4, "big")
    disk.write_file(PATH, bytes(bad))
    (problem,) = scrub_segment(
        disk, PATH, Expected(base_offset=Offset(BASE)), decode_records=True, read_bytes=lambda _: None
    ).problems
    assert "cannot be read" in problem.reason
    assert scrub_segment(disk, PATH, Expected(base_offset=Offset(BASE)), read_bytes=lambda _: None).problems == ()


def test_a_batch_larger_than_the_window_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrub, "WINDOW_BYTES", 200)
    large = batch(100, "v" * 5_000)
    reads: list[int] = []
    disk = MemoryDisk()
    disk.write_file(PATH, large + batch(101, "w") + flipped(batch(102, "x" * 3_000), 8 * 2_000))
    found = scrub_segment(disk, PATH, Expected(base_offset=Offset(BASE)), read_bytes=reads.append)
    assert [each.position for each in found.problems] == [len(large) + len(batch(101, "w"))]
    assert max(reads) == 200


def test_the_reader_may_be_stopped() -> None:
    class StoppedError(Exception):
        pass

    def stop(_: int) -> None:
        raise StoppedError

    disk = MemoryDisk()
    disk.write_file(PATH, SEGMENT[0])
    with pytest.raises(StoppedError):
        scrub_segment(disk, PATH, Expected(base_offset=Offset(BASE)), read_bytes=stop)


def test_a_segment_that_is_gone_raises_file_not_found() -> None:
    with pytest.raises(FileNotFoundError):
        scrub_segment(MemoryDisk(), PATH, Expected(base_offset=Offset(BASE)), read_bytes=lambda _: None)


def test_every_single_flipped_bit_of_a_segment_is_noticed() -> None:
    data = b"".join([*SEGMENT[:3], batch(104, "e", epoch=2)])
    epochs = LeaderEpochCache((EpochStart(LeaderEpoch(1), Offset(0)), EpochStart(LeaderEpoch(2), Offset(103))))
    unnoticed = [
        bit for bit in range(len(data) * 8) if not problems(flipped(data, bit), end_offset=Offset(END), epochs=epochs)
    ]
    assert unnoticed == []


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 4), st.integers(0, 72), st.binary(min_size=1, max_size=4), st.booleans())
def test_any_bytes_end_in_a_report(noise: bytes, sound: int, position: int, patch: bytes, sparse: bool) -> None:
    damaged = bytearray(SEGMENT[3])
    damaged[position : position + len(patch)] = patch
    sealed = damaged[:17] + crc32c(bytes(damaged[21:])).to_bytes(4, "big") + damaged[21:]
    for rest in (noise, bytes(damaged), bytes(sealed)):
        found = scrubbed(b"".join(SEGMENT[:sound]) + rest, sparse=sparse, end_offset=Offset(END))
        assert len(found.problems) <= scrub.PROBLEMS_MAX
