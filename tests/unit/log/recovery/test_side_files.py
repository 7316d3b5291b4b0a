from __future__ import annotations

from kraft.log.change import run_now
from kraft.log.format.record_batch import BatchHeader, read_header
from kraft.log.leader_epochs import LeaderEpochCache
from kraft.log.recovery.log_checkpoint import LogCheckpoint, read_checkpoint
from kraft.log.recovery.producer_snapshot import ProducerSnapshots
from kraft.log.recovery.side_files import SideFiles
from kraft.model.ids import LeaderEpoch, Offset
from tests.unit.log.compacted_log import batch_at
from tests.unit.log.memory_disk import MemoryDisk

DIRECTORY = "data/orders-0"
CHECKPOINT = LogCheckpoint(log_start_offset=Offset(3), recovery_point=Offset(40), cleaned_end_offset=Offset(30))


def header_of(offset: int, epoch: int) -> BatchHeader:
    return read_header(batch_at(offset, ("k", "v"), leader_epoch=epoch))


def side_files(disk: MemoryDisk) -> SideFiles:
    disk.make_dir(DIRECTORY)
    files = SideFiles(disk, DIRECTORY, LogCheckpoint(), LeaderEpochCache(), ProducerSnapshots(disk, DIRECTORY, []))
    run_now(files.remember(CHECKPOINT))
    return files


def test_what_is_no_news_is_not_written() -> None:
    disk = MemoryDisk()
    files = side_files(disk)
    for name in disk.list(DIRECTORY):
        disk.remove(f"{DIRECTORY}/{name}")
    run_now(files.remember(CHECKPOINT))
    assert disk.list(DIRECTORY) == []


def test_after_a_truncation_no_file_knows_more_than_the_log() -> None:
    disk = MemoryDisk()
    files = side_files(disk)
    for offset in (10, 20, 30):
        run_now(files.write_producers(Offset(offset), {}, Offset(40)))
    run_now(files.forget_from(Offset(20), growing=Offset(15)))
    kept = read_checkpoint(disk, DIRECTORY)
    assert (kept.log_start_offset, kept.recovery_point, kept.cleaned_end_offset) == (3, 15, 20)
    assert files.checkpoint == kept
    assert files.snapshots.offsets == (10, 20)


def test_a_snapshot_is_kept_for_each_segment_and_the_latest() -> None:
    files = side_files(MemoryDisk())
    for offset in (10, 20, 30, 40):
        run_now(files.write_producers(Offset(offset), {}, Offset(40)))
    run_now(files.drop_stale_snapshots([Offset(0), Offset(20)]))
    assert files.snapshots.offsets == (20, 40)


def test_an_epoch_is_on_the_disk_before_its_first_batch() -> None:
    disk = MemoryDisk()
    files = side_files(disk)
    run_now(files.begin_epochs([header_of(5, 3), header_of(6, 3), header_of(7, 4)]))
    disk.crash()
    assert disk.read_file(f"{DIRECTORY}/leader-epoch-checkpoint") == files.epochs.encode()
    assert files.epochs.entries == ((3, 5), (4, 7))
    assert files.epochs.latest_epoch == LeaderEpoch(4)
