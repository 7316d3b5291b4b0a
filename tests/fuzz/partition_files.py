"""The files of a small partition, and a broker's start with such a directory."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import Final

from kraft.log.change import run_now
from kraft.log.format.compression import Codec
from kraft.log.format.record_batch import build_batch, iter_records, split
from kraft.log.format.record_codec import Record
from kraft.log.integrity.directory import verify_partition
from kraft.log.integrity.inspection import aborted_entries, index_entries, inspect_batches, time_index_entries
from kraft.log.partition_log import PartitionLog
from kraft.log.topic_config import TopicConfig
from kraft.model.errors import Corruption, InvalidBatch
from kraft.model.ids import LeaderEpoch, Offset, TopicPartition
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.log.log_building import offset_at
from tests.support.log.transactional_log import ABORT, COMMIT, end, send

DIRECTORY: Final = "data/orders-0"
_ORDERS: Final = TopicPartition("orders", 0)
_CONFIG: Final = TopicConfig(segment_bytes=1_000, index_interval_bytes=100)
_NOW_MS: Final = 1_700_000_000_000
_READ_BYTES_MAX: Final = 1 << 20


@cache
def partition_files() -> dict[str, bytes]:
    """Return the files by name: segments with their indexes, aborted transactions, producer snapshots, checkpoints."""
    disk = MemoryDisk()
    log = PartitionLog.open(disk, DIRECTORY, _CONFIG, _ORDERS)
    for number in range(20):
        records = [Record(0, _NOW_MS + number, b"key", b"value %d" % number)] * (1 if number % 2 else 3)
        # Every second batch is of an idempotent producer, with the next of its sequence numbers.
        producer = (9, 1, number // 2) if number % 2 else (-1, -1, -1)
        batch = build_batch(records, Codec.NONE, *producer)
        log.append_as_leader(batch, LeaderEpoch(number // 8), _NOW_MS, run_now)
        if number % 4 == 1:
            send(log, 10, number // 4, "of a transaction")
            end(log, 10, ABORT if number % 8 == 1 else COMMIT)
    run_now(log.advancing_log_start(Offset(2)))
    ticket = log.prepare_sync()
    ticket.run()
    log.complete_sync(ticket, run_now)
    log.close()
    return {name: disk.read_file(f"{DIRECTORY}/{name}") for name in disk.list(DIRECTORY)}


def open_and_read(files: Mapping[str, bytes]) -> None:
    """Open the log as after a crash: the start and every read must succeed or raise Corruption."""
    disk = _disk(files)
    try:
        log = PartitionLog.open(disk, DIRECTORY, _CONFIG, _ORDERS)
        _read(log)
    except (Corruption, InvalidBatch):
        return


def verify_and_inspect(files: Mapping[str, bytes]) -> None:
    """Verify the files, which reports problems and raises nothing; reading a single file may raise Corruption."""
    disk = _disk(files)
    verify_partition(disk, DIRECTORY)
    for name in files:
        file = disk.open(f"{DIRECTORY}/{name}", create=False)
        for read in (
            inspect_batches,
            partial(index_entries, base_offset=0),
            partial(time_index_entries, base_offset=0),
            aborted_entries,
        ):
            try:
                list(read(file, name))
            except Corruption:
                continue


def _disk(files: Mapping[str, bytes]) -> MemoryDisk:
    disk = MemoryDisk()
    for name, content in files.items():
        disk.write_file(f"{DIRECTORY}/{name}", content)
    return disk


def _read(log: PartitionLog) -> None:
    assert log.log_start_offset <= log.log_end_offset, "the log ends before it starts"
    offset_at(log, _NOW_MS + 5)
    offset = log.log_start_offset
    while batches := log.read(offset, _READ_BYTES_MAX, log.log_end_offset):
        end = split(batches)[-1][0].next_offset
        assert end > offset, "a read does not come forward"
        list(iter_records(batches))
        offset = end
