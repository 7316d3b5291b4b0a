"""Kraft reads batches that other clients built, and they read Kraft's. See tests/golden for how the files were made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from kraft.log.format.compression import Codec, decompress
from kraft.log.format.control_record import EndTransactionMarker, MarkerType, encode_marker
from kraft.log.format.record_batch import (
    HEADER_BYTES,
    TimestampType,
    build_batch,
    decode_batch,
    iter_records,
    read_header,
    rebuild_batch,
    split,
    validate,
    with_assigned_offsets,
)
from kraft.log.format.record_codec import Record, RecordColumns
from kraft.model.ids import LeaderEpoch, Offset
from tests.golden import clients
from tests.golden.records import BASE_TIMESTAMP_MS, RECORDS

FOLDER = Path(clients.__file__).parent / "batches"
CLIENTS = ("aiokafka", "kafka-python", "librdkafka")
FILES = sorted(FOLDER.glob("*.bin"))
UNCOMPRESSED = [file for file in FILES if file.stem.endswith(("-none", "-idempotent"))]

Reader = Callable[[bytes], list[Record]]


def by_librdkafka(batches: bytes) -> list[Record]:
    return clients.read_by_librdkafka(batches, sum(header.record_count for header, _ in split(batches)))


READERS = {
    "aiokafka": clients.read_by_aiokafka,
    "kafka-python": clients.read_by_kafka_python,
    "librdkafka": by_librdkafka,
}


@pytest.fixture(params=READERS)
def their_reader(request: pytest.FixtureRequest) -> Reader:
    return READERS[request.param]


def test_there_is_a_file_of_every_client_in_every_codec() -> None:
    names = {
        f"{client}-{kind}" for client in CLIENTS for kind in (*(codec.config_name for codec in Codec), "idempotent")
    }
    assert {file.stem for file in FILES} == names


# --- what they built, we read --------------------------------------------------------------------------------


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_their_batch_is_read_to_exactly_the_records_sent(file: Path) -> None:
    batch = file.read_bytes()
    header = validate(batch)
    client_and_kind = file.stem.rpartition("-")
    assert header.codec.config_name == client_and_kind[2].replace("idempotent", "none")
    assert (header.producer_id, header.base_sequence) == ((4000, 0) if "idempotent" in file.stem else (-1, -1))
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert header.max_timestamp_ms == max(record.timestamp_ms for record in RECORDS)
    assert decode_batch(batch) == list(iter_records(batch)) == RECORDS


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_their_records_are_read_by_the_codec_interpreted_and_compiled(codec: ModuleType, file: Path) -> None:
    batch = file.read_bytes()
    header = read_header(batch)
    payload = decompress(header.codec, batch[HEADER_BYTES:])
    assert codec.decode_records(payload, header.record_count, 0, header.base_timestamp_ms) == RECORDS
    columns = codec.decode_columns(payload, header.record_count, 0, header.base_timestamp_ms)
    assert columns == tuple(map(list, zip(*RECORDS, strict=True)))


# --- what we build is what they build ------------------------------------------------------------------------


@pytest.mark.parametrize("file", UNCOMPRESSED, ids=lambda file: file.stem)
def test_our_uncompressed_batch_of_the_same_records_is_byte_for_byte_theirs(file: Path) -> None:
    theirs = file.read_bytes()
    header = read_header(theirs)
    producer = header.producer_id, header.producer_epoch, header.base_sequence
    assert build_batch(RECORDS, Codec.NONE, *producer, leader_epoch=header.leader_epoch) == theirs


@pytest.mark.parametrize("file", UNCOMPRESSED, ids=lambda file: file.stem)
def test_the_codec_writes_their_bytes_interpreted_and_compiled(codec: ModuleType, file: Path) -> None:
    payload = file.read_bytes()[HEADER_BYTES:]
    assert codec.encode_records(RECORDS, BASE_TIMESTAMP_MS) == payload
    columns = codec.RecordColumns(*map(list, zip(*RECORDS, strict=True)))
    assert codec.encode_columns(columns, 0, BASE_TIMESTAMP_MS) == payload


# --- what we build, they read --------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.config_name)
def test_they_read_our_batches(their_reader: Reader, codec: Codec) -> None:
    assert their_reader(build_batch(RECORDS, codec)) == RECORDS


def test_they_read_our_batches_back_to_back(their_reader: Reader) -> None:
    batches = b""
    records: list[Record] = []
    for codec in Codec:
        batches += build_batch(RECORDS, codec, base_offset=len(records))
        records += [record._replace(offset=len(records) + record.offset) for record in RECORDS]
    assert their_reader(batches) == records


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.config_name)
def test_they_read_the_append_time_that_a_broker_set(their_reader: Reader, codec: Codec) -> None:
    header, payload = with_assigned_offsets(
        memoryview(build_batch(RECORDS, codec)), Offset(0), LeaderEpoch(4), BASE_TIMESTAMP_MS + 99
    )
    read = their_reader(bytes(header) + bytes(payload))
    assert read == [record._replace(timestamp_ms=BASE_TIMESTAMP_MS + 99) for record in RECORDS]


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.config_name)
def test_they_read_what_compaction_left_of_a_batch(their_reader: Reader, codec: Codec) -> None:
    kept = RECORDS[1::3]
    columns = RecordColumns(*map(list, zip(*kept, strict=True)))
    compacted = rebuild_batch(
        read_header(build_batch(RECORDS, codec)), columns, delete_horizon_ms=BASE_TIMESTAMP_MS * 2
    )
    assert read_header(compacted).delete_horizon_ms == BASE_TIMESTAMP_MS * 2
    assert decode_batch(compacted) == their_reader(compacted) == kept


def test_librdkafka_passes_over_our_control_batches() -> None:
    marker = encode_marker(EndTransactionMarker(type=MarkerType.COMMIT, coordinator_epoch=1), BASE_TIMESTAMP_MS)
    control = build_batch([marker], producer_id=9, producer_epoch=1, transactional=True, control=True)
    batches = control + build_batch(RECORDS, base_offset=1)
    expected = [record._replace(offset=record.offset + 1) for record in RECORDS]
    assert clients.read_by_librdkafka(batches, len(expected)) == list(iter_records(batches)) == expected


@pytest.mark.parametrize("kind", ["none", "idempotent"])
def test_the_clients_installed_still_build_the_golden_bytes(kind: str) -> None:
    producer = (4000, 3, 0) if kind == "idempotent" else clients.NO_PRODUCER
    built = {
        "kafka-python": clients.built_by_kafka_python(RECORDS, Codec.NONE, producer),
        "aiokafka": clients.built_by_aiokafka(RECORDS, Codec.NONE, producer),
        "librdkafka": clients.built_by_librdkafka(RECORDS, Codec.NONE, idempotent=kind == "idempotent"),
    }
    assert built == {client: (FOLDER / f"{client}-{kind}.bin").read_bytes() for client in built}
