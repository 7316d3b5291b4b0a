"""A topic's `compression.type`: batches of other codecs are recompressed before they are appended."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft.log.append_work import AppendMustWait
from kraft.log.change import run_now
from kraft.log.format.compression import Codec, compress, decompress
from kraft.log.format.record_batch import (
    HEADER_BYTES,
    BatchHeader,
    TimestampType,
    build_batch,
    check_crc,
    iter_records,
    split,
)
from kraft.log.format.record_codec import Record
from kraft.log.partition_log import PartitionLog
from kraft.log.topic_config import PRODUCER, UNCOMPRESSED, TopicConfig
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import LeaderEpoch
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.log.log_building import NOW_MS, append_with_work, open_log, patched, read_records, refused

RECORDS = [
    Record(0, NOW_MS, b"key", b"value" * 100, (("trace", b"1"), ("trace", None), ("é", b""))),
    Record(1, NOW_MS - 5_000, None, None),
    Record(2, NOW_MS + 1_000, b"", b"x" * 1_000),
]
CODECS = list(Codec)


def log_of(codec: Codec | None, **configs: Any) -> PartitionLog:
    named = PRODUCER if codec is None else UNCOMPRESSED if codec is Codec.NONE else codec.config_name
    return open_log(MemoryDisk(), TopicConfig(compression_type=named, **configs))


def stored(log: PartitionLog) -> list[tuple[BatchHeader, memoryview]]:
    return split(log.read(log.log_start_offset, 1 << 30, log.log_end_offset))


def produced(codec: Codec, records: list[Record] = RECORDS, sequence: int = 7) -> bytes:
    return build_batch(records, codec, producer_id=5, producer_epoch=2, base_sequence=sequence)


@pytest.mark.parametrize(("sent", "wanted"), list(product(CODECS, CODECS)))
def test_every_codec_becomes_every_other_one_and_nothing_else_changes(sent: Codec, wanted: Codec) -> None:
    log = log_of(wanted)
    batch = produced(sent)
    ((before, _),) = split(batch)
    result, works = append_with_work(log, batch, epoch=4)
    assert (result.base_offset, result.last_offset, works) == (0, 2, 0 if sent is wanted else 1)
    ((header, bytes_in_log),) = stored(log)
    check_crc(header, bytes_in_log)
    assert header.codec is wanted
    unchanged = ("base_offset", "last_offset_delta", "base_timestamp_ms", "max_timestamp_ms", "producer_id")
    for field in (*unchanged, "producer_epoch", "base_sequence", "record_count", "magic"):
        assert getattr(header, field) == getattr(before, field), field
    assert header.leader_epoch == 4
    assert read_records(log) == RECORDS
    if sent is wanted:
        assert bytes(bytes_in_log)[HEADER_BYTES:] == batch[HEADER_BYTES:]


def test_with_producer_the_bytes_are_those_that_were_sent() -> None:
    log = log_of(None)
    for codec in CODECS:
        _, works = append_with_work(log, batch := produced(codec, sequence=7 + 3 * codec))
        assert works == 0
        assert bytes(stored(log)[-1][1])[21:] == batch[21:]


@pytest.mark.parametrize("wanted", [codec for codec in CODECS if codec is not Codec.NONE])
def test_the_batch_is_the_one_that_a_producer_with_that_codec_would_have_sent(wanted: Codec) -> None:
    """The golden bytes are those of Kraft's own producer, which other clients are tested against."""
    log = log_of(wanted)
    append_with_work(log, produced(Codec.NONE))
    ((_, batch),) = stored(log)
    assert bytes(batch)[21:] == produced(wanted)[21:]


@pytest.mark.parametrize(("codec", "small", "large"), [(Codec.GZIP, 9, 1), (Codec.LZ4, 12, 9), (Codec.ZSTD, 19, -50)])
def test_the_compression_level_is_that_of_the_codec(codec: Codec, small: int, large: int) -> None:
    words = b"".join(b"%d is a number and %d its square, " % (number, number**2) for number in range(3_000))
    sizes = []
    for level in (small, large):
        log = log_of(codec, **{f"compression_{codec.config_name}_level": level})
        append_with_work(log, build_batch([Record(0, NOW_MS, None, words)]))
        sizes.append(log.size_bytes)
        assert read_records(log)[0].value == words
    assert sizes[0] < sizes[1]


def test_a_retry_is_a_duplicate_whatever_its_bytes_became() -> None:
    log = log_of(Codec.ZSTD)
    first, _ = append_with_work(log, produced(Codec.GZIP))
    for retry in (produced(Codec.GZIP), produced(Codec.ZSTD), produced(Codec.NONE)):
        again, _ = append_with_work(log, retry)
        assert (again.duplicate, again.base_offset, again.last_offset) == (True, 0, 2)
    assert not first.duplicate
    assert log.log_end_offset == 3


def test_log_append_time_is_in_the_header_of_a_recompressed_batch() -> None:
    log = log_of(Codec.SNAPPY, message_timestamp_type="LogAppendTime")
    result, _ = append_with_work(log, produced(Codec.GZIP))
    ((header, batch),) = stored(log)
    check_crc(header, batch)
    assert (header.timestamp_type, header.max_timestamp_ms) == (TimestampType.LOG_APPEND_TIME, NOW_MS)
    assert header.codec is Codec.SNAPPY
    assert result.log_append_time_ms == NOW_MS
    assert {record.timestamp_ms for record in iter_records(bytes(batch))} == {NOW_MS}


def test_a_wrong_largest_timestamp_in_the_header_is_corrected() -> None:
    log = log_of(Codec.GZIP)
    append_with_work(log, patched(produced(Codec.NONE), 35, (NOW_MS + 2_000).to_bytes(8, "big")))
    ((header, _),) = stored(log)
    assert header.max_timestamp_ms == NOW_MS + 1_000


def test_a_batch_that_grows_beyond_max_message_bytes_is_refused_as_by_kafka() -> None:
    batch = build_batch([Record(0, NOW_MS, None, bytes(10_000))], Codec.ZSTD)
    log = log_of(Codec.NONE, max_message_bytes=5_000)
    assert len(batch) < 5_000
    assert refused(log, batch).error_code is ErrorCode.MESSAGE_TOO_LARGE
    assert refused(log_of(Codec.NONE, segment_bytes=5_000), batch).error_code is ErrorCode.RECORD_LIST_TOO_LARGE


def test_a_batch_that_fits_only_after_compression_is_refused_as_by_kafka() -> None:
    batch = build_batch([Record(0, NOW_MS, None, bytes(10_000))])
    assert refused(log_of(Codec.ZSTD, max_message_bytes=5_000), batch).error_code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec is not Codec.NONE])
def test_a_payload_that_cannot_be_decompressed_is_an_invalid_record(codec: Codec) -> None:
    batch = produced(codec)
    broken = patched(batch, len(batch) - 12, b"\xff" * 12)
    refusal = refused(log_of(Codec.NONE), broken)
    assert refusal.error_code is ErrorCode.INVALID_RECORD
    assert not refusal.error_code.retriable
    append_with_work(log_of(None), broken)


def test_a_bomb_is_refused_before_it_is_decompressed() -> None:
    payload = compress(Codec.ZSTD, bytes(64 << 20))
    batch = bytearray(build_batch([Record(0, NOW_MS, None, b"")], Codec.ZSTD)[:HEADER_BYTES] + payload)
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    assert refused(log_of(Codec.LZ4), patched(bytes(batch), 0, b"")).error_code is ErrorCode.INVALID_RECORD


def test_several_batches_are_each_recompressed() -> None:
    log = log_of(Codec.LZ4)
    sent = [build_batch([Record(0, NOW_MS, None, b"v")], codec) for codec in (Codec.LZ4, Codec.NONE, Codec.GZIP)]
    append_with_work(log, b"".join(sent))
    assert [header.codec for header, _ in stored(log)] == [Codec.LZ4] * 3
    assert [header.base_offset for header, _ in stored(log)] == [0, 1, 2]


def test_compacted_topics_check_keys_and_compress_in_one() -> None:
    log = log_of(Codec.ZSTD, cleanup_policy=("compact", "delete"))
    assert refused(log, produced(Codec.GZIP)).error_code is ErrorCode.INVALID_RECORD
    _, works = append_with_work(log, build_batch([Record(0, NOW_MS, b"k", b"v")], Codec.GZIP))
    assert works == 1


def test_an_append_that_must_wait_has_changed_nothing() -> None:
    log = log_of(Codec.ZSTD)
    with pytest.raises(AppendMustWait):
        log.append_as_leader(produced(Codec.NONE), LeaderEpoch(0), NOW_MS, run_now)
    assert (log.log_end_offset, log.size_bytes, dict(log.producers)) == (0, 0, {})


def test_followers_copy_what_the_leader_has_whatever_their_own_configs_say() -> None:
    leader, follower = log_of(Codec.ZSTD), log_of(Codec.GZIP)
    append_with_work(leader, produced(Codec.NONE), epoch=1)
    batches = leader.read(leader.log_start_offset, 1 << 20, leader.log_end_offset)
    follower.append_as_follower(batches)
    assert follower.read(follower.log_start_offset, 1 << 20, follower.log_end_offset) == batches


_records = st.lists(
    st.builds(
        Record,
        st.just(0),
        st.integers(-1, NOW_MS + 1_000),
        st.none() | st.binary(max_size=40),
        st.none() | st.binary(max_size=300),
        st.lists(st.tuples(st.text(max_size=9), st.none() | st.binary(max_size=20)), max_size=4).map(tuple),
    ),
    min_size=1,
    max_size=60,
)


@settings(max_examples=100, deadline=None)
@given(records=_records, sent=st.sampled_from(CODECS), wanted=st.sampled_from(CODECS))
def test_records_are_the_same_before_and_after(records: list[Record], sent: Codec, wanted: Codec) -> None:
    log = log_of(wanted)
    append_with_work(log, build_batch(records, sent))
    assert read_records(log) == [record._replace(offset=at) for at, record in enumerate(records)]


@settings(max_examples=200, deadline=None)
@given(payload=st.binary(max_size=200), count=st.integers(1, 5), sent=st.sampled_from(CODECS))
def test_any_payload_is_recompressed_unchanged_or_refused(payload: bytes, count: int, sent: Codec) -> None:
    """Payloads that the record codec refuses are not appended, and appended ones are unchanged."""
    head = bytearray(build_batch([Record(at, NOW_MS, None, b"") for at in range(count)], sent)[:HEADER_BYTES])
    batch = head + compress(sent, payload)
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    log = log_of(Codec.GZIP if sent is not Codec.GZIP else Codec.ZSTD)
    code = None
    try:
        append_with_work(log, patched(bytes(batch), 0, b""))
    except Refusal as refusal:
        code = refusal.error_code
    if code is not None:
        assert code in (ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP)
        return
    ((header, placed),) = stored(log)
    assert decompress(header.codec, placed[HEADER_BYTES:]) == payload
    assert len(read_records(log)) == count
