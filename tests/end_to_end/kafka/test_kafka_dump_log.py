"""Kafka's own DumpLogSegments reads the files of a partition as `kraft log dump` does, and complains of nothing."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from kraft.cli.log import app
from kraft.client import Admin, TransactionDescription
from kraft.coordinator.transactions.record_codec import encode
from kraft.coordinator.transactions.replicated import record_of
from kraft.coordinator.transactions.transaction import new_transaction
from kraft.log.change import run_now
from kraft.log.cleaning.cleaned_segments import open_cleaned
from kraft.log.cleaning.cleaning_plan import plan_cleaning
from kraft.log.cleaning.compaction import clean
from kraft.log.format.compression import Codec
from kraft.log.format.control_record import EndTransactionMarker, MarkerType, build_marker
from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from kraft.log.partition_log import PartitionLog
from kraft.log.topic_config import TopicConfig
from kraft.model.ids import LeaderEpoch, ProducerId, TopicPartition
from kraft.runtime.disk import RealDisk
from kraft.testing import Cluster
from tests.golden.transaction_records import RECORDS
from tests.support.kafka.kafka_jars import Finished, kafka_jars, run_kafka_tool
from tests.support.waiting import until

# Fetching the jars comes first, once.
pytestmark = pytest.mark.timeout(300)

ORDERS = TopicPartition("orders", 0)
NOW_MS = 1_700_000_000_000
DUMP_LOG_SEGMENTS = "org.apache.kafka.tools.DumpLogSegments"
COMPACTED = TopicConfig(
    segment_bytes=8_000,
    index_interval_bytes=100,
    cleanup_policy=("compact", "delete"),
    min_cleanable_dirty_ratio=0,
    delete_retention_ms=5_000,
)
SMALL_SEGMENTS = TopicConfig(segment_bytes=8_000, index_interval_bytes=300)


@pytest.fixture(scope="module")
def jars() -> Path:
    return kafka_jars()


# --- logs ------------------------------------------------------------------------------------------------------------


def record(number: int, timestamp_ms: int) -> Record:
    """Every combination of keys, values and headers that there are and are not."""
    return Record(
        0,
        timestamp_ms,
        (None, b"", f"Schlüssel-{number} \U0001f511".encode(), b"\xff\xfe\x80 no text")[number % 4],
        (None, b"", b"x" * (number % 200), "zażółć gęślą jaźń".encode())[number // 4 % 4],
        ((), (("trace", b"\x00\x01"),), (("a", None), ("a", b""), ("ключ", b"v")))[number % 3],
    )


def records(count: int, timestamp_ms: int) -> list[Record]:
    # Timestamps go back and forth within a batch, so that neither its first nor its last record has the largest.
    return [record(number, timestamp_ms + (number * 7) % 10) for number in range(count)]


def write_log(directory: Path, config: TopicConfig = SMALL_SEGMENTS) -> None:
    log = PartitionLog.open(RealDisk(), str(directory), config, ORDERS)
    sequence = 0
    for number in range(120):
        codec = Codec(number % 5)
        # A batch now and then comes from the past.
        batch_of = records(1 + number % 9, NOW_MS - 100_000 + number * 1_000 - (5_000 if number % 11 == 0 else 0))
        if number % 3:
            batch = build_batch(batch_of, codec)
        else:
            batch = build_batch(batch_of, codec, producer_id=7, producer_epoch=2, base_sequence=sequence)
            sequence += len(batch_of)
        log.append_as_leader(batch, LeaderEpoch(3 + number // 50), NOW_MS, run_now)
    log.close()


def write_transactions(directory: Path) -> None:
    """Write transactions as a follower gets them from its leader: committed, aborted, and one that is still open."""
    log = PartitionLog.open(RealDisk(), str(directory), TopicConfig(), ORDERS)

    def append(batch: bytes) -> None:
        placed = bytearray(batch)
        struct.pack_into(">q", placed, 0, log.log_end_offset)
        struct.pack_into(">i", placed, 12, 1)
        log.append_as_follower(placed)

    for number, kind in enumerate((MarkerType.COMMIT, MarkerType.ABORT, MarkerType.ABORT, None)):
        append(
            build_batch(records(3, NOW_MS), producer_id=number, producer_epoch=0, base_sequence=0, transactional=True)
        )
        if kind is not None:
            append(build_marker(EndTransactionMarker(type=kind, coordinator_epoch=5), number, 0, NOW_MS))
    run_now(log.rolling())
    log.close()


def write_transaction_records(directory: Path) -> None:
    """Write every golden record of `__transaction_state`, one with our own fields, and one of a later type."""
    log = PartitionLog.open(RealDisk(), str(directory), TopicConfig(), TopicPartition("__transaction_state", 0))
    ours = new_transaction(ProducerId(7), 60_000, NOW_MS, is_temporary=True).with_sequence(12, NOW_MS)
    fields = record_of("committer", ours, transaction_version=2)
    contents = [*map(encode, [*RECORDS.values(), fields]), (b"\0\x09later", b"\0\0")]
    for key, value in contents:
        batch = build_batch([Record(0, NOW_MS, key, value)])
        log.append_as_leader(batch, LeaderEpoch(1), NOW_MS, run_now)
    log.close()


def write_compacted(directory: Path) -> None:
    """Holes between and behind the batches, tombstones with a delete horizon, batches that are kept without records."""
    disk = RealDisk()
    log = PartitionLog.open(disk, str(directory), COMPACTED, ORDERS)
    for number in range(150):
        values = [b"v" * (number % 50), None, b"w" * 30]
        batch_of = [
            Record(0, NOW_MS + number * 100 + index, b"key-%d" % ((number * 3 + index) % 20), value, (("h", b""),))
            for index, value in enumerate(values)
        ]
        # Each of these producers writes once, and what it writes is outdated later.
        producer_id, epoch, sequence = (number, 0, 0) if number < 30 else (-1, -1, -1)
        batch = build_batch(batch_of, Codec(number % 5), producer_id, epoch, sequence)
        log.append_as_leader(batch, LeaderEpoch(1), NOW_MS, run_now)
    run_now(log.rolling())
    producers = {producer_id: state.last_offset for producer_id, state in log.producers.items()}
    plan = plan_cleaning(log.segments(), COMPACTED, log.cleaned_end_offset, log.log_end_offset, NOW_MS)
    assert plan is not None
    result = clean(disk, str(directory), plan, COMPACTED, NOW_MS, 1 << 20, producers, lambda _: None, ())
    assert 0 < result.records_kept < result.records_read
    for path in run_now(
        log.installing_cleaned(result, open_cleaned(disk, str(directory), result, COMPACTED.index_interval_bytes))
    ):
        disk.remove(path)
    log.close()


def commit_and_abort(cluster: Cluster) -> None:
    """Have a producer commit a transaction and abort another one; returns when both are complete."""
    transactional_id = "größe 😀"
    settings = {"bootstrap.servers": cluster.kafka_bootstrap_servers, "transactional.id": transactional_id}
    with Admin(cluster.bootstrap_servers) as admin:
        admin.create_topic("orders", 1, 1)
        producer = Producer(settings)
        producer.init_transactions(60)
        for ends in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            producer.produce("orders", b"value")
            producer.flush(60)
            ends(60)

        def is_complete() -> bool:
            described = admin.describe_transactions([transactional_id])[transactional_id]
            return isinstance(described, TransactionDescription) and described.state == "CompleteAbort"

        until(is_complete, "the aborted transaction is not complete")


# --- the two readers -------------------------------------------------------------------------------------------------


def files_in(directory: Path) -> list[Path]:
    suffixes = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    return sorted(path for path in directory.iterdir() if path.suffix in suffixes)


def by_kafka(jars: Path, files: list[Path], *flags: str) -> Finished:
    return run_kafka_tool(jars, DUMP_LOG_SEGMENTS, *flags, "--files", ",".join(map(str, files)))


def by_kraft(files: list[Path], *flags: str) -> Finished:
    result = CliRunner().invoke(app, ["dump", *flags, *map(str, files)])
    return Finished(code=result.exit_code, output=result.stdout, errors=result.stderr)


def complaints(kafka: Finished) -> list[str]:
    """Kafka's tool takes every segment for the first of its log: that of offset 500 follows, it says, offset -1."""
    remarks = re.compile(r"Non-consecutive offsets in .*|  -1 is followed by \d+")
    return [line for line in kafka.errors.splitlines() if not remarks.fullmatch(line)]


def check_both_read_the_same(jars: Path, files: list[Path], *flags: str) -> str:
    """Returns what both printed."""
    kafka, kraft = by_kafka(jars, files, *flags), by_kraft(files, *flags)
    assert (kafka.code, complaints(kafka)) == (0, [])
    assert (kraft.code, kraft.errors) == (0, "")
    assert kraft.output.splitlines() == kafka.output.splitlines()
    return kafka.output


# --- tests -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--deep-iteration",),
        ("--print-data-log",),
        ("--print-data-log", "--skip-record-metadata"),
        ("--max-bytes", "3000"),
        ("--index-sanity-check",),
        ("--verify-index-only",),
    ],
    ids=" ".join,
)
def test_kafka_reads_every_file_as_we_do(jars: Path, tmp_path: Path, flags: tuple[str, ...]) -> None:
    write_log(tmp_path / "orders-0")
    suffixes = [path.suffix for path in files_in(tmp_path / "orders-0")]
    assert suffixes.count(".log") >= 3
    assert set(suffixes) == {".log", ".index", ".timeindex", ".snapshot"}
    printed = check_both_read_the_same(jars, files_in(tmp_path / "orders-0"), *flags)
    for codec in Codec:
        assert f"compresscodec: {codec.config_name} " in printed
    assert "isvalid: false" not in printed


def test_kafka_reads_a_log_whose_timestamps_are_the_brokers(jars: Path, tmp_path: Path) -> None:
    config = TopicConfig(segment_bytes=8_000, index_interval_bytes=300, message_timestamp_type="LogAppendTime")
    write_log(tmp_path / "orders-0", config)
    printed = check_both_read_the_same(jars, files_in(tmp_path / "orders-0"), "--deep-iteration")
    assert f"LogAppendTime: {NOW_MS}" in printed
    assert "CreateTime" not in printed


def test_kafka_reads_transactions_and_their_markers(jars: Path, tmp_path: Path) -> None:
    write_transactions(tmp_path / "orders-0")
    printed = check_both_read_the_same(jars, files_in(tmp_path / "orders-0"), "--print-data-log")
    assert "isTransactional: true isControl: true" in printed
    assert "endTxnMarker: COMMIT coordinatorEpoch: 5" in printed
    assert "endTxnMarker: ABORT coordinatorEpoch: 5" in printed
    assert "version: 0 producerId: 1 firstOffset: 4 lastOffset: 7 lastStableOffset: " in printed
    assert "version: 0 producerId: 2 firstOffset: 8 lastOffset: 11 lastStableOffset: " in printed
    assert "producerId: 2 producerEpoch: 0 coordinatorEpoch: 5 currentTxnFirstOffset: OptionalLong.empty" in printed
    assert "producerId: 3 producerEpoch: 0 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong[12]" in printed


@pytest.mark.parametrize("flags", [(), ("--skip-record-metadata",)], ids=" ".join)
def test_kafka_decodes_the_records_of_transactions(jars: Path, tmp_path: Path, flags: tuple[str, ...]) -> None:
    directory = tmp_path / "__transaction_state-0"
    write_transaction_records(directory)
    files = [path for path in files_in(directory) if path.suffix == ".log"]
    printed = check_both_read_the_same(jars, files, "--transaction-log-decoder", *flags)
    assert 'key: {"type":"0","data":{"transactionalId":"größe 😀"}} payload: <DELETE>' in printed
    assert '"transactionStatus":4' in printed
    assert "key: Unknown record type 9 at offset " in printed


def test_kafka_reads_what_coordinators_and_their_markers_wrote(jars: Path, tmp_path: Path) -> None:
    with Cluster(1, tmp_path, {"transaction.state.log.num.partitions": "1"}) as cluster:
        commit_and_abort(cluster)
    (orders,), (state,) = tmp_path.rglob("orders-0"), tmp_path.rglob("__transaction_state-0")
    assert [path.suffix for path in files_in(orders)].count(".txnindex") == 1
    printed = check_both_read_the_same(jars, files_in(orders), "--print-data-log")
    assert re.search(r"endTxnMarker: COMMIT coordinatorEpoch: \d", printed)
    assert re.search(r"endTxnMarker: ABORT coordinatorEpoch: \d", printed)
    assert printed.count("version: 0 producerId: ") == 1
    printed = check_both_read_the_same(jars, files_in(state), "--transaction-log-decoder")
    states = re.findall(r'"transactionStatus":(\d)', printed)
    # Empty, then a transaction that is committed, then one that is aborted.
    assert states == ["0", "1", "2", "4", "1", "3", "5"]


def test_kafka_reads_a_compacted_log(jars: Path, tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    write_compacted(directory)
    files = [path for path in files_in(directory) if path.suffix != ".timeindex"]
    printed = check_both_read_the_same(jars, files)
    assert "deleteHorizonMs: OptionalLong[" in printed
    assert " count: 0 " in printed
    time_indexes = [path for path in files_in(directory) if path.suffix == ".timeindex"]
    kafka, kraft = by_kafka(jars, time_indexes), by_kraft(time_indexes)
    assert (kraft.code, kraft.errors, kraft.output.splitlines()) == (0, "", kafka.output.splitlines())
    assert complaints(kafka) == []
    files = [path for path in files_in(directory) if path.suffix == ".log"]
    kafka, kraft = by_kafka(jars, files, "--print-data-log"), by_kraft(files, "--print-data-log")
    assert kraft.output.splitlines() == kafka.output.splitlines()
    # Both tell of the holes; we do not of what comes before a segment.
    assert all("is followed by" in line for line in kraft.errors.splitlines())
    assert kraft.code == 0


def test_kafka_reads_what_a_killed_node_left_and_the_next_start_recovered(jars: Path, tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    write_log(directory)
    last = max(directory.glob("*.log"))
    last.write_bytes(last.read_bytes() + build_batch(records(5, NOW_MS))[:-7])
    for index in directory.glob("*index"):
        index.unlink()
    log = PartitionLog.open(RealDisk(), str(directory), SMALL_SEGMENTS, ORDERS)
    assert log.recovery_report.torn_bytes > 0
    log.close()
    check_both_read_the_same(jars, files_in(directory))


def test_both_find_the_same_bytes_unreadable(jars: Path, tmp_path: Path) -> None:
    write_log(tmp_path / "orders-0")
    first = files_in(tmp_path / "orders-0")[1]
    assert first.suffix == ".log"
    data = bytearray(first.read_bytes())
    data[100] ^= 1
    first.write_bytes(data[:-10])
    kafka, kraft = by_kafka(jars, [first]), by_kraft([first])
    assert kraft.output.splitlines() == kafka.output.splitlines()
    assert kafka.output.count("isvalid: false") == 1
    assert re.search(r"Found \d+ invalid bytes at the end of", kafka.output)
    assert (kafka.code, kraft.code) == (0, 1)
    assert len(kraft.errors.splitlines()) == 2
