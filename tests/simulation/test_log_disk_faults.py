"""Disks that fail without a power loss: failed syncs and reads, a full disk, and disks that report false syncs."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from kraft.log.change import run_now
from kraft.log.partition_log import PartitionLog
from kraft.log.topic_config import TopicConfig
from kraft.model.errors import Corruption, ErrorCode, Refusal
from kraft.model.ids import LeaderEpoch, Offset
from tests.simulation.failed_syncs import FailingSync, fail_everywhere, run_until_refused
from tests.simulation.log_workload import Workload
from tests.support.disks.sim_content import Content, CrashMode, SyncFailure
from tests.support.disks.sim_disk import SimDisk
from tests.support.log.log_building import DIRECTORY, NOW_MS, append, batch_of, read_all, stored, sync
from tests.support.log.log_expectations import Broken, meets
from tests.support.log.modelled_log import ModelledLog, new_disk, open_log

STEPS = 120
STEPS_BEFORE_A_FAILED_SYNC = 80
"""Fewer, because every sync of them is another run."""


@pytest.fixture(autouse=True)
def frequent_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kraft.log.group_commit.CHECKPOINT_INTERVAL_BYTES", 2500)


# --- failed syncs --------------------------------------------------------------------------------------------


def is_offline_for_good(model: ModelledLog) -> None:
    synced = model.log.synced_end_offset
    assert model.log.failure is not None
    for attempt in (
        lambda: model.log.append_as_leader(batch_of("more"), LeaderEpoch(model.epoch), NOW_MS, run_now),
        model.log.prepare_sync,
        lambda: run_now(model.log.rolling()),
    ):
        with pytest.raises(Refusal):
            attempt()
    assert model.log.synced_end_offset == synced


@pytest.mark.slow
def test_after_a_failed_sync_the_log_is_offline_for_good_and_nothing_synced_is_lost() -> None:
    failed: Counter[str] = Counter()
    for number in range(1, 2000):
        workload = Workload(5)
        model = workload.model
        sync = FailingSync(model.disk, number, list(SyncFailure)[number % 2])
        error = run_until_refused(workload, STEPS_BEFORE_A_FAILED_SYNC)
        if error is None:
            assert sync.seen < number, f"sync {number} ({sync.operation}) failed, and no error was raised"
            break
        failed[workload.step] += 1
        model.disk.on_point = None
        # These two also sync files that are not part of the log yet, or no longer.
        if workload.step not in ("stop and start", "compaction"):
            assert isinstance(error, Refusal)
            assert error.error_code is ErrorCode.KAFKA_STORAGE_ERROR
            is_offline_for_good(model)
        model.log.close()
        for mode in CrashMode:
            crashed = model.disk.clone()
            crashed.crash(mode, Random(number))
            meets(model.expectations, open_log(crashed, model.config))
    print(f"{failed.total()} syncs failed, one a run: {dict(failed)}")
    assert failed.total() >= 100


def test_what_counts_as_synced_after_a_failed_sync_and_a_restart_survives_a_loss_of_power() -> None:
    tally = fail_everywhere(5, 40)
    print(f"{tally}, in {dict(tally.steps)}")
    assert tally.failed_syncs >= 30


def test_a_segment_that_was_closed_beside_a_failing_sync_is_written_again() -> None:
    """The process is killed before that sync returns; the sync of the roll succeeded."""
    disk = new_disk()
    log = open_log(disk, TopicConfig())
    append(log, "a")
    sync(log)
    append(log, "b")
    ticket = log.prepare_sync()
    disk.fail_next_sync(SyncFailure.MARKS_CLEAN, ".log")
    with pytest.raises(OSError, match="Input/output"):
        ticket.file.sync()
    run_now(log.rolling())
    append(log, "c")
    disk.crash(CrashMode.KEEP, Random(0))
    again = open_log(disk, TopicConfig())
    assert (again.synced_end_offset, len(again.segments())) == (3, 2)
    disk.crash(CrashMode.DROP, Random(0))
    assert read_all(open_log(disk, TopicConfig())) == ["a", "b", "c"]


# --- a full disk ---------------------------------------------------------------------------------------------


def is_refused_for_room(workload: Workload) -> bool:
    """Run one step; return whether the disk was full."""
    try:
        workload.run_step()
    except OSError as error:
        return error.errno == errno.ENOSPC
    except Refusal as refusal:
        is_well = workload.model.log.failure is None or workload.step == "stop and start"
        return is_well and refusal.error_code is ErrorCode.KAFKA_STORAGE_ERROR and "full" in refusal.message
    return False


def test_a_full_disk_refuses_and_everything_goes_on_when_there_is_room() -> None:
    refused: Counter[str] = Counter()
    room = Random(0)
    for seed in range(12):
        workload = Workload(seed)
        model, disk = workload.model, workload.model.disk
        for _ in range(STEPS):
            state = workload.random.getstate()
            disk.capacity_bytes -= disk.free_bytes("") - room.choice((0, 50, 400, 1500, 5000))
            is_refused = is_refused_for_room(workload)
            disk.capacity_bytes = 1 << 40
            if is_refused:
                refused[workload.step] += 1
                crashed = disk.clone()
                crashed.crash(room.choice(list(CrashMode)), room)
                meets(model.expectations, open_log(crashed, model.config))
                # The same once more.
                workload.random.setstate(state)
                workload.run_step()
        model.reopen(clean_shutdown=True)
        model.check()
    print(f"{refused.total()} steps met a full disk, were refused, and succeeded when there was room: {dict(refused)}")
    assert refused.total() >= 100


def fill_up_at(disk: SimDisk, operation: str) -> None:
    """Make the disk full from that operation on, until the hook is removed."""

    def on_point() -> None:
        if disk.last_operation.startswith(operation):
            disk.capacity_bytes -= disk.free_bytes("")

    disk.on_point = on_point


def has_room_again(disk: SimDisk) -> None:
    disk.on_point = None
    disk.capacity_bytes = 1 << 40


def takes_an_earlier_epoch(log: PartitionLog, disk: SimDisk) -> None:
    """Check that records appended in epoch 4 after offset 1 survive a crash, and do not look corrupt."""
    log.append_as_follower(stored("c", offset=1, epoch=4))
    sync(log)
    disk.crash(CrashMode.DROP, Random(0))
    again = open_log(disk, log.config)
    assert read_all(again) == ["a", "c"]
    assert again.epoch_cache.entries == ((4, 0),)


def test_a_truncation_without_room_for_the_epochs_leaves_none_that_makes_later_records_look_corrupt() -> None:
    disk = new_disk()
    log = open_log(disk, TopicConfig())
    append(log, "a", epoch=4)
    append(log, "b", epoch=5)
    fill_up_at(disk, f"create {DIRECTORY}/leader-epoch-checkpoint")
    assert log.truncate_to(Offset(1)) == 1
    has_room_again(disk)
    takes_an_earlier_epoch(log, disk)


def test_a_refused_append_of_a_new_epoch_leaves_no_epoch_that_makes_later_records_look_corrupt() -> None:
    disk = new_disk()
    log = open_log(disk, TopicConfig())
    append(log, "a", epoch=4)
    fill_up_at(disk, f"sync directory {DIRECTORY}")
    with pytest.raises(Refusal, match="full"):
        append(log, "b", epoch=5)
    has_room_again(disk)
    takes_an_earlier_epoch(log, disk)


@pytest.mark.parametrize("epoch", [4, 5, 6])
def test_a_refused_append_of_two_epochs_leaves_neither_behind(epoch: int) -> None:
    """The second would begin beyond the log's end: followers were sent it, and later records looked corrupt."""
    disk = new_disk()
    log = open_log(disk, TopicConfig())
    append(log, "a", epoch=4)
    fill_up_at(disk, f"sync directory {DIRECTORY}")
    with pytest.raises(Refusal, match="full"):
        log.append_as_follower(stored("b", offset=1, epoch=5) + stored("c", offset=2, epoch=6))
    has_room_again(disk)
    assert log.end_offset_for_epoch(LeaderEpoch(5)) == (-1, -1)
    values = [f"later {number}" for number in range(3)]
    for value in values:
        append(log, value, epoch=epoch)
    sync(log)
    assert read_all(log) == ["a", *values]
    disk.crash(CrashMode.DROP, Random(0))
    assert read_all(open_log(disk, log.config)) == ["a", *values]


# --- failed reads --------------------------------------------------------------------------------------------


def test_a_failed_read_takes_the_log_offline() -> None:
    workload = Workload(3)
    model = workload.model
    model.append([10])
    model.disk.unreadable.add(model.log.segments()[0].path)
    with pytest.raises(Refusal) as refused:
        model.check()
    assert refused.value.error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert model.log.failure is not None


# --- false syncs ---------------------------------------------------------------------------------------------


class LyingDisk(SimDisk):
    """Reports some syncs as done without doing them: as if the log had left them out."""

    lies_about: Callable[[str], bool]

    def sync(self, path: str, content: Content) -> None:
        if not self.lies_about(path):
            super().sync(path, content)

    def sync_dir(self, path: str) -> None:
        if not self.lies_about(path):
            super().sync_dir(path)


@pytest.mark.parametrize(
    ("left_out", "words"),
    [
        (".log", "which was synced|everything below [0-9]+ was durable"),
        ("orders-0", "which was synced|everything below [0-9]+ was durable"),
        (".log.cleaned", "the log holds .*, expected"),
        ("log-checkpoint.tmp", "the previous segment ends at offset"),
    ],
)
def test_a_sync_that_is_left_out_is_noticed_by_the_crash_points(left_out: str, words: str) -> None:
    """A test of the simulation. Other files need their syncs less: they can be rebuilt from the log."""
    disk = LyingDisk()
    disk.lies_about = lambda path: path.endswith(left_out)
    workload = Workload(1, disk=disk)
    random = Random(1)

    def crash() -> None:
        for mode in (CrashMode.DROP, CrashMode.REORDER):
            crashed = disk.clone()
            crashed.crash(mode, random)
            meets(workload.model.expectations, open_log(crashed, workload.model.config))

    disk.on_point = crash
    with pytest.raises((Broken, Corruption), match=words):
        workload.run(STEPS * 5)
